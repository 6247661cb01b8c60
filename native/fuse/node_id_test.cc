#include "fuse/node_id.h"

#include <gtest/gtest.h>

#include <set>

namespace hearth {
namespace {

constexpr std::uint64_t earlier(std::uint32_t entry, std::uint64_t mode, std::uint64_t epoch) {
  return std::uint64_t{entry} | mode << 32 | epoch << 34;
}

TEST(NodeId, ComesBackAsItWas) {
  for (const std::uint32_t entry : {1U, 2U, 77U, 0x7fffffffU, 0xffffffffU}) {
    for (const NodeKind kind : {NodeKind::kTree, NodeKind::kFile}) {
      const NodeId id{entry, kind};
      EXPECT_EQ(decodeNodeId(encodeNodeId(id)), id);
      EXPECT_FALSE(isEarlierNodeId(encodeNodeId(id)));
    }
  }
}

TEST(NodeId, RootIsWhatTheKernelCallsIt) {
  EXPECT_EQ(encodeNodeId(NodeId{}), 1U);
  EXPECT_EQ(decodeNodeId(1), NodeId{});
  EXPECT_FALSE(isEarlierNodeId(1));
}

TEST(NodeId, NothingIsTheRootOrNoNodeByAccident) {
  std::set<std::uint64_t> seen;
  for (std::uint32_t entry = 1; entry < 50; ++entry) {
    seen.insert(encodeNodeId({entry, NodeKind::kTree}));
    seen.insert(encodeNodeId({entry, NodeKind::kFile}));
  }
  EXPECT_EQ(seen.size(), 49U * 2U);
  EXPECT_FALSE(seen.contains(0));
  EXPECT_FALSE(seen.contains(kRootNode));
}

TEST(NodeId, OfAnEarlierReleaseLeadsToTheSameFile) {
  for (const std::uint32_t entry : {1U, 77U, 0xffffffffU}) {
    for (const std::uint64_t mode : {2U, 3U}) {
      for (const std::uint64_t epoch : {1U, 2U, (1U << 30) - 1}) {
        const std::uint64_t node = earlier(entry, mode, epoch);
        EXPECT_EQ(decodeNodeId(node), (NodeId{entry, NodeKind::kFile}));
        EXPECT_TRUE(isEarlierNodeId(node));
      }
    }
    EXPECT_FALSE(isEarlierNodeId(earlier(entry, 1, 0))) << "folders keep theirs";
  }
}

TEST(NodeId, RefusesWhatNoReleaseMakes) {
  EXPECT_FALSE(decodeNodeId(0));
  EXPECT_FALSE(decodeNodeId(2));                 // no kind
  EXPECT_FALSE(decodeNodeId(earlier(0, 2, 0)));  // entry 0 is the root
  EXPECT_FALSE(decodeNodeId(earlier(7, 1, 3)));  // folder, epoch
  EXPECT_FALSE(decodeNodeId(earlier(7, 3, 0)));  // passthrough, no epoch
  EXPECT_FALSE(isEarlierNodeId(earlier(7, 3, 0)));
}

TEST(NodeId, InodeNumbersStartAtOne) {
  EXPECT_EQ(inodeNumber(0), 1U);
  EXPECT_EQ(inodeNumber(0xffffffffU), 0x100000000ULL);
}

}  // namespace
}  // namespace hearth
