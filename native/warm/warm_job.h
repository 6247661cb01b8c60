// One warm job on this agent: makes a dataset's files resident and claimed, verifies each when it
// is complete, while others are fetched, and counts as it goes. Every shard works on the keys it
// owns. Any thread may look at the progress, cancel or set the rate.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "warm/warm_ports.h"

namespace hearth {

enum class Verification : std::uint8_t { kNone, kChecksum, kDigest };

// Of what no agent holds yet, or whatever the others hold.
enum class WarmScope : std::uint8_t { kNode, kCluster };

// Holds back what a job does for the sake of others. Zero: `bytes` count as brought, and may be
// fetched; else the time after which to ask again. Called on any thread.
using WarmPace = std::function<Clock::duration(std::uint64_t bytes)>;

struct WarmOptions {
  std::string job;
  std::shared_ptr<Dataset> dataset;
  std::vector<std::uint32_t> entries;  // files only
  std::uint32_t priority = 0;          // of jobs that want the same buffers the lowest goes first
  std::uint64_t rateLimit = 0;         // bytes a second from the origin; 0: none
  std::uint64_t peerRateLimit = 0;     // bytes a second from other agents; 0: none
  Verification verify = Verification::kChecksum;
  // kCluster: chunks that other agents hold, or will soon, are not brought here and count as ready;
  // nothing is verified. One that goes on another agent meanwhile is not noticed.
  WarmScope scope = WarmScope::kNode;
  // The job waits for an origin that is away until somebody cancels it, as at its deadline. False:
  // for as long as readers of the dataset wait.
  bool hasDeadline = false;
  bool advised = false;                   // by WILLNEED, which the engine counts
  WarmPace pace;                          // null: nothing holds the job back
  MemoryRank memory = MemoryRank::kWarm;  // of its files among those in memory
};

// Verifying: all bytes are there, and some are still read again and compared.
enum class WarmState : std::uint8_t { kRunning, kVerifying, kSucceeded, kFailed, kCancelled };

struct WarmProgress {
  WarmState state = WarmState::kRunning;
  // Ready: in the cache, or claimed there when the file is; in memory: these, and what is on its
  // way there from memory.
  std::uint64_t bytesTotal = 0, bytesReady = 0, bytesInMemory = 0;
  std::uint32_t filesTotal = 0, filesReady = 0, filesVerified = 0;
  std::uint64_t originBytes = 0, peerBytes = 0;
  std::uint64_t bytesVerified = 0;
  std::string waitingFor;  // the origin that is away, in a sentence; empty: for nothing
  std::optional<Error> error;
};

class WarmJob {
 public:
  explicit WarmJob(WarmOptions options);

  // On any shard's thread, which it continues on; ends when the job has ended.
  [[nodiscard]] static Task<void> run(std::shared_ptr<WarmJob> job, const WarmPorts& ports);

  // Any thread.
  [[nodiscard]] WarmProgress progress() const;
  void cancel() {
    cancelled_.store(true);
    rate_->cancel();
    peerRate_->cancel();
  }
  void setRate(std::uint64_t bytesPerSecond) { rate_->setRate(bytesPerSecond); }
  [[nodiscard]] const WarmOptions& options() const { return options_; }

 private:
  // Objects that come by one request each at a time: as many requests as other runs make. With
  // fewer a server whose connections are slow would give less than it can.
  static constexpr std::uint64_t kStreams = OriginTurns::kBytes / (kRunChunks * kChunkBytes);
  static constexpr auto kLookAgain = std::chrono::milliseconds(500);

  // The work under way on one shard.
  struct Windows;

  static Task<void> onShard(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                            const WarmShard& shard);
  // How far fetching a file has come, as the job has counted it.
  struct FileProgress {
    Status status;
    std::uint64_t ready = 0, inMemory = 0;  // bytes
    bool hung = false;                      // its disk, when `status` was set
  };
  // Fetches a file, verifies it while others are fetched, and brings it to memory. Where the disk
  // that gets it fails, another one does; a disk that hangs is waited for a while when there is
  // none other.
  static Task<void> takeFile(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                             const WarmShard& shard, std::uint32_t entry, Windows& windows);
  // `again`: the file failed for its disk, which may be another one the next time.
  static Task<Status> tryFile(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                              const WarmShard& shard, std::uint32_t entry, Windows& windows,
                              bool& again);
  // Of a job for the cluster: fetches of a file what no agent holds.
  static Task<void> takeMissing(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                                const WarmShard& shard, std::uint32_t entry, Windows& windows);
  // Fetches chunks that no agent holds; `fetched` grows by their bytes.
  static Task<Status> bringMissing(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                                   const WarmShard& shard, std::uint32_t entry, Windows& windows,
                                   std::uint64_t& fetched);
  // Fetches the first chunks of a file that is not here by one request for all of it, run by run;
  // as far as that goes. Nothing of other files.
  // `stream`: set where there was one, which the caller proves when `running` has ended.
  static Task<std::uint32_t> streamFile(std::shared_ptr<WarmJob> job, const WarmShard& shard,
                                        std::shared_ptr<FileFetch> fetch, Gate& running,
                                        FileProgress& file, std::shared_ptr<OriginStream>& stream);
  // Enough other bytes are to come that one request at a time may bring all of these.
  [[nodiscard]] bool streams(std::uint64_t size) const;
  static Task<Status> fetchFile(std::shared_ptr<WarmJob> job, const WarmShard& shard,
                                std::shared_ptr<FileFetch> fetch, Windows& windows,
                                FileProgress& file);
  // Ends when all have ended, also those of others after an error.
  static Task<void> fetchRuns(std::shared_ptr<WarmJob> job, const WarmShard& shard,
                              std::shared_ptr<FileFetch> fetch, std::vector<ChunkRun> runs,
                              Windows& windows, FileProgress& file);
  // `window`: has a unit for it until the bytes are in memory.
  static Task<void> fetchRun(std::shared_ptr<WarmJob> job, const WarmShard& shard,
                             std::shared_ptr<FileFetch> fetch, ChunkRun run, Semaphore& window,
                             FileProgress& file, std::shared_ptr<OriginStream> stream);
  // How a file has come, and whether it is to be compared with its digest.
  struct Came {
    bool compares = false;
    Status status;
  };
  // Compares what has come with its digest and, as the job's options say, with the disk.
  static Task<Status> checkFile(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                                const WarmShard& shard, std::shared_ptr<FileFetch> fetch,
                                Windows& windows, Came came);
  static Task<Status> verifyFile(std::shared_ptr<WarmJob> job, const WarmPorts& ports,
                                 const WarmShard& shard, std::shared_ptr<FileFetch> fetch);

  [[nodiscard]] static std::uint64_t bytesOf(const FileFetch& fetch, ChunkRun run);
  // Ends when the job's pace lets it bring `bytes`, or the job has stopped.
  static Task<void> keepPace(std::shared_ptr<WarmJob> job, Reactor& reactor, std::uint64_t bytes);
  [[nodiscard]] std::vector<std::uint32_t> entriesOf(const WarmPorts& ports,
                                                     const WarmShard& shard) const;
  [[nodiscard]] bool stopped() const { return cancelled_.load() || failed_.load(); }
  void fail(const Error& error);
  void count(FileProgress& file, std::uint64_t ready, std::uint64_t inMemory);
  // What was counted of the file is gone.
  void uncount(const FileProgress& file);
  [[nodiscard]] FetchOptions fetchOptions() const;

  const WarmOptions options_;
  const Clock::time_point began_ = Clock::now();
  const std::shared_ptr<RateLimiter> rate_;
  const std::shared_ptr<RateLimiter> peerRate_;
  const std::shared_ptr<FetchCounters> counters_;
  std::atomic<WarmState> state_{WarmState::kRunning};
  std::atomic<bool> cancelled_{false};
  std::atomic<bool> failed_{false};
  OriginTurns streams_;  // by their number
  std::uint64_t bytesTotal_ = 0;
  std::atomic<std::uint64_t> bytesReady_{0};
  std::atomic<std::uint64_t> bytesInMemory_{0};
  std::atomic<std::uint32_t> filesReady_{0};
  std::atomic<std::uint32_t> filesVerified_{0};
  std::atomic<std::uint64_t> bytesVerified_{0};
  mutable std::mutex mutex_;
  std::optional<Error> error_;
};

}  // namespace hearth
