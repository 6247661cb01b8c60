// The event loops of the engine as movers of bytes. The state of a file belongs to the shard of its
// key and changes there alone: chunks that are here or under way, their memory, the directory.
// Moving the bytes takes nearly all of the processor's time (receiving, checksums, copies for
// readers), and any loop can do it: the runs of a file take the loops in turn, so one large file
// uses all of them. A run costs two hops between loops, some 15 us, and takes milliseconds. A hop
// to a busy loop takes longer than a few bytes do, so small ranges stay on the shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/content_key.h"
#include "base/result.h"
#include "memory/memory_vector.h"
#include "origin/origin_client.h"
#include "reactor/reactor.h"
#include "transport/peer_transport.h"

namespace hearth {

// The means to move bytes on one event loop. Used on the thread of `reactor`.
struct ByteLane {
  Reactor& reactor;
  OriginClient& origin;
  PeerTransport& transport;
};

// One request to an origin.
struct OriginRange {
  Location location;
  OriginExpectation expectation;
  std::uint64_t offset = 0;                // in the object
  std::vector<std::span<std::byte>> into;  // as for OriginClient::fetch
};

// One request to another agent.
struct PeerRange {
  std::string node;
  ContentKey key;
  std::uint64_t offset = 0;
  MemoryVector into;
  RequestTimeouts timeouts;
  RequestClass requestClass = RequestClass::kDemand;
};

// The lanes of one engine, as one of its shards uses them. On that shard's thread.
class ByteLanes {
 public:
  // Smaller ranges stay on the shard.
  static constexpr std::size_t kFromBytes = 256u << 10;

  // `all`: the lanes by the number of their shards; complete before the first byte moves, and live
  // while this object is used. `own`: this shard's number.
  ByteLanes(const std::vector<ByteLane>& all, std::size_t own) : all_(all), own_(own) {}

  // As OriginClient::fetch, by the lane of `chunk`, the first that the range fills. `filled` gets
  // the CRC32C of the piece's blocks; it and `memoryWanted` are called on the shard's thread, and
  // neither after the end of the task. Another lane gets the last answer of `memoryWanted` and of
  // Location::unwanted, which may be asked after the end.
  using Filled = std::function<void(std::size_t piece, std::vector<std::uint32_t> checksums)>;
  [[nodiscard]] Task<Status> fetch(std::uint32_t chunk, OriginRange range, Filled filled,
                                   std::function<bool()> memoryWanted) const;

  // As OriginClient::stream, by one lane of all for each number; shards begin with different ones.
  // The callbacks of `sink` are called on that lane's thread, `memoryWanted` and Location::unwanted
  // on the shard's. Ends `sink`.
  [[nodiscard]] Task<Status> stream(std::size_t number, Location location,
                                    OriginExpectation expectation, PieceSink& sink,
                                    std::function<bool()> memoryWanted) const;
  // Where such a stream runs: its sink is used there alone.
  [[nodiscard]] Reactor& reactorOf(std::size_t number) const { return laneOf(number).reactor; }

  // As PeerTransport::read, by the lane of `chunk`, of which the range is a part, or by the shard
  // while that lane has no connection to the agent. Any thread may drop the memory's owner.
  [[nodiscard]] Task<Status> read(std::uint32_t chunk, PeerRange range,
                                  std::vector<std::uint32_t>& blockChecksums);

  // The reactor for work on `bytes` of `chunk`: its lane's, or the shard's for few bytes.
  [[nodiscard]] Reactor& reactorFor(std::uint64_t chunk, std::size_t bytes) const {
    return laneFor(chunk, bytes).reactor;
  }

 private:
  [[nodiscard]] const ByteLane& own() const { return all_[own_]; }
  [[nodiscard]] const ByteLane& laneOf(std::size_t number) const {
    return all_[(own_ + number) % all_.size()];
  }
  [[nodiscard]] const ByteLane& laneFor(std::uint64_t chunk, std::size_t bytes) const;
  // Makes `query`, which only the shard's thread may ask, one that `lane` may ask.
  void askFrom(const ByteLane& lane, std::function<bool()>& query) const;

  const std::vector<ByteLane>& all_;
  const std::size_t own_;
  // Silent agents, each with the lane that found the silence. Reads use this lane, which refuses at
  // once and probes the agent: otherwise every lane would wait for the agent once more.
  std::map<std::string, const ByteLane*> silent_;
};

}  // namespace hearth
