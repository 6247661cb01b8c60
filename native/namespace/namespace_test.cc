#include "namespace/namespace.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "namespace/testing/led_namespace.h"

namespace hearth::tree {
namespace {

struct Names : ::testing::Test {
  LedNamespace volume;
  ClientId client = volume.join("a");

  InodeId make(const std::string& name) {
    return volume.ask(client, Create{.place = inRoot(name)}).inode;
  }
  InodeId folder(const Place& place) {
    return volume.ask(client, MakeFolder{.place = place, .mode = 0755}).inode;
  }
  // Names behind a cookie; puts the last cookie there.
  std::vector<std::string> page(std::uint64_t& cookie, std::size_t most) const {
    std::vector<std::string> names;
    for (const auto& item : volume.tree.list(kRootInode, cookie, most).items) {
      names.emplace_back(item.name);
      cookie = item.cookie;
    }
    return names;
  }
};

using Strings = std::vector<std::string>;

TEST_F(Names, AReaderOfAFolderMeetsWhatStaysExactlyOnce) {
  for (const char* const name : {"a", "b", "c", "d", "e", "f"}) make(name);
  std::uint64_t cookie = 0;
  EXPECT_EQ(page(cookie, 2), (Strings{"a", "b"}));
  EXPECT_GE(cookie, kFirstCookie);
  // The reader stands behind b, which goes; d is replaced, e and f change places, g comes.
  volume.ask(client, Unlink{inRoot("b")});
  volume.ask(client, Unlink{inRoot("c")});
  make("x");
  volume.ask(client, Rename{.from = inRoot("x"), .to = inRoot("d")});
  volume.ask(client, Rename{inRoot("e"), inRoot("f"), RenameMode::kExchange, {}});
  make("g");
  EXPECT_EQ(page(cookie, 9), (Strings{"d", "e", "f", "g"}));
  EXPECT_EQ(page(cookie, 9), Strings{});
}

TEST_F(Names, ListingSaysWhetherThereIsMore) {
  make("a");
  make("b");
  EXPECT_TRUE(volume.tree.list(kRootInode, 0, 1).more);
  EXPECT_FALSE(volume.tree.list(kRootInode, 0, 2).more);
  EXPECT_EQ(volume.tree.list(InodeId{99}, 0, 2).error, ESTALE);
  EXPECT_EQ(volume.tree.list(make("c"), 0, 2).error, ENOTDIR);
}

TEST_F(Names, AFolderMovesWithItsParent) {
  const InodeId a = folder(inRoot("a")), b = folder(inRoot("b")), c = folder({a, "c"});
  EXPECT_EQ(volume.tree.parentOf(c), a);
  EXPECT_EQ(volume.ask(client, Rename{.from = {a, "c"}, .to = {b, "c"}}).error, 0);
  EXPECT_EQ(volume.tree.parentOf(c), b);
  EXPECT_EQ(volume.ask(client, Rename{.from = inRoot("b"), .to = {c, "b"}}).error, EINVAL);
  EXPECT_EQ(volume.ask(client, Rename{.from = {b, "c"}, .to = inRoot("b")}).error, ENOTEMPTY);
  const Rename up{{b, "c"}, inRoot("b"), RenameMode::kExchange, {}};
  EXPECT_EQ(volume.ask(client, up).error, EINVAL);
  EXPECT_EQ(volume.tree.attributes(kRootInode)->inode.links, 4u);
}

TEST_F(Names, ANameThatMeansAnotherInodeNowIsStale) {
  const InodeId first = make("f");
  EXPECT_EQ(volume.tree.check(inRoot("f"), first), 0);
  volume.ask(client, Unlink{inRoot("f")});
  EXPECT_EQ(volume.tree.check(inRoot("f"), first), ESTALE);
  make("f");
  EXPECT_EQ(volume.tree.check(inRoot("f"), first), ESTALE);
  const OpenForWriting open{.inode = first, .place = inRoot("f")};
  EXPECT_EQ(volume.ask(client, open).error, ESTALE);
}

TEST_F(Names, ARemovedFolderStaysUntilItIsForgotten) {
  const InodeId gone = folder(inRoot("d"));
  EXPECT_EQ(volume.ask(client, RemoveFolder{inRoot("d")}).removed, gone);
  EXPECT_EQ(volume.tree.attributes(gone)->inode.links, 0u);
  EXPECT_EQ(volume.ask(client, Create{.place = {gone, "f"}}).error, ENOENT);
  EXPECT_EQ(volume.decide(Forget{gone}).error, 0);
  EXPECT_EQ(volume.ask(client, Create{.place = {gone, "f"}}).error, ESTALE);
}

TEST_F(Names, NewInodesTakeTheGroupOfAFolderWithSetgid) {
  const InodeId shared =
      volume.ask(client, MakeFolder{.place = inRoot("d"), .mode = 02775, .gid = 7}).inode;
  const InodeId below = folder({shared, "e"});
  EXPECT_EQ(volume.tree.attributes(below)->inode.gid, 7u);
  EXPECT_EQ(volume.tree.attributes(below)->inode.mode, 02755);
}

TEST_F(Names, AnswersAreKeptAsLongAsTheClientMayAsk) {
  Request first = volume.request(client, Create{.place = inRoot("f"), .exclusive = true});
  const auto done = volume.tree.execute(first);
  EXPECT_EQ(done.answer.error, 0);
  const auto again = volume.tree.execute(first);
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(again.answer, done.answer);
  EXPECT_EQ(again.record, done.record);
  // An error is an answer, too: the name is free when the request comes late.
  const Request refused = volume.request(client, Create{.place = inRoot("f"), .exclusive = true});
  EXPECT_EQ(volume.tree.execute(refused).answer.error, EEXIST);
  volume.ask(client, Unlink{inRoot("f")});
  EXPECT_EQ(volume.tree.execute(refused).answer.error, EEXIST);
  EXPECT_EQ(volume.tree.lookUp(kRootInode, "f").error, ENOENT);
  // The client has had all answers.
  Request next = volume.request(client, Unlink{inRoot("f")});
  next.doneBelow = next.id.number;
  EXPECT_EQ(volume.tree.execute(next).answer.error, ENOENT);
  EXPECT_EQ(volume.tree.execute(first).answer.refusal, Refusal::kForgotten);
  EXPECT_EQ(volume.tree.tree().client(client)->results.size(), 1u);
  EXPECT_EQ(volume.decide(Retire{client}).error, 0);
  EXPECT_EQ(volume.tree.execute(next).answer.refusal, Refusal::kUnknownClient);
}

TEST_F(Names, EpochsGrowAndRecordsFollow) {
  EXPECT_EQ(volume.tree.lead(1, 0).code(), ErrorCode::kConflict);
  EXPECT_EQ(volume.tree.lead(kMaxEpoch + 1, 0).code(), ErrorCode::kUnsupported);
  Namespace follower({});
  EXPECT_EQ(follower.apply(volume.log[1]).code(), ErrorCode::kInvalidArgument);
  for (const Record& record : volume.log) EXPECT_TRUE(follower.apply(record).ok());
  EXPECT_EQ(follower.apply(volume.log.back()).code(), ErrorCode::kInvalidArgument);
  // A follower executes nothing until it leads.
  const Request request = volume.request(client, Create{.place = inRoot("f")});
  EXPECT_EQ(follower.execute(request).answer.refusal, Refusal::kNotLeading);
  EXPECT_EQ(follower.lead(1, 0).code(), ErrorCode::kConflict);
  const auto begun = follower.lead(5, 0);
  ASSERT_TRUE(begun.ok());
  // A leader that was replaced takes its successor's records and leads no more.
  EXPECT_TRUE(volume.tree.apply(*begun).ok());
  EXPECT_EQ(volume.tree.execute(request).answer.refusal, Refusal::kNotLeading);
}

TEST_F(Names, RecordsThatContradictTheTreeAreRefused) {
  const auto refused = [&](KeyChange change) {
    Namespace follower({});
    for (const Record& record : volume.log) EXPECT_TRUE(follower.apply(record).ok());
    const Record next{1, volume.log.size() + 1, {std::move(change)}};
    return follower.apply(next).code() == ErrorCode::kCorrupt;
  };
  const InodeId file = make("f");
  const InodeId other = folder(inRoot("d"));
  EXPECT_TRUE(refused({Key::ofEntry(kRootInode, 99), Entry{InodeId{99}, "x"}}));
  EXPECT_TRUE(refused({Key::ofEntry(kRootInode, 99), Entry{file, "f"}}));
  EXPECT_TRUE(refused({Key::ofEntry(file, 99), Entry{file, "x"}}));
  EXPECT_TRUE(refused({Key::ofEntry(other, 99), Entry{kRootInode, "x"}}));
  EXPECT_TRUE(refused({Key::of(KeyKind::kInode, file), {}}));
  EXPECT_TRUE(refused({Key::of(KeyKind::kInode, other), Inode{.kind = Kind::kFile}}));
  EXPECT_TRUE(refused({Key::of(KeyKind::kContent, other), Content{}}));
  EXPECT_TRUE(refused({Key::of(KeyKind::kSession, file), {}}));
  EXPECT_TRUE(refused({Key::ofVolume(), Volume{.store = {9}, .epoch = 1}}));
  EXPECT_FALSE(refused({Key::ofXattr(file, "user.x"), Xattr{"v"}}));
}

}  // namespace
}  // namespace hearth::tree
