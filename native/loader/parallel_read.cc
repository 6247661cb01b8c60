#include "loader/parallel_read.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace hearth {
namespace {

struct Chunk {
  const ModelFile* file = nullptr;
  std::byte* into = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

// The chunks of one file, in the order of their bytes.
std::vector<Chunk> chunksOf(const FileDestination& file, std::uint64_t chunkBytes) {
  std::vector<Chunk> chunks;
  for (const PlannedRead& read : file.plan->reads) {
    for (std::uint64_t done = 0; done < read.size; done += chunkBytes) {
      chunks.push_back({file.plan->file.get(), file.memory + read.inMemory + done,
                        read.offset + done, std::min(chunkBytes, read.size - done)});
    }
  }
  return chunks;
}

class ParallelRead {
 public:
  ParallelRead(std::span<const FileDestination> files, const ReadOptions& options)
      : options_(options) {
    for (const FileDestination& file : files) {
      files_.push_back({chunksOf(file, options.chunkBytes), 0});
      for (const PlannedRead& read : file.plan->reads) total_ += read.size;
    }
  }

  Status run() {
    std::size_t chunks = 0;
    for (const FileChunks& file : files_) chunks += file.chunks.size();
    const unsigned asked = options_.threads == 0 ? kDefaultReaders : options_.threads;
    const auto readers = static_cast<unsigned>(std::min<std::size_t>({asked, kMaxReaders, chunks}));
    active_ = readers;
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < readers; ++i) {
      threads.emplace_back([this, i] { work(i); });
    }
    awaitEnd();
    threads.clear();
    return failure_ ? Status(*failure_) : Status();
  }

 private:
  struct FileChunks {
    std::vector<Chunk> chunks;
    std::size_t next = 0;
  };

  // Each thread stays with one file while that has chunks, so that files are read side by side and
  // each of them in order.
  std::optional<Chunk> take(std::size_t& file) {
    if (failure_) return std::nullopt;
    for (std::size_t tried = 0; tried < files_.size(); ++tried, ++file) {
      FileChunks& candidate = files_[file % files_.size()];
      if (candidate.next < candidate.chunks.size()) return candidate.chunks[candidate.next++];
    }
    return std::nullopt;
  }

  void work(std::size_t file) {
    std::unique_lock lock(mutex_);
    while (const std::optional<Chunk> chunk = take(file)) {
      lock.unlock();
      const Status status = chunk->file->read(chunk->into, chunk->offset, chunk->size);
      lock.lock();
      if (status.ok()) done_ += chunk->size;
      if (!status.ok() && !failure_) failure_ = status.error();
      changed_.notify_one();
    }
    --active_;
    changed_.notify_one();
  }

  void awaitEnd() {
    std::unique_lock lock(mutex_);
    std::uint64_t reported = 0;
    while (active_ > 0) {
      changed_.wait(lock, [&] { return active_ == 0 || done_ != reported || failure_; });
      if (!failure_ && done_ != reported) {
        reported = done_;
        report(lock, reported);
      } else if (active_ > 0) {
        changed_.wait(lock, [&] { return active_ == 0; });
      }
    }
    if (!failure_ && done_ != reported) report(lock, done_);
  }

  void report(std::unique_lock<std::mutex>& lock, std::uint64_t done) {
    if (!options_.progress) return;
    lock.unlock();
    const bool goesOn = options_.progress(done, total_);
    lock.lock();
    if (!goesOn && !failure_) failure_ = Error{ErrorCode::kCancelled, "the load was cancelled"};
  }

  const ReadOptions& options_;
  std::uint64_t total_ = 0;
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<FileChunks> files_;
  unsigned active_ = 0;
  std::uint64_t done_ = 0;
  std::optional<Error> failure_;
};

}  // namespace

Status readInParallel(std::span<const FileDestination> files, const ReadOptions& options) {
  if (options.chunkBytes == 0 || options.chunkBytes % kDirectReadAlignment != 0) {
    return Error{ErrorCode::kInvalidArgument, "the size of chunks is not a multiple of 4096"};
  }
  return ParallelRead(files, options).run();
}

}  // namespace hearth
