#include "volume/change_message.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/byte_codec.h"

namespace hearth {
namespace {

using Body = std::vector<std::byte>;

const tree::SessionId kSession{tree::idOf(3, 4)};
const tree::InodeId kInode{tree::idOf(1, 2)};

tree::Publish samplePublish() {
  tree::Publish publish{.inode = kInode, .session = kSession, .base = {kSession, 5}};
  publish.content = {{kSession, 6}, 7, false, {{kSession, 8, 9, tree::AgentId{10}}}};
  publish.modifiedNs = -11;
  publish.usedChunks = 12;
  publish.ends = true;
  return publish;
}

// One of each kind, with every field.
std::vector<tree::ClientChange> allChanges() {
  const tree::Place place{kInode, "name"}, other{tree::kRootInode, "other"};
  return {
      tree::Create{place, tree::Kind::kFifo, 01644, 2, 3, true, true},
      tree::MakeFolder{place, 0755, 2, 3},
      tree::MakeSymlink{place, "target", 2, 3},
      tree::Unlink{place},
      tree::RemoveFolder{place},
      tree::Link{kInode, place, samplePublish()},
      tree::Rename{place, other, tree::RenameMode::kExchange, samplePublish()},
      tree::SetAttributes{kInode, 0600, 2, 3, -4, 5, 6},
      tree::SetXattr{kInode, "user.x", std::string("v\0", 2), tree::XattrMode::kReplace},
      tree::RemoveXattr{kInode, "user.x"},
      tree::OpenForWriting{
          .inode = kInode, .place = place, .writes = false, .adopts = {{kSession, {kSession, 1}}}},
      samplePublish(),
      tree::EndSession{kInode, kSession, 7}};
}

ChangeMessage messageOf(tree::ClientChange change) {
  return {{1}, {2}, 3, 4, 5, std::move(change)};
}

std::string textOf(const Body& body) {
  std::string hex;
  for (const std::byte byte : body) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned>(byte) >> 4];
    hex += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return hex;
}

TEST(ChangeMessage, EveryChangeComesBack) {
  const auto changes = allChanges();
  ASSERT_EQ(changes.size(), std::variant_size_v<tree::ClientChange>);
  for (std::size_t i = 0; i < changes.size(); ++i) {
    ASSERT_EQ(changes[i].index(), i);
    const Body body = encode(messageOf(changes[i]));
    const auto decoded = decodeChange(body);
    ASSERT_TRUE(decoded) << i;
    EXPECT_EQ(decoded->change.index(), i);
    EXPECT_EQ(decoded->volume, tree::WideId{1});
    EXPECT_EQ(decoded->incarnation, tree::WideId{2});
    EXPECT_EQ(decoded->epoch, 3u);
    EXPECT_EQ(decoded->number, 4u);
    EXPECT_EQ(decoded->doneBelow, 5u);
    // Every field is in the bytes, so that equal bytes are equal changes.
    EXPECT_EQ(encode(*decoded), body) << i;
    for (std::size_t size = 0; size < body.size(); ++size) {
      ASSERT_FALSE(decodeChange(std::span(body).first(size))) << i << ", " << size;
    }
  }
  const auto rename = std::get<tree::Rename>(decodeChange(encode(messageOf(changes[6])))->change);
  EXPECT_EQ(rename.to.name, "other");
  EXPECT_EQ(rename.publish->content, samplePublish().content);
  EXPECT_EQ(rename.publish->modifiedNs, -11);
}

// Every later release reads these bytes.
TEST(ChangeMessage, Bytes) {
  const auto changes = allChanges();
  const std::string head =
      "01000000000000000000000000000000"
      "02000000000000000000000000000000"
      "030000000000000004000000000000000500000000000000";
  EXPECT_EQ(textOf(encode(messageOf(changes[0]))), head +
                                                       "00"
                                                       "0200000000010000"
                                                       "0400"
                                                       "6e616d65"
                                                       "04"
                                                       "a403"
                                                       "02000000"
                                                       "03000000"
                                                       "01"
                                                       "01");
  EXPECT_EQ(textOf(encode(messageOf(changes[12]))), head +
                                                        "0c"
                                                        "0200000000010000"
                                                        "0400000000030000"
                                                        "07000000");
}

TEST(ChangeMessage, FieldsThatCannotBeAreRefused) {
  Body body = encode(messageOf(allChanges()[3]));
  Body later = body;
  {
    ByteWriter out(later);
    out.u16(7);
    out.u16(0);
  }
  EXPECT_TRUE(decodeChange(later));
  later[later.size() - 3] = std::byte{0x80};
  EXPECT_FALSE(decodeChange(later));
  body[56] = std::byte{13};  // a kind of change that there is not
  EXPECT_FALSE(decodeChange(body));
  body = encode(messageOf(allChanges()[0]));
  body.back() = std::byte{2};
  EXPECT_FALSE(decodeChange(body));
  tree::Publish many = samplePublish();
  many.content.runs.resize(tree::kMaxRuns + 1);
  EXPECT_FALSE(decodeChange(encode(messageOf(many))));
}

TEST(JoinMessage, ComesBack) {
  const Body body = encode(JoinMessage{{1}, {2}, 3});
  const auto decoded = decodeJoin(body);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->incarnation, tree::WideId{2});
  EXPECT_EQ(encode(*decoded), body);
  for (std::size_t size = 0; size < body.size(); ++size) {
    ASSERT_FALSE(decodeJoin(std::span(body).first(size))) << size;
  }
}

TEST(ChangeReply, ComesBack) {
  ChangeReply reply;
  reply.answer = {.error = 16, .refusal = tree::Refusal::kHeld, .created = true, .inode = kInode};
  reply.answer.removed = tree::InodeId{9};
  reply.answer.session = kSession;
  reply.answer.content = {kSession, 1};
  reply.answer.holder = {tree::AgentId{2}, {3}};
  reply.attributes =
      tree::Attributes{kInode, {tree::Kind::kFolder, 0755, 1, 2, 3, -4, 5, 6, 7}, 8, {kSession, 9}};
  const Body body = encode(reply);
  const auto decoded = decodeReply(body);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->answer, reply.answer);
  EXPECT_EQ(decoded->attributes->inode, reply.attributes->inode);
  EXPECT_EQ(encode(*decoded), body);
  for (std::size_t size = 0; size < body.size(); ++size) {
    ASSERT_FALSE(decodeReply(std::span(body).first(size))) << size;
  }
}

}  // namespace
}  // namespace hearth
