// Files of a volume, written on one agent and read on another, with the engine's cache and network
// and a leader in memory.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "engine/testing_volume_node.h"
#include "volume/testing/kept_request.h"

namespace hearth {
namespace {

using testing_cluster::connect;
using testing_cluster::pattern;
using testing_support::KeptRequest;
using testing_volume::contentOf;
using testing_volume::Node;
using testing_volume::write;
using testing_volume::writer;
using tree::inRoot;

using VolumeSessionsTest = testing_volume::VolumeNodesTest;

TEST_F(VolumeSessionsTest, AnotherAgentReadsAFileThatWasClosed) {
  const std::vector<char> bytes = pattern((9 << 20) + 12345, 1);
  const tree::InodeId inode = put(*a_, "file", bytes);
  ASSERT_TRUE(sealed(*a_));
  OpenedVolumeFile here = open(*a_, inode);
  ASSERT_NE(here.reading, nullptr);
  EXPECT_TRUE(here.reading->backing().ok());
  EXPECT_EQ(contentOf(here), bytes);
  OpenedVolumeFile there = open(*b_, inode);
  EXPECT_EQ(there.attributes.size, bytes.size());
  EXPECT_EQ(contentOf(there), bytes);
  EXPECT_EQ(there.version, here.version);
}

TEST_F(VolumeSessionsTest, AnotherAgentReadsAPublishedFileThatIsStillOpen) {
  const std::vector<char> bytes = pattern((5 << 20) + 77, 2);
  OpenedVolumeFile made = create(*a_, "file");
  const OwnedFd file = writer(made.session);
  write(file, bytes);
  ASSERT_EQ(a_->await(a_->files().publish(made.attributes.id)), 0);
  OpenedVolumeFile there = open(*b_, made.attributes.id);
  EXPECT_EQ(contentOf(there), bytes);
  // Processes of the node see what is written at once.
  write(file, {'x'});
  OpenedVolumeFile here = open(*a_, made.attributes.id);
  EXPECT_EQ(contentOf(here).front(), 'x');
  EXPECT_TRUE(here.session);
}

TEST_F(VolumeSessionsTest, AMappingThatOutlivesCloseIsPublishedWhenItEnds) {
  std::vector<char> bytes = pattern(1 << 20, 3);
  OpenedVolumeFile made = create(*a_, "file");
  OwnedFd file = writer(made.session);
  write(file, bytes);
  void* const mapped =
      ::mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ASSERT_EQ(a_->await(a_->files().publish(made.attributes.id)), 0);
  file.reset();
  a_->run(a_->files().closeWriter(made.attributes.id));
  static_cast<char*>(mapped)[5] = 'm';
  bytes[5] = 'm';
  EXPECT_EQ(a_->statistics().sessions, 1u);
  ::munmap(mapped, bytes.size());
  ASSERT_TRUE(sealed(*a_));
  OpenedVolumeFile there = open(*b_, made.attributes.id);
  EXPECT_EQ(contentOf(there), bytes);
}

TEST_F(VolumeSessionsTest, AReaderKeepsItsBytesWhenTheFileIsWrittenAgain) {
  const std::vector<char> before = pattern((4 << 20) + 5, 4);
  const tree::InodeId inode = put(*a_, "file", before);
  ASSERT_TRUE(sealed(*a_));
  OpenedVolumeFile old = open(*b_, inode);
  OpenedVolumeFile again = a_->await(a_->files().openToWrite(inode, std::nullopt, false));
  ASSERT_EQ(again.error, 0);
  EXPECT_EQ(contentOf(again), before);
  std::vector<char> after = before;
  {
    const OwnedFd file = writer(again.session);
    write(file, {'n', 'e', 'w'});
    std::copy_n("new", 3, after.begin());
    ASSERT_EQ(a_->await(a_->files().publish(inode)), 0);
  }
  a_->run(a_->files().closeWriter(inode));
  ASSERT_TRUE(sealed(*a_));
  OpenedVolumeFile fresh = open(*b_, inode);
  EXPECT_EQ(contentOf(fresh), after);
  EXPECT_EQ(contentOf(old), before);
  old = {};
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(tree_.mutex);
    return tree_.led.tree.tree().garbage().empty();
  }));
}

TEST_F(VolumeSessionsTest, AnotherAgentWritesOnceTheFirstHasClosed) {
  const std::vector<char> bytes = pattern((6 << 20) + 1, 5);
  OpenedVolumeFile made = create(*a_, "file");
  const tree::InodeId inode = made.attributes.id;
  OwnedFd file = writer(made.session);
  write(file, bytes);
  EXPECT_TRUE(b_->await(b_->files().openToWrite(inode, std::nullopt, false)).idle);
  EXPECT_EQ(b_->await(b_->files().write(inode, 0, std::as_bytes(std::span("b", 1)))), EBUSY);
  ASSERT_EQ(a_->await(a_->files().publish(inode)), 0);
  file.reset();
  a_->run(a_->files().closeWriter(inode));
  // Brings the bytes from the other node.
  OpenedVolumeFile taken = b_->await(b_->files().openToWrite(inode, std::nullopt, false));
  ASSERT_EQ(taken.error, 0);
  EXPECT_EQ(contentOf(taken), bytes);
}

TEST_F(VolumeSessionsTest, ARenameOfAnOpenFilePublishesIt) {
  const std::vector<char> bytes = pattern(70000, 6);
  OpenedVolumeFile made = create(*a_, "part");
  const OwnedFd file = writer(made.session);
  write(file, bytes);
  const ChangeReply moved =
      a_->await(a_->files().change(tree::Rename{inRoot("part"), inRoot("whole"), {}, {}}));
  ASSERT_EQ(moved.answer.error, 0);
  OpenedVolumeFile there = open(*b_, made.attributes.id);
  EXPECT_EQ(contentOf(there), bytes);
}

TEST_F(VolumeSessionsTest, SizesAreCutAndStretched) {
  std::vector<char> bytes = pattern(200000, 7);
  const tree::InodeId inode = put(*a_, "file", bytes);
  ASSERT_TRUE(sealed(*a_));
  for (const std::size_t size : {std::size_t{150001}, std::size_t{300000}, std::size_t{0}}) {
    bytes.resize(size);
    const ChangeReply cut =
        b_->await(b_->files().change(tree::SetAttributes{.inode = inode, .size = size}));
    ASSERT_EQ(cut.answer.error, 0);
    EXPECT_EQ(cut.attributes->size, size);
    ASSERT_TRUE(sealed(*b_));
    OpenedVolumeFile read = open(*a_, inode);
    EXPECT_EQ(read.attributes.size, size);
    EXPECT_EQ(contentOf(read), bytes);
  }
}

TEST_F(VolumeSessionsTest, TheNextAgentGoesOnWithTheSessionAndKeepsWhatWasSealed) {
  const std::vector<char> sealedBytes = pattern((5 << 20) + 9, 8), open1 = pattern(300000, 9);
  const tree::InodeId first = put(*a_, "sealed", sealedBytes);
  ASSERT_TRUE(sealed(*a_));
  OpenedVolumeFile made = create(*a_, "open");
  OpenedVolumeFile orphaned = create(*a_, "closed");
  const OwnedFd file = writer(made.session);
  write(file, open1);
  write(writer(orphaned.session), open1);
  a_.reset();
  a_ = std::make_unique<Node>(tree_, "a", folder_.path("a"), std::uint8_t{2});
  a_->start();
  connect({&a_->agent(), &b_->agent()});
  a_->run(a_->files().resume({{made.attributes.id, 1}}));
  write(file, {'l', 'a', 't', 'e'}, 300000);
  ASSERT_EQ(a_->await(a_->files().publish(made.attributes.id)), 0);
  ASSERT_TRUE(eventually([&] { return a_->statistics().sessions == 1; }));
  OpenedVolumeFile there = open(*b_, made.attributes.id);
  EXPECT_EQ(contentOf(there).size(), open1.size() + 4);
  OpenedVolumeFile closed = open(*b_, orphaned.attributes.id);
  EXPECT_EQ(contentOf(closed), open1);
  OpenedVolumeFile old = open(*b_, first);
  EXPECT_EQ(contentOf(old), sealedBytes);
}

TEST_F(VolumeSessionsTest, AFileWithoutANameGoesWhenNobodyHasItOpen) {
  const std::vector<char> bytes = pattern(3 << 20, 12);
  const tree::InodeId inode = put(*a_, "file", bytes);
  ASSERT_TRUE(sealed(*a_));
  const std::string sealedFiles = folder_.path("a/volumes/02/sealed");
  ASSERT_FALSE(std::filesystem::is_empty(sealedFiles));
  std::optional<OpenedVolumeFile> here = open(*a_, inode);
  ASSERT_EQ(a_->await(a_->files().change(tree::Unlink{inRoot("file")})).answer.error, 0);
  EXPECT_EQ(contentOf(*here), bytes);
  {
    const std::lock_guard lock(tree_.mutex);
    EXPECT_TRUE(tree_.led.tree.tree().orphans().contains(inode));
  }
  here.reset();
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(tree_.mutex);
    return tree_.led.tree.tree().orphans().empty() && tree_.led.tree.tree().garbage().empty();
  }));
  EXPECT_TRUE(std::filesystem::is_empty(sealedFiles));
  EXPECT_EQ(a_->agent().await(a_->agent().engine().statistics()).cache.residentBytes, 0u);
}

TEST_F(VolumeSessionsTest, AReaderKeepsAFileWhoseWritersAgentIsKilledBeforeItIsSealed) {
  const std::vector<char> bytes = pattern((5 << 20) + 3, 15);
  OpenedVolumeFile made = create(*a_, "file");
  const tree::InodeId inode = made.attributes.id;
  OwnedFd file = writer(made.session);
  write(file, bytes);
  ASSERT_EQ(a_->await(a_->files().publish(inode)), 0);
  OpenedVolumeFile there = open(*b_, inode);
  ASSERT_EQ(there.error, 0);
  a_.reset();
  a_ = std::make_unique<Node>(tree_, "a", folder_.path("a"), std::uint8_t{2});
  connect({&a_->agent(), &b_->agent()});
  a_->start();
  a_->run(a_->files().resume({{inode, 1}}));
  EXPECT_EQ(contentOf(there), bytes);
  // Sealed as what was published, it is the same content.
  file.reset();
  a_->run(a_->files().closeWriter(inode));
  ASSERT_TRUE(sealed(*a_));
  OpenedVolumeFile again = open(*b_, inode);
  EXPECT_EQ(again.version, there.version);
  EXPECT_EQ(contentOf(again), bytes);
}

TEST_F(VolumeSessionsTest, ARequestThatTheNextAgentGetsAgainIsExecutedOnce) {
  const std::vector<tree::ClientChange> changes{
      tree::MakeFolder{.place = inRoot("folder")},
      tree::Create{.place = inRoot("file"), .exclusive = true},
      tree::Rename{inRoot("file"), inRoot("moved"), {}, {}}, tree::Unlink{inRoot("moved")},
      tree::RemoveFolder{inRoot("folder")}};
  std::vector<std::shared_ptr<KeptRequest>> sent;
  for (const tree::ClientChange& change : changes) {
    sent.push_back(std::make_shared<KeptRequest>());
    ASSERT_EQ(a_->await(a_->files().change(change, sent.back())).answer.error, 0);
  }
  const tree::Create open{.place = inRoot("open"), .mode = 0644, .exclusive = true, .opens = true};
  const auto opening = std::make_shared<KeptRequest>();
  const OpenedVolumeFile first = a_->await(a_->files().create(open, false, opening));
  ASSERT_EQ(first.error, 0);
  a_.reset();
  a_ = std::make_unique<Node>(tree_, "a", folder_.path("a"), std::uint8_t{2});
  a_->start();
  a_->run(a_->files().resume({}));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const auto again = std::make_shared<KeptRequest>(sent[i]->asked);
    EXPECT_EQ(a_->await(a_->files().change(changes[i], again)).answer.error, 0) << i;
    EXPECT_FALSE(again->asked.has_value()) << i;
  }
  const auto reopening = std::make_shared<KeptRequest>(opening->asked);
  const OpenedVolumeFile second = a_->await(a_->files().create(open, false, reopening));
  EXPECT_EQ(second.error, 0);
  EXPECT_EQ(second.attributes.id, first.attributes.id);
  EXPECT_TRUE(second.session);
  // One that never came is executed now.
  const AskedChange lost{opening->asked->incarnation, opening->asked->number + 1};
  const auto late = std::make_shared<KeptRequest>(lost);
  EXPECT_EQ(a_->await(a_->files().change(changes[0], late)).answer.error, 0);
  EXPECT_TRUE(late->asked.has_value());
}

TEST_F(VolumeSessionsTest, AfterTheMachineStoppedOnlyWhatWasSyncedIsThere) {
  const std::vector<char> bytes = pattern(300000, 14);
  const tree::InodeId lost = put(*a_, "lost", bytes), claimed = put(*a_, "claimed", bytes);
  OpenedVolumeFile made = create(*a_, "synced");
  const tree::InodeId synced = made.attributes.id;
  write(writer(made.session), bytes);
  EXPECT_EQ(a_->await(a_->files().sync(synced)), 0);
  EXPECT_EQ(a_->await(a_->files().publish(synced)), 0);
  a_->run(a_->files().closeWriter(synced));
  ASSERT_TRUE(sealed(*a_));
  EXPECT_EQ(a_->await(a_->files().sync(claimed)), 0);
  a_.reset();
  // As after a crash of the kernel: another start, and claims that were never written.
  std::ofstream(folder_.path("a/volumes/02/boot")) << "another\n";
  std::filesystem::remove(folder_.path("a/residency.log"));
  a_ = std::make_unique<Node>(tree_, "a", folder_.path("a"), std::uint8_t{2});
  a_->start();
  OpenedVolumeFile read = open(*a_, synced);
  EXPECT_EQ(contentOf(read), bytes);
  const auto left = std::filesystem::directory_iterator(folder_.path("a/volumes/02/sealed"));
  EXPECT_EQ(std::distance(begin(left), end(left)), 1);
  EXPECT_NE(lost, claimed);
}

TEST_F(VolumeSessionsTest, AnUnlinkedFileThatIsWrittenLeavesNothing) {
  OpenedVolumeFile made = create(*a_, "file");
  const tree::InodeId inode = made.attributes.id;
  OwnedFd file = writer(made.session);
  ASSERT_EQ(a_->await(a_->files().change(tree::Unlink{inRoot("file")})).answer.error, 0);
  write(file, pattern(100000, 13));
  EXPECT_EQ(a_->await(a_->files().publish(inode)), 0);
  file.reset();
  a_->run(a_->files().closeWriter(inode));
  ASSERT_TRUE(sealed(*a_));
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path("a/volumes/02/sealed")));
}

TEST_F(VolumeSessionsTest, OnlyOpenHandlesSeeWhatALostSessionWrites) {
  OpenedVolumeFile made = create(*a_, "file");
  const tree::InodeId inode = made.attributes.id;
  OwnedFd file = writer(made.session);
  write(file, pattern(1000, 10));
  ASSERT_EQ(a_->await(a_->files().publish(inode)), 0);
  const tree::SessionId held = made.version.session;
  ASSERT_EQ(b_->await(b_->client().change(tree::OpenForWriting{.inode = inode, .lapsed = held}))
                .answer.error,
            0);
  write(file, pattern(1000, 11));
  EXPECT_EQ(a_->await(a_->files().publish(inode)), EIO);
  EXPECT_EQ(open(*a_, inode).error, EIO);
  file.reset();
  a_->run(a_->files().closeWriter(inode));
  ASSERT_TRUE(sealed(*a_));
}

}  // namespace
}  // namespace hearth
