#include "volume/upkeep_message.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

using tree::AgentId;
using tree::InodeId;
using tree::SessionId;

template <class Body, class Decode>
void expectComesBack(const Body& body, Decode decode) {
  const auto bytes = encode(body);
  const auto decoded = decode(bytes);
  ASSERT_TRUE(decoded);
  // Every field is in the bytes, so that equal bytes are equal messages.
  EXPECT_EQ(encode(*decoded), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(decode(std::span(bytes).first(size))) << size;
  }
}

TEST(UpkeepMessage, ComesBack) {
  const UpkeepMessage message{{1}, 2, {{InodeId{3}, InodeId{4}}, {{5, 6}}, {{7, 8}, {9, 10}}}};
  expectComesBack(message, decodeUpkeep);
  EXPECT_EQ(decodeUpkeep(encode(message))->released.collected, message.released.collected);
  UpkeepMessage many;
  many.released.unused.resize(kMaxUpkeepIds + 1);
  EXPECT_FALSE(decodeUpkeep(encode(many)));
}

TEST(UpkeepReply, ComesBack) {
  UpkeepReply reply{.error = 5, .orphans = {InodeId{3}}, .more = true};
  const tree::ChunkRun run{SessionId{11}, 12, 13, AgentId{14}};
  reply.garbage = {{{9, 1}, true, {InodeId{10}, true, false, {run, run}}}, {{9, 2}, false, {}}};
  expectComesBack(reply, decodeUpkeepReply);
  EXPECT_EQ(decodeUpkeepReply(encode(reply))->garbage[0].garbage, reply.garbage[0].garbage);
  reply.error = -1;
  EXPECT_FALSE(decodeUpkeepReply(encode(reply)));
}

}  // namespace
}  // namespace hearth
