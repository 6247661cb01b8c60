// One chunk on its way to this agent, as one state that one function changes.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "dataset/dataset.h"
#include "fetch/chunk_arrival.h"
#include "fetch/loaded_chunk.h"
#include "fetch/urgency.h"
#include "reactor/synchronization.h"

namespace hearth {

// All that want a chunk wait for the same flight. It fetches as the dataset that wanted the chunk
// first: an origin may refuse the chunk to one dataset and give it to another. On the key's shard.
class ChunkFlight {
 public:
  enum class State : std::uint8_t {
    kWaiting,     // for a turn, memory or another agent's fetch
    kAsking,      // the directory has not answered yet whether we may fetch or read the chunk
    kFromOrigin,  // granted to us by the directory, and being fetched
    kFromPeer,    // being read from an agent that holds it
    kLanded,      // in memory and checked, for readers and other agents; on its way to the disk
    kEnded,       // in the cache file, or not on its way any more: reason()
  };
  enum class Reason : std::uint8_t {
    kStored,
    kFailed,
    kAbandoned,  // its job gave it up; others that want the chunk begin again
    kForgone,    // no reader waited for it, and it could not have been kept
    kDeclined,   // not to be kept, and the cache, which refused others lately, was not asked
  };

  [[nodiscard]] static Reason reasonOf(const Status& status) {
    return status.ok() ? Reason::kStored : Reason::kFailed;
  }

  // `reactor` must remain live while this object is used.
  ChunkFlight(Reactor& reactor, std::shared_ptr<const Dataset> fetchedAs)
      : dataset(std::move(fetchedAs)), reactor_(reactor), landed_(reactor), ended_(reactor) {}

  const std::shared_ptr<const Dataset> dataset;
  std::shared_ptr<Urgency> urgency;  // of its run
  // Set from landing until the last of the waiting `readers` has the chunk.
  std::shared_ptr<LoadedChunk> loaded;
  std::uint32_t readers = 0;
  bool toKeep = false;  // it is needed in the cache

  // Changes the state, and wakes those that wait for the former one to be over or for the next one.
  // False, without a change: from kLanded only kEnded follows, and nothing follows kEnded.
  bool enter(State next);
  // The same for kEnded. `status`: ok when the chunk is in the cache file.
  bool end(Reason reason, Status status);
  // Lets other agents read what has come from the origin, until the state changes.
  void offer(std::shared_ptr<ChunkArrival> arrival);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool isUnderWay() const {
    return state_ == State::kFromOrigin || state_ == State::kFromPeer;
  }
  // True: no run needs to bring the chunk any more.
  [[nodiscard]] bool isOver() const { return state_ >= State::kLanded; }
  [[nodiscard]] bool hasEnded() const { return state_ == State::kEnded; }
  [[nodiscard]] Reason reason() const { return reason_; }
  [[nodiscard]] const Status& status() const { return status_; }
  // Null: other agents may not read the chunk before it has landed.
  [[nodiscard]] const std::shared_ptr<ChunkArrival>& arrival() const { return arrival_; }

  // Awaitables: isOver(), and hasEnded() (endingUntil() gives false when the deadline came first).
  [[nodiscard]] auto landing() { return landed_.wait(); }
  [[nodiscard]] auto ending() { return ended_.wait(); }
  [[nodiscard]] auto endingUntil(Clock::time_point deadline) { return ended_.waitUntil(deadline); }
  // Set when the flight is in another state than now.
  [[nodiscard]] std::shared_ptr<Event> change();

 private:
  Reactor& reactor_;
  State state_ = State::kWaiting;
  Reason reason_ = Reason::kStored;
  Status status_;
  Event landed_;                   // isOver()
  Event ended_;                    // hasEnded()
  std::shared_ptr<Event> change_;  // null: nobody waits for a change
  std::shared_ptr<ChunkArrival> arrival_;
};

}  // namespace hearth
