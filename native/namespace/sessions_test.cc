#include <gtest/gtest.h>

#include "namespace/testing/led_namespace.h"

namespace hearth::tree {
namespace {

using Runs = std::vector<ChunkRun>;

struct Sessions : ::testing::Test {
  LedNamespace volume;
  ClientId a = volume.join("a"), b = volume.join("b");

  Answer create(const ClientId& client, const std::string& name) {
    return volume.ask(client, Create{.place = inRoot(name), .opens = true});
  }
  Answer open(const ClientId& client, InodeId inode, OpenForWriting how = {}) {
    how.inode = inode;
    return volume.ask(client, how);
  }
};

TEST_F(Sessions, OneAgentWritesAFile) {
  const InodeId file = volume.file(a, inRoot("f"), 1);
  const Answer first = open(a, file);
  EXPECT_NE(first.session, kNoSession);
  EXPECT_EQ(first.content.counter, 1u);
  EXPECT_EQ(open(a, file), first);
  const Answer second = open(b, file);
  EXPECT_EQ(second.error, EBUSY);
  EXPECT_EQ(second.refusal, Refusal::kHeld);
  EXPECT_EQ(second.holder, a);
  EXPECT_EQ(volume.ask(a, EndSession{file, first.session, 0}).error, 0);
  EXPECT_EQ(open(b, file).error, 0);
}

TEST_F(Sessions, AnEmptyFileOpensOnTwoAgentsUntilTheSecondWrites) {
  const Answer lock = create(a, "lock");
  const Answer second = open(b, lock.inode, {.writes = false});
  EXPECT_EQ(second.error, 0);
  EXPECT_EQ(second.session, kNoSession);
  EXPECT_EQ(open(b, lock.inode, {.writes = true}).error, EBUSY);
  // By O_CREAT, too.
  const Answer again = create(b, "lock");
  EXPECT_EQ(again.error, 0);
  EXPECT_EQ(again.session, kNoSession);
  EXPECT_FALSE(again.created);
}

TEST_F(Sessions, UnlinkAndRenameOverAFileThatIsWrittenWork) {
  const Answer one = create(a, "one"), two = create(a, "two");
  const InodeId other = volume.file(b, inRoot("other"), 1);
  EXPECT_EQ(volume.ask(b, Unlink{inRoot("one")}).removed, one.inode);
  const Answer moved = volume.ask(b, Rename{.from = inRoot("other"), .to = inRoot("two")});
  EXPECT_EQ(moved.inode, other);
  EXPECT_EQ(moved.removed, two.inode);
  // Their writers go on and store nothing.
  EXPECT_EQ(volume.ask(a, LedNamespace::publishOf(a, two, 2)).error, 0);
  EXPECT_EQ(volume.tree.content(two.inode), nullptr);
  EXPECT_EQ(volume.garbage(), (Runs{{two.session, 0, 2, a.agent}}));
}

TEST_F(Sessions, APublishNeedsTheSessionAndTheVersionThatItWasComputedFrom) {
  const Answer made = create(a, "f");
  Publish first = LedNamespace::publishOf(a, made, 1, false);
  Publish stranger = first;
  stranger.content.runs[0].holder = b.agent;
  EXPECT_EQ(volume.ask(b, stranger).refusal, Refusal::kSessionOver);
  EXPECT_EQ(volume.ask(a, first).error, 0);
  const Answer late = volume.ask(a, first);
  EXPECT_EQ(late.error, EIO);
  EXPECT_EQ(late.refusal, Refusal::kOtherVersion);
  // b takes the file after a's lease has lapsed.
  EXPECT_EQ(open(b, made.inode, {.lapsed = SessionId{77}}).error, EBUSY);
  const Answer taken = open(b, made.inode, {.lapsed = made.session});
  EXPECT_EQ(taken.content, first.content.version);
  Publish after = first;
  after.base = first.content.version;
  after.content.version.counter = 2;
  EXPECT_EQ(volume.ask(a, after).refusal, Refusal::kSessionOver);
}

TEST_F(Sessions, APublishNamesChunksOfItsSessionAndOfItsBaseOnly) {
  const InodeId file = volume.file(a, inRoot("f"), 4);
  const SessionId old = volume.tree.content(file)->version.session;
  const Answer granted = open(b, file);
  Publish change = LedNamespace::publishOf(b, granted, 1, false);
  const auto refusal = [&] { return volume.ask(b, change).refusal; };
  change.content.length = 4 << 22;
  change.content.runs = {
      {old, 0, 2, a.agent}, {kNoSession, 0, 1, {}}, {granted.session, 0, 1, b.agent}};
  const auto good = change;
  change.content.runs[0].holder = b.agent;  // it says where another agent's chunks are
  EXPECT_EQ(refusal(), Refusal::kBadContent);
  change = good;
  change.content.runs[0].first = 3;  // one more than there is
  EXPECT_EQ(refusal(), Refusal::kBadContent);
  change = good;
  change.usedChunks = 0;  // a chunk that it does not have
  EXPECT_EQ(refusal(), Refusal::kBadContent);
  change = good;
  change.content.length = 3 << 22;
  EXPECT_EQ(refusal(), Refusal::kBadContent);
  change = good;
  change.content.version.session = old;
  EXPECT_EQ(refusal(), Refusal::kBadContent);
  EXPECT_EQ(volume.ask(b, good).error, 0);
  EXPECT_EQ(volume.garbage(), (Runs{{old, 2, 2, a.agent}}));
}

TEST_F(Sessions, ChunksOfASessionThatGoesOnAreNoGarbage) {
  const Answer made = create(a, "f");
  EXPECT_EQ(volume.ask(a, LedNamespace::publishOf(a, made, 2, false)).error, 0);
  Publish next = LedNamespace::publishOf(a, made, 2, false);
  next.base = {made.session, 1};
  next.content.version.counter = 2;
  next.content.runs = {{made.session, 0, 1, a.agent}, {made.session, 2, 1, a.agent}};
  next.usedChunks = 3;
  EXPECT_EQ(volume.ask(a, next).error, 0);
  EXPECT_EQ(volume.garbage(), Runs{});
  EXPECT_EQ(volume.tree.naming(made.inode, made.session, 1), Naming::kNamed);
  EXPECT_EQ(volume.ask(a, EndSession{made.inode, made.session, 5}).error, 0);
  EXPECT_EQ(volume.garbage(), (Runs{{made.session, 1, 1, a.agent}, {made.session, 3, 2, a.agent}}));
  EXPECT_EQ(volume.tree.naming(made.inode, made.session, 1), Naming::kUnnamed);
}

TEST_F(Sessions, AClientThatSaysLessThanItPublishedLosesNoChunk) {
  const Answer made = create(a, "f");
  Publish change = LedNamespace::publishOf(a, made, 3, false);
  EXPECT_EQ(volume.ask(a, change).error, 0);
  volume.ask(a, Unlink{inRoot("f")});
  change.usedChunks = 0;
  change.ends = true;
  EXPECT_EQ(volume.ask(a, change).error, 0);
  EXPECT_EQ(volume.garbage(), Runs{});
  EXPECT_EQ(volume.decide(Forget{made.inode}).error, 0);
  EXPECT_EQ(volume.garbage(), (Runs{{made.session, 0, 3, a.agent}}));
}

TEST_F(Sessions, ALaterStartOfTheAgentTakesASessionFileOver) {
  const Answer made = create(a, "f");
  EXPECT_EQ(volume.ask(a, LedNamespace::publishOf(a, made, 2, false)).error, 0);
  const ClientId again = volume.join("a", 2);
  EXPECT_EQ(again.agent, a.agent);
  const Answer adopted = open(again, made.inode, {.adopts = {{made.session, {}}}});
  EXPECT_EQ(adopted.error, 0);
  EXPECT_NE(adopted.session, made.session);
  EXPECT_EQ(adopted.content, (ContentVersion{made.session, 1}));
  // All that the old session may have written besides, as far as ids go.
  EXPECT_EQ(volume.garbage(), (Runs{{made.session, 2, kAllChunks - 2, a.agent}}));
  // Late requests of the old start are not executed.
  Publish late = LedNamespace::publishOf(a, made, 2);
  late.base = {made.session, 1};
  late.content.version.counter = 2;
  EXPECT_EQ(volume.ask(a, late).refusal, Refusal::kSuperseded);
  EXPECT_EQ(open(a, made.inode).refusal, Refusal::kSuperseded);
}

TEST_F(Sessions, ASessionFileIsAdoptedAsLongAsNobodyElsePublished) {
  const Answer made = create(a, "f");
  const OpenForWriting adopting{.adopts = {{made.session, {}}}};
  EXPECT_EQ(volume.ask(a, EndSession{made.inode, made.session, 0}).error, 0);
  EXPECT_EQ(open(a, made.inode, adopting).error, 0);
  const SessionId mine = volume.tree.session(made.inode)->id;
  const Answer other = open(b, made.inode, {.lapsed = mine});
  EXPECT_EQ(volume.ask(b, LedNamespace::publishOf(b, other, 1)).error, 0);
  const Answer refused = open(a, made.inode, adopting);
  EXPECT_EQ(refused.error, EIO);
  EXPECT_EQ(refused.refusal, Refusal::kOtherVersion);
}

TEST_F(Sessions, RenameAndLinkPublishAFileFirst) {
  const Answer made = create(a, "tmp");
  const InodeId old = volume.file(b, inRoot("final"), 1);
  Rename change{.from = inRoot("tmp"), .to = inRoot("final")};
  for (const ClientId& client : {a, b}) {
    const Answer answer = volume.ask(client, change);
    EXPECT_EQ(answer.error, EBUSY);
    EXPECT_EQ(answer.refusal, Refusal::kUnpublished);
    EXPECT_EQ(answer.holder, a);
  }
  EXPECT_EQ(volume.ask(a, Link{.inode = made.inode, .place = inRoot("l")}).error, EBUSY);
  EXPECT_EQ(volume.tree.lookUp(kRootInode, "final").inode, old);
  // A refused publish moves nothing.
  change.publish = LedNamespace::publishOf(a, made, 1, false);
  change.publish->base = {SessionId{5}, 1};
  EXPECT_EQ(volume.ask(a, change).refusal, Refusal::kOtherVersion);
  EXPECT_EQ(volume.tree.lookUp(kRootInode, "final").inode, old);
  change.publish->base = {};
  const std::size_t records = volume.log.size();
  const Answer answer = volume.ask(a, change);
  EXPECT_EQ(answer.error, 0);
  EXPECT_EQ(answer.content, (ContentVersion{made.session, 1}));
  EXPECT_EQ(volume.log.size(), records + 1);
  EXPECT_EQ(volume.tree.lookUp(kRootInode, "final").inode, made.inode);
  // Published once, it moves without another publish while it is written.
  EXPECT_EQ(volume.ask(b, Rename{.from = inRoot("final"), .to = inRoot("x")}).error, 0);
}

TEST_F(Sessions, TheBytesOfAnOrphanGoWhenItIsForgotten) {
  const InodeId file = volume.file(a, inRoot("f"), 3);
  const SessionId session = volume.tree.content(file)->version.session;
  EXPECT_EQ(volume.decide(Forget{file}).error, EINVAL);
  EXPECT_EQ(volume.ask(b, Unlink{inRoot("f")}).removed, file);
  EXPECT_EQ(volume.garbage(), Runs{});
  EXPECT_EQ(volume.tree.usage().bytes, 3u << 22);
  EXPECT_TRUE(volume.tree.tree().orphans().contains(file));
  EXPECT_EQ(volume.tree.naming(file, session, 2), Naming::kNamed);
  EXPECT_EQ(volume.decide(Forget{file}).error, 0);
  EXPECT_EQ(volume.garbage(), (Runs{{session, 0, 3, a.agent}}));
  EXPECT_EQ(volume.tree.usage().bytes, 0u);
  EXPECT_FALSE(volume.tree.attributes(file));
  const auto entry = *volume.tree.tree().garbage().begin();
  EXPECT_EQ(entry.first.record, volume.tree.lastRecord());
  EXPECT_EQ(volume.decide(Collected{{entry.first, entry.first}}).error, 0);
  EXPECT_EQ(volume.garbage(), Runs{});
}

TEST_F(Sessions, OfAListedContentTheCollectorReadsTheLists) {
  const Answer made = create(a, "f");
  Publish change = LedNamespace::publishOf(a, made, 1, false);
  change.content.listed = true;
  change.content.length = std::uint64_t{1} << 40;
  change.usedChunks = 9;
  EXPECT_EQ(volume.ask(a, change).error, 0);
  EXPECT_EQ(volume.tree.naming(made.inode, SessionId{9}, 0), Naming::kListed);
  change.base = change.content.version;
  change.content.version.counter = 2;
  change.content.runs = {{made.session, 9, 1, a.agent}};
  change.usedChunks = 10;
  change.ends = true;
  EXPECT_EQ(volume.ask(a, change).error, 0);
  const auto& garbage = volume.tree.tree().garbage();
  ASSERT_EQ(garbage.size(), 2u);
  const Garbage& list = garbage.begin()->second;
  EXPECT_TRUE(list.listed && list.lessNamed);
  EXPECT_EQ(list.runs, (Runs{{made.session, 0, 1, a.agent}}));
  const Garbage& rest = garbage.rbegin()->second;
  EXPECT_TRUE(!rest.listed && rest.lessNamed);
  EXPECT_EQ(rest.runs, (Runs{{made.session, 0, 10, a.agent}}));
}

TEST_F(Sessions, SizesChangeInASession) {
  const InodeId file = volume.file(a, inRoot("f"), 2);
  const auto resize = [&](const ClientId& client, std::uint64_t size) {
    return volume.ask(client, SetAttributes{.inode = file, .size = size});
  };
  EXPECT_EQ(resize(a, 5).refusal, Refusal::kNeedsSession);
  EXPECT_EQ(resize(a, 2 << 22).error, 0);
  const Answer granted = open(a, file);
  EXPECT_EQ(resize(a, 0).refusal, Refusal::kNeedsSession);
  EXPECT_EQ(resize(b, 0).refusal, Refusal::kHeld);
  EXPECT_EQ(volume.ask(a, EndSession{file, granted.session, 0}).error, 0);
  EXPECT_EQ(resize(b, 0).content, ContentVersion{});
  EXPECT_EQ(volume.tree.attributes(file)->size, 0u);
  EXPECT_EQ(volume.garbage().size(), 1u);
}

TEST_F(Sessions, QuotaCountsContents) {
  EXPECT_EQ(volume.decide(SetLimits{.maxBytes = 3 << 22, .maxInodes = 3}).error, 0);
  volume.file(a, inRoot("f"), 2);
  const Answer second = create(a, "g");
  EXPECT_EQ(create(a, "h").error, ENOSPC);
  EXPECT_EQ(volume.ask(a, LedNamespace::publishOf(a, second, 2)).error, ENOSPC);
  EXPECT_EQ(volume.ask(a, LedNamespace::publishOf(a, second, 1)).error, 0);
  EXPECT_EQ(volume.tree.usage().bytes, 3u << 22);
  EXPECT_EQ(volume.tree.usage().inodes, 3u);
}

TEST_F(Sessions, AFileThatIsEvictedMakesRoomAtOnce) {
  EXPECT_EQ(volume.decide(SetLimits{.maxBytes = 3 << 22, .maxInodes = 3}).error, 0);
  const InodeId old = volume.file(a, inRoot("old"), 2);
  EXPECT_EQ(volume.decide(Evict{old}).removed, old);
  EXPECT_EQ(volume.tree.lookUp(kRootInode, "old").error, ENOENT);
  // A reader that has it open keeps its bytes.
  EXPECT_EQ(volume.tree.attributes(old)->size, 2u << 22);
  EXPECT_EQ(volume.tree.usage().bytes, 2u << 22);
  volume.file(a, inRoot("f"), 2);
  volume.file(a, inRoot("g"), 1);
  EXPECT_EQ(volume.decide(Forget{old}).error, 0);
  EXPECT_EQ(volume.garbage(), (std::vector<ChunkRun>{{SessionId{idOf(1, 2)}, 0, 2, a.agent}}));
  EXPECT_EQ(volume.tree.usage().bytes, 3u << 22);
}

TEST_F(Sessions, FilesThatAreWrittenOrHaveOtherNamesAreNotEvicted) {
  const InodeId file = volume.file(a, inRoot("f"), 1);
  EXPECT_EQ(volume.decide(Evict{InodeId{99}}).error, ESTALE);
  EXPECT_EQ(volume.decide(Evict{kRootInode}).error, EINVAL);
  const Answer granted = open(a, file);
  EXPECT_EQ(volume.decide(Evict{file}).error, EBUSY);
  EXPECT_EQ(volume.ask(a, EndSession{file, granted.session, 0}).error, 0);
  EXPECT_EQ(volume.ask(a, Link{file, inRoot("other"), {}}).error, 0);
  EXPECT_EQ(volume.decide(Evict{file}).error, EBUSY);
  EXPECT_EQ(volume.ask(a, Unlink{inRoot("f")}).error, 0);
  EXPECT_EQ(volume.decide(Evict{file}).error, 0);
  EXPECT_EQ(volume.tree.lookUp(kRootInode, "other").error, ENOENT);
  EXPECT_EQ(volume.decide(Evict{file}).error, EBUSY);
}

}  // namespace
}  // namespace hearth::tree
