#include "volume_mount/node_table.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "holder/mount_watch.h"

namespace hearth {
namespace {

OwnedFd tableMemory(off_t bytes = NodeTable::kMinBytes) {
  OwnedFd memory(memfd_create("nodes", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(memory.get(), bytes), 0);
  return memory;
}

constexpr tree::InodeId kFile{77};

TEST(NodeTable, AnAlternativeIdIsNewestUntilTheKernelForgetsIt) {
  const OwnedFd memory = tableMemory();
  auto table = NodeTable::map(memory).value();
  EXPECT_EQ(table->newest(kFile), 77U);
  EXPECT_EQ(table->inodeOf(77), kFile);
  VolumeNode* const first = table->addAlternative(kFile);
  VolumeNode* const second = table->addAlternative(kFile);
  ASSERT_NE(second, nullptr);
  first->lookups = second->lookups = 1;
  EXPECT_EQ(table->newest(kFile), second->node);
  EXPECT_EQ(table->inodeOf(second->node), kFile);
  EXPECT_EQ(table->newest(tree::InodeId{78}), 78U);
  const std::uint64_t forgotten = second->node;
  second->lookups = 0;
  table->dropUnused(kFile);
  EXPECT_EQ(table->newest(kFile), first->node);
  EXPECT_EQ(table->inodeOf(forgotten), tree::kNoInode);
  EXPECT_NE(table->addAlternative(kFile)->node, forgotten);
}

TEST(NodeTable, AnAlternativeIdWaitsForItsLookUpWhileAnotherNodeIsOpen) {
  auto table = NodeTable::map(tableMemory()).value();
  VolumeNode* const open = table->add(77);
  open->opens = 1;
  const std::uint64_t alternative = table->addAlternative(kFile)->node;
  table->dropUnused(kFile);
  EXPECT_EQ(table->newest(kFile), alternative);
  open->opens = 0;
  table->dropUnused(kFile);
  EXPECT_EQ(table->newest(kFile), 77U);
  EXPECT_EQ(table->find(77), nullptr);
}

TEST(NodeTable, TheNextAgentFindsNodesAndTheRequestCountedLast) {
  const OwnedFd memory = tableMemory();
  std::uint64_t alternative = 0;
  {
    auto table = NodeTable::map(memory).value();
    VolumeNode* const open = table->add(77);
    open->opens = 3;
    open->writers = 2;
    VolumeNode* const other = table->addAlternative(kFile);
    other->lookups = 5;
    alternative = other->node;
    table->setCounted(99);
  }
  auto table = NodeTable::map(memory).value();
  EXPECT_EQ(table->counted(), 99U);
  EXPECT_EQ(table->newest(kFile), alternative);
  ASSERT_NE(table->find(77), nullptr);
  EXPECT_EQ(table->find(77)->writers, 2U);
  EXPECT_EQ(table->find(alternative)->lookups, 5U);
  EXPECT_GT(table->addAlternative(kFile)->node, alternative);
}

TEST(NodeTable, AFullTableTakesNothingUntilANodeIsDropped) {
  auto table = NodeTable::map(tableMemory()).value();
  std::uint64_t node = 1;
  while (VolumeNode* const added = table->add(node)) {
    added->opens = 1;
    ++node;
  }
  EXPECT_EQ(node - 1, (4096U - 32 - MountWatch::kBytes) / sizeof(VolumeNode));
  EXPECT_EQ(table->addAlternative(kFile), nullptr);
  VolumeNode* const one = table->find(1);
  one->opens = 0;
  table->dropUnused(tree::InodeId{1});
  EXPECT_NE(table->addAlternative(kFile), nullptr);
}

TEST(NodeTable, RefusesMemoryOfAnotherFormat) {
  const OwnedFd memory = tableMemory();
  ASSERT_EQ(pwrite(memory.get(), "HARTHOC1", 8, 0), 8);
  EXPECT_EQ(NodeTable::map(memory).code(), ErrorCode::kProtocolError);
  EXPECT_EQ(NodeTable::map(tableMemory(100)).code(), ErrorCode::kProtocolError);
}

}  // namespace
}  // namespace hearth
