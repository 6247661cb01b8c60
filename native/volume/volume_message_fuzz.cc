// Whatever a peer sends, a leader refuses the message, executes a change or answers a query; a
// follower takes every record that this makes, and has the same tree. A reply is refused or
// understood. Messages are understood again after encoding them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "volume/change_message.h"
#include "volume/query_message.h"
#include "volume/upkeep_message.h"

namespace {

using hearth::ChangeMessage;
using hearth::tree::Bytes;
using hearth::tree::Namespace;

void require(bool truth) {
  if (!truth) std::abort();
}

Bytes checkpointOf(const Namespace& tree) {
  Bytes bytes;
  tree.checkpoint(bytes);
  return bytes;
}

// The decoder understands each message again that it has understood and the encoder has written.
template <class Decode>
void checkAgain(std::span<const std::byte> body, Decode decode) {
  const auto message = decode(body);
  if (!message) return;
  const Bytes encoded = hearth::encode(*message);
  require(hearth::encode(*decode(encoded)) == encoded);
}

bool checkReply(std::span<const std::byte> body) {
  const auto reply = hearth::decodeQueryReply(body);
  if (!reply) return false;
  const Bytes encoded = hearth::encode(*reply);
  require(hearth::encode(*hearth::decodeQueryReply(encoded)) == encoded);
  return true;
}

// A leader with two clients, and its follower.
struct Cluster {
  Namespace leader{{}}, follower{{}};
  hearth::tree::ClientId clients[2];
  std::uint64_t number = 0;

  Cluster() {
    take(*leader.lead(1, 0));
    for (const char* const node : {"a", "b"}) {
      auto joined = leader.decide(hearth::tree::Join{node, {1}}, 0);
      take(*joined.log);
      clients[node[0] - 'a'] = joined.answer.holder;
    }
  }
  void take(const hearth::tree::Record& record) {
    Bytes bytes;
    hearth::tree::appendRecord(bytes, record);
    const auto parsed = hearth::tree::parseRecord(bytes);
    require(parsed.kind == hearth::tree::Parse::kGood && parsed.record == record);
    require(follower.apply(parsed.record).ok());
  }
  void execute(const ChangeMessage& message) {
    ++number;
    auto outcome = leader.execute({.id = {clients[message.number % 2], number},
                                   .epoch = 1,
                                   .doneBelow = number,
                                   .change = message.change});
    require(outcome.log.has_value());
    take(*outcome.log);
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto input = std::as_bytes(std::span(data, size));
  if (const auto reply = hearth::decodeReply(input)) {
    const Bytes encoded = hearth::encode(*reply);
    require(hearth::encode(*hearth::decodeReply(encoded)) == encoded);
  }
  checkReply(input);
  checkAgain(input, hearth::decodeJoin);
  checkAgain(input, hearth::decodeUpkeep);
  checkAgain(input, hearth::decodeUpkeepReply);
  Cluster cluster;
  while (input.size() > 1) {
    const std::size_t length =
        std::min<std::size_t>(static_cast<std::size_t>(input[0]) * 2, input.size() - 1);
    const auto body = input.subspan(1, length);
    const auto message = hearth::decodeChange(body);
    input = input.subspan(1 + length);
    if (message) {
      const Bytes encoded = hearth::encode(*message);
      require(hearth::encode(*hearth::decodeChange(encoded)) == encoded);
      cluster.execute(*message);
    } else if (const auto query = hearth::decodeQuery(body)) {
      const Bytes encoded = hearth::encode(*query);
      require(hearth::encode(*hearth::decodeQuery(encoded)) == encoded);
      require(checkReply(hearth::encode(hearth::answerQuery(cluster.leader, query->query))));
    }
  }
  require(checkpointOf(cluster.leader) == checkpointOf(cluster.follower));
  return 0;
}
