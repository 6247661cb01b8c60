// Executes one run: where it looks for its chunks, what it waits for, and whom it asks, until they
// are all here or cannot be got.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "fetch/fetch_run.h"

namespace hearth {

// Lives in run()'s frame, as the state that it refers to. On the fetcher's shard.
class Fetcher::RunExecutor {
 public:
  // Both must remain live while this object is used.
  RunExecutor(Fetcher& fetcher, RunState& state);

  // Ends when none of the run's chunks is missing, or with the error for which that cannot be.
  [[nodiscard]] Task<Status> run();

 private:
  // With what the run ends; nothing: it looks again at what is missing.
  using Ended = std::optional<Status>;

  Task<Ended> step(ChunkMask missing);
  // The origin has refused the file: readers who wait may still get it from other agents.
  Task<Ended> lookElsewhere(ChunkMask missing, Error refused);
  // It is not wanted, or it could not be kept and no reader waits for it.
  [[nodiscard]] Ended givenUp(bool through);
  void askForTurn();
  // Buffers for the whole run; none while it is not its turn.
  Task<std::vector<ChunkBuffer>> memoryForTurn();
  Task<std::vector<ChunkBuffer>> acquireMemory();
  Task<LocateAnswer> locate(ChunkMask missing, Intent intent);
  Task<Ended> fetchAlone(ChunkMask missing);
  Task<Ended> fetchGranted(ChunkMask granted, std::vector<ChunkBuffer> own);
  // No agent holds or fetches it: until we may ask for it, or have to look again.
  Task<void> waitForGrant();
  // The origin may be asked for it now: the rates of job and node allow that.
  [[nodiscard]] bool mayFetch() const;
  // It needs no turn: the request that brings it is under way.
  [[nodiscard]] bool streamed() const;
  // The job does not let it wait for its rate.
  [[nodiscard]] bool jobLets(const RateAllowance& rate) const {
    return rate.given() || state_.demand();
  }
  // Until the node's limit lets it go on, or it is time to look whether others have the bytes now.
  Task<void> earn(BandwidthAllowance& allowance);
  // The limit has nothing against it now.
  [[nodiscard]] bool given(const BandwidthAllowance& allowance) const {
    return allowance.given(state_.urgency->priority());
  }
  // What has come of `wanted` was moved.
  void use(BandwidthAllowance& allowance, ChunkMask wanted);
  // Others hold it or fetch it.
  Task<Ended> readFromAgents(const LocateAnswer& answer, ChunkMask missing);
  // A slot among those that are read in the background, within the rates of job and node, and the
  // memory for it: the directory has others wait for a reader, so a reader that it names must not
  // wait for memory, which comes only when this agent's disk takes something.
  Task<void> takeSlot(ChunkMask missing);
  void leaveSlot() {
    slot_.leave();
    slotMemory_.clear();
  }
  // Until the first of the chunks that are on their way to another agent is there.
  Task<Status> awaitFetcher(const LocateAnswer& answer);
  Task<Ended> judge(Status read);

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
  StripeHolder come_;  // what came to an agent that we waited for
  Clock::duration pause_;
  std::optional<Clock::time_point> failing_;  // other agents, since
};

}  // namespace hearth
