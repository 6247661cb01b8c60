// Moves blocks between files and memory of the caller with several threads: the door of the room. A
// block is one file; a transfer is some of its bytes. Each transfer fails alone.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "gpu/device.h"

namespace hearth {

struct BlockTransfer {
  std::string path;
  std::uint64_t offset = 0;
  // Memory of the caller, which must stay as it is until the batch has ended.
  std::byte* memory = nullptr;
  std::uint64_t size = 0;
  bool isOnDevice = false;  // the memory is that of the transfers' GPU
};

class DeviceBlocks;

struct BlockFailure {
  std::size_t transfer = 0;  // its place in the batch
  Error error;
};

// Any thread.
class BlockTransfers {
 public:
  enum class Direction : std::uint8_t { kLoad, kDump };
  using Batch = std::uint64_t;

  struct Options {
    unsigned threads = 32;  // at least 1
    // Aligned bytes go past the page cache where the file system can, and past host memory between
    // storage and GPU where that is possible and faster. Otherwise all bytes go through both.
    bool direct = false;
    // The GPU of transfers that are on one; null: there are none.
    std::shared_ptr<Device> device;
  };
  // As DeviceFiles::open() for a GPU.
  [[nodiscard]] static Result<std::unique_ptr<BlockTransfers>> open(const Options& options);
  // Ends transfers that have not begun with kCancelled and waits for those that have.
  ~BlockTransfers();
  BlockTransfers(const BlockTransfers&) = delete;
  BlockTransfers& operator=(const BlockTransfers&) = delete;

  // Memory of the GPU that many transfers will lie in: it is checked and made known to the drivers
  // once. It stays as it is for the life of this object. kInvalidArgument: not memory of the GPU;
  // kUnsupported without a GPU.
  [[nodiscard]] Status enroll(std::uint64_t address, std::uint64_t bytes);

  // Begins the transfers and returns at once. kDump writes into files that exist with their full
  // size and never creates one (kNotFound). `event`: a CUevent after which the memory of transfers
  // on the GPU may be used, which lives until the batch has ended; 0: at once.
  [[nodiscard]] Batch begin(Direction direction, std::vector<BlockTransfer> transfers,
                            std::uint64_t event = 0);

  // True when the batch has ended. kNotFound: no such batch, or wait() has taken its answer.
  [[nodiscard]] Result<bool> isDone(Batch batch) const;

  // Ends the batch's transfers that have not begun with kCancelled. The batch ends when those that
  // have begun have ended, whose memory is in use until then. kNotFound: as isDone().
  [[nodiscard]] Status cancel(Batch batch);

  // Blocks until the batch has ended and returns the transfers that failed, in their order; the
  // batch is forgotten. kDeadlineExceeded: it has not ended in time, and its memory is still in
  // use; wait again. kNotFound: as isDone().
  [[nodiscard]] Result<std::vector<BlockFailure>> wait(Batch batch,
                                                       std::chrono::milliseconds timeout);

 private:
  struct State {
    Direction direction = Direction::kLoad;
    std::vector<BlockTransfer> transfers;
    std::uint64_t event = 0;
    std::size_t ended = 0;
    std::vector<BlockFailure> failures;
  };
  struct Job {
    std::shared_ptr<State> state;
    std::size_t transfer = 0;
  };
  BlockTransfers(const Options& options, std::shared_ptr<DeviceBlocks> device);
  void work();
  [[nodiscard]] Status move(const State& state, const BlockTransfer& transfer) const;
  // Both with the mutex held.
  void end(State& state, std::size_t transfer, Status status);
  void cancelJob(const Job& job, const char* reason);

  const bool direct_;
  const std::shared_ptr<DeviceBlocks> device_;  // null without a GPU
  mutable std::mutex mutex_;                    // guards all below
  std::condition_variable hasWork_, hasEnded_;
  std::deque<Job> queue_;
  std::map<Batch, std::shared_ptr<State>> batches_;
  Batch last_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace hearth
