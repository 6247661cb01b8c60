#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "fetch/fetcher.h"

namespace hearth {

// Longest wait for another agent's bytes.
inline constexpr auto kPeerTimeout = std::chrono::seconds(40);

// Longest silence of a holder: when another agent holds the chunk, too, and when none is known to,
// so that the origin would be read again. Far longer than a running agent lets others wait.
inline constexpr auto kSilenceWithOthers = std::chrono::milliseconds(300);
inline constexpr auto kSilenceAlone = std::chrono::seconds(2);

// An agent passes an arriving chunk on in pieces of this size: small, so that others have them
// soon; large enough that requests and posts between event loops cost nothing.
inline constexpr std::size_t kArrivingBytes = std::size_t{512} << 10;

// The report to the directory about an agent that did not give a chunk; empty when we stopped
// asking. `held`: the directory named the agent as a holder.
[[nodiscard]] inline FailureReport failureReportOf(const std::string& node, bool held,
                                                   const Status& failure) {
  if (failure.code() == ErrorCode::kCancelled || failure.code() == ErrorCode::kInvalidArgument)
    return {};
  return {.node = node, .held = held};
}

[[nodiscard]] inline Error shuttingDown() {
  return {ErrorCode::kCancelled, "the engine is shutting down"};
}

// One run on its way. Lives until run() has ended, and for as long as bytes may come into memory
// that it has given.
struct Fetcher::RunState : std::enable_shared_from_this<Fetcher::RunState> {
  RunState(std::shared_ptr<FileFetch> of, ChunkRun run, FetchOptions asked,
           std::shared_ptr<Urgency> how)
      : fetch(std::move(of)), chunks(run), options(std::move(asked)), urgency(std::move(how)) {}

  std::shared_ptr<FileFetch> fetch;
  ChunkRun chunks;
  FetchOptions options;
  std::shared_ptr<Urgency> urgency;
  // The flights that this run was started for; a chunk that was lost again may have a newer flight.
  std::vector<std::shared_ptr<ChunkFlight>> flights;
  // Why it ended though nothing failed: kAbandoned or kForgone.
  std::optional<ChunkFlight::Reason> givenUp;
  std::optional<Clock::time_point> yieldedAt;  // when it first gave its memory to other datasets
  bool named = false;  // the directory may name us to others, who wait for us

  [[nodiscard]] ChunkFlight& flight(std::uint32_t chunk) const {
    return *flights[chunk - chunks.first];
  }
  [[nodiscard]] bool demand() const { return urgency->demand(); }
  // True: no reader waits, and the caller has given the bytes up.
  [[nodiscard]] bool unwanted() const { return !demand() && options.unwanted(); }
  // The same for transfers, which may ask after the run has ended.
  [[nodiscard]] std::function<bool()> unwantedQuery() const {
    return [run = weak_from_this()] {
      const std::shared_ptr<const RunState> live = run.lock();
      return live == nullptr || live->unwanted();
    };
  }
  // True: the run gave its memory to others, as its origin is slow, and now queues behind them.
  [[nodiscard]] bool queuesAgain(const Status& fetched) {
    if (fetched.code() != ErrorCode::kTryElsewhere) return false;
    if (!yieldedAt) yieldedAt = Clock::now();
    return Clock::now() - *yieldedAt < kYieldingTimeout;
  }
  // Chunks that are neither in the cache nor in memory.
  [[nodiscard]] ChunkMask missing() const {
    ChunkMask mask = 0;
    for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
      if (!fetch->cache->resident(chunk) && !flight(chunk).isOver()) mask |= bitOf(chunk);
    }
    return mask;
  }
  // True: the bytes go to readers and are not kept. Such a run takes no grants, so that agents that
  // keep their chunks do not wait for us.
  [[nodiscard]] bool through() const {
    for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
      if (flight(chunk).toKeep || !fetch->cache->refuses(chunk)) return false;
    }
    return true;
  }
  // True: the run only reads ahead, and no reader waits for it yet.
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
  // For the flights that have not landed.
  void enter(ChunkFlight::State state) {
    for (const auto& each : flights) {
      if (!each->isOver()) each->enter(state);
    }
  }
  // Lets waiters go on, here and on other agents: the chunk's bytes are in memory and checked.
  void land(std::uint32_t chunk, const std::shared_ptr<LoadedChunk>& loaded) {
    ChunkFlight& landing = flight(chunk);
    fetch->loaded.put(chunk, loaded);
    if (landing.readers != 0) landing.loaded = loaded;
    landing.enter(ChunkFlight::State::kLanded);
  }
  // Gives up granted chunks that do not come from the origin now. Agents that wait for us ask the
  // directory, which may have granted them to another agent.
  void giveBack(ChunkMask granted) {
    for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
      const bool isOurs = (granted & bitOf(chunk)) != 0 && !flight(chunk).isOver();
      if (isOurs) flight(chunk).enter(ChunkFlight::State::kWaiting);
    }
  }
  // Ends each flight that has not landed: its chunk will not come, or was in the cache already.
  void end(const Status& status) {
    for (std::uint32_t chunk = chunks.first; chunk < chunks.end(); ++chunk) {
      const ChunkFlight::Reason reason = givenUp.value_or(ChunkFlight::reasonOf(status));
      if (!flight(chunk).isOver()) fetch->shared->end(chunk, flight(chunk), reason, status);
    }
  }
};

}  // namespace hearth
