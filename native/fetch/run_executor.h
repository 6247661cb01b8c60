// Executes one run: looks for its chunks, waits for turns and memory, and asks agents or the origin
// until all chunks are here or cannot be got.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/back_off.h"
#include "fetch/fetch_run.h"

namespace hearth {

// Lives in run()'s frame, as its state does. On the fetcher's shard.
class Fetcher::RunExecutor {
 public:
  // Both must remain live while this object is used.
  RunExecutor(Fetcher& fetcher, RunState& state);

  // Ends when no chunk of the run is missing, or with the error that prevents that.
  [[nodiscard]] Task<Status> run();

 private:
  // The status with which the run ends; nothing: the run takes another step.
  using Ended = std::optional<Status>;

  Task<Ended> step(ChunkMask missing);
  // After the origin has refused the file: readers who wait may still get it from other agents.
  Task<Ended> lookElsewhere(ChunkMask missing, Error refused);
  // Ends a run that is not wanted, or that could not be kept and for which no reader waits.
  [[nodiscard]] Ended givenUp(bool through);
  void askForTurn();
  // Buffers for the whole run; none before its turn.
  Task<std::vector<ChunkBuffer>> memoryForTurn();
  Task<std::vector<ChunkBuffer>> acquireMemory();
  Task<LocateAnswer> locate(ChunkMask missing, Intent intent);
  Task<Ended> fetchAlone(ChunkMask missing);
  Task<Ended> fetchGranted(ChunkMask granted, std::vector<ChunkBuffer> own);
  // Waits until we may ask the origin, or have to ask the directory again: no agent holds or
  // fetches the chunks.
  Task<void> waitForGrant();
  // True: the rates of job and node let us ask the origin now.
  [[nodiscard]] bool mayFetch() const;
  // True: a stream under way brings the run, which needs no turn.
  [[nodiscard]] bool streamed() const;
  // True: the job's rate does not hold the run back.
  [[nodiscard]] bool jobLets(const RateAllowance& rate) const {
    return rate.given() || state_.demand();
  }
  // Waits until the node's limit lets the run go on, or it is time to look whether others have the
  // bytes.
  Task<void> earn(BandwidthAllowance& allowance);
  // True: the node's limit lets the run go on.
  [[nodiscard]] bool given(const BandwidthAllowance& allowance) const {
    return allowance.given(state_.urgency->priority());
  }
  // Counts the chunks of `wanted` that have come as moved.
  void use(BandwidthAllowance& allowance, ChunkMask wanted);
  // Reads from agents that hold or fetch the chunks.
  Task<Ended> readFromAgents(const LocateAnswer& answer, ChunkMask missing);
  // Takes a slot for background reads, within the rates of job and node, and the memory for it. The
  // directory has others wait for a reader that it names, so that reader must not wait for memory,
  // which comes only when this agent's disk takes something.
  Task<void> takeSlot(ChunkMask missing);
  void leaveSlot() {
    slot_.leave();
    slotMemory_.clear();
  }
  // Waits until the first of the chunks on their way to another agent is there.
  Task<Status> awaitFetcher(const LocateAnswer& answer);
  Task<Ended> judge(Status read);
  // The same for what came of a request to the origin.
  Task<Ended> judgeOrigin(Status fetched);

  Fetcher& fetcher_;
  const FetchPorts& ports_;
  RunState& state_;
  const FileReference& file_;
  OriginTurns& turns_;
  RateAllowance ofOrigin_, ofPeers_;               // by the job's rates
  BandwidthAllowance nodeOrigin_, nodeFromPeers_;  // by the node's limits
  OriginTurns::Turn turn_;
  const Urgency::Watch raised_;
  PeerReadSlot slot_;
  std::vector<ChunkBuffer> slotMemory_;  // while the slot is held and not yet being read into
  std::uint32_t sharers_ = 1;
  FailureReport failure_;
  StripeHolder come_;  // chunk that came to an agent that we waited for
  DoublingPause pauses_;
  std::optional<Clock::time_point> failing_;  // since when other agents have failed
};

}  // namespace hearth
