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

namespace hearth {

struct BlockTransfer {
  std::string path;
  std::uint64_t offset = 0;
  // Memory of the caller, which must stay as it is until the batch has ended.
  std::byte* memory = nullptr;
  std::uint64_t size = 0;
};

struct BlockFailure {
  std::size_t transfer = 0;  // its place in the batch
  Error error;
};

// Any thread.
class BlockTransfers {
 public:
  enum class Direction : std::uint8_t { kLoad, kDump };
  using Batch = std::uint64_t;

  // `threads` is at least 1. `direct`: aligned bytes go past the page cache where the file system
  // can.
  BlockTransfers(unsigned threads, bool direct);
  // Ends transfers that have not begun with kCancelled and waits for those that have.
  ~BlockTransfers();
  BlockTransfers(const BlockTransfers&) = delete;
  BlockTransfers& operator=(const BlockTransfers&) = delete;

  // Begins the transfers and returns at once. kDump writes into files that exist with their full
  // size and never creates one (kNotFound).
  [[nodiscard]] Batch begin(Direction direction, std::vector<BlockTransfer> transfers);

  // True when the batch has ended. kNotFound: no such batch, or wait() has taken its answer.
  [[nodiscard]] Result<bool> isDone(Batch batch) const;

  // Blocks until the batch has ended and returns the transfers that failed, in their order; the
  // batch is forgotten. kDeadlineExceeded: it has not ended in time, and its memory is still in
  // use; wait again. kNotFound: as isDone().
  [[nodiscard]] Result<std::vector<BlockFailure>> wait(Batch batch,
                                                       std::chrono::milliseconds timeout);

 private:
  struct State {
    Direction direction = Direction::kLoad;
    std::vector<BlockTransfer> transfers;
    std::size_t ended = 0;
    std::vector<BlockFailure> failures;
  };
  struct Job {
    std::shared_ptr<State> state;
    std::size_t transfer = 0;
  };
  void work();
  void end(State& state, std::size_t transfer, Status status);

  const bool direct_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable hasWork_, hasEnded_;
  std::deque<Job> queue_;
  std::map<Batch, std::shared_ptr<State>> batches_;
  Batch last_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace hearth
