#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "fetch/fetcher.h"

namespace hearth {

// How long other agents' bytes are waited for.
inline constexpr auto kPeerTimeout = std::chrono::seconds(40);

// How long not one byte of a holder's need come: when another agent holds the chunk, too, and when
// none is known to, so that the origin would have to be read again. Far longer than an agent that
// runs lets others wait.
inline constexpr auto kSilenceWithOthers = std::chrono::milliseconds(300);
inline constexpr auto kSilenceAlone = std::chrono::seconds(2);

// What arrives at an agent is passed on to others in pieces of this size: small, so that they have
// it soon; large enough that requests and the posts between event loops cost nothing.
inline constexpr std::size_t kArrivingBytes = std::size_t{512} << 10;

// What is reported to the directory of an agent that did not give a chunk: nothing when it was we
// who stopped asking. `held`: it was named as one that has it.
[[nodiscard]] inline FailureReport failureReportOf(const std::string& node, bool held,
                                                   const Status& failure) {
  if (failure.code() == ErrorCode::kCancelled || failure.code() == ErrorCode::kInvalidArgument)
    return {};
  return {.node = node, .held = held};
}

[[nodiscard]] inline Error shuttingDown() {
  return {ErrorCode::kCancelled, "the engine is shutting down"};
}

// One run on its way. Lives in run()'s frame.
struct Fetcher::RunState {
  std::shared_ptr<FileFetch> fetch;
  ChunkRun chunks;
  FetchOptions options;
  std::shared_ptr<Urgency> urgency;
  // Those that this run was started for; a chunk that was lost again may have a newer one by now.
  std::vector<std::shared_ptr<ChunkFlight>> flights;
  bool abandoned = false;  // who began it did not want it any more while it waited
  bool forgone = false;    // there was no room for what no reader waits for yet
  std::optional<Clock::time_point> yieldedAt;  // its memory to other datasets, the first time
  bool named = false;  // the directory may name us to others, who wait for us

  [[nodiscard]] ChunkFlight& flight(std::uint32_t chunk) const {
    return *flights[chunk - chunks.first];
  }
  [[nodiscard]] bool demand() const { return urgency->demand(); }
  // No reader waits, and whoever began it does not want it any more.
  [[nodiscard]] bool unwanted() const { return !demand() && options.unwanted(); }
  // Its origin is slow, and others waited for its memory: it is behind them now.
  [[nodiscard]] bool queuesAgain(const Status& fetched) {
    if (fetched.code() != ErrorCode::kTryElsewhere) return false;
    if (!yieldedAt) yieldedAt = Clock::now();
    return Clock::now() - *yieldedAt < kYieldingTimeout;
  }
  // Those that are not here yet, neither in the cache nor in memory.
  [[nodiscard]] ChunkMask missing() const {
    ChunkMask mask = 0;
    for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
      if (!fetch->cache->resident(chunk) && !flight(chunk).landed.isSet()) mask |= bitOf(chunk);
    }
    return mask;
  }
  // What comes of it goes to readers and is not kept. So it takes no grants: others, who keep what
  // they fetch, do not wait for us.
  [[nodiscard]] bool through() const {
    for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
      if (flight(chunk).toKeep || !fetch->cache->refuses(chunk)) return false;
    }
    return true;
  }
  // It only ran ahead of readers, none of whom waits for it yet.
  [[nodiscard]] bool unawaited() const {
    for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
      if (flight(chunk).readers != 0 || flight(chunk).toKeep) return false;
    }
    return !demand();
  }
  [[nodiscard]] std::uint64_t bytes() const {
    return bytesOf(std::numeric_limits<ChunkMask>::max());
  }
  [[nodiscard]] std::uint64_t bytesOf(ChunkMask mask) const {
    std::uint64_t sum = 0;
    for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
      if ((mask & bitOf(chunk)) != 0) sum += fetch->chunkSize(chunk);
    }
    return sum;
  }
  // The directory is asked whether we may bring the chunks, or has answered: null.
  void setAsking(const std::shared_ptr<Event>& asking) {
    for (const auto& each : flights) each->asking = asking;
  }
  // The chunk's bytes are in memory and checked: whoever waits for them may go on, here and on
  // other agents.
  void land(std::uint32_t chunk, const std::shared_ptr<LoadedChunk>& loaded) {
    ChunkFlight& landing = flight(chunk);
    fetch->loaded.put(chunk, loaded);
    if (landing.readers != 0) landing.loaded = loaded;
    landing.fromOrigin = false;
    landing.fromPeer = false;
    landing.landed.set();
    landing.leave();
  }
  // They do not come from the origin now: agents that wait for us to have them ask the directory,
  // which may have granted them to another one.
  void giveBack(ChunkMask granted) {
    for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
      if ((granted & bitOf(chunk)) == 0) continue;
      flight(chunk).fromOrigin = false;
      flight(chunk).leave();
    }
  }
  // What has not landed will not, or was in the cache already.
  void end(const Status& status) {
    for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
      ChunkFlight& ending = flight(chunk);
      if (ending.landed.isSet()) continue;
      ending.abandoned = abandoned;
      ending.forgone = forgone;
      fetch->shared->end(chunk, ending, status);
    }
  }
};

}  // namespace hearth
