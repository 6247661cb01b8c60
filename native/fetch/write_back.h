// Writes chunks that have landed in memory to their cache files, behind everything that waits for
// bytes: readers, other agents and further fetches go on when a chunk has landed. Each disk writes
// the file that has waited longest, its chunks in order, and at most kInARow of them while other
// files wait, so that it sees long sequential writes. Disks do not wait for one another. A dirty
// chunk keeps its memory: the disk sets the pace only when memory is full.
//
// Where the node limits the writes to its disks, write-back has background priority, as nobody
// waits for it. While readers wait for its memory, it has demand priority.
//
// A disk that takes nothing while readers need memory holds the readers up for kStalled. Then they
// read the waiting chunks through, like chunks for which a disk has no room. Write-back tries such
// chunks again every kRetry while they are in memory and their file is wanted. On the fetcher's
// shard.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "fetch/fetch_ports.h"
#include "fetch/file_observer.h"

namespace hearth {

// A chunk that has landed. Its flight ends when it is written, or cannot be.
struct DirtyChunk {
  std::shared_ptr<FileFetch> fetch;
  std::uint32_t chunk = 0;
  std::shared_ptr<ChunkFlight> flight;
  std::shared_ptr<LoadedChunk> loaded;
  BufferPool* pool = nullptr;  // owner of the buffer; null: the memory tier owns it
  bool again = false;          // a write of it failed before
  bool named = false;          // the directory has told other agents to wait for our copy
};

class WriteBack {
 public:
  // Chunks written to one disk at the same time, or as many bytes of small files, each of which
  // takes the disk's latency. Fewer when memory is small: a disk that hangs keeps the memory of
  // every write under way.
  static constexpr std::size_t kAtOnce = 4;
  // Chunks of one file in a row. A file that arrives faster than the disk writes it would otherwise
  // hold up all other files.
  static constexpr std::size_t kInARow = 16;
  // A disk that has ended no write for so long takes nothing.
  static constexpr auto kStalled = std::chrono::milliseconds(500);
  static constexpr auto kRetry = std::chrono::milliseconds(500);

  // The objects that `ports` refers to must remain live while this object is used.
  explicit WriteBack(const FetchPorts& ports);
  ~WriteBack();
  WriteBack(const WriteBack&) = delete;
  WriteBack& operator=(const WriteBack&) = delete;

  // `observer` must live as long as chunks are written.
  void addObserver(FileObserver& observer) { observers_.push_back(&observer); }

  // Queues the chunk, and tells the directory at once that this agent has it, unless the cache
  // would refuse it. Gives the chunk up with kCancelled after the shard's gate has closed.
  void add(DirtyChunk dirty);

  // Queues a chunk that is only in memory and not in flight, under a new flight that has landed.
  [[nodiscard]] std::shared_ptr<ChunkFlight> store(const std::shared_ptr<FileFetch>& fetch,
                                                   std::uint32_t chunk,
                                                   std::shared_ptr<LoadedChunk> loaded);
  // A file is wanted again: writes its chunks that are only in memory when the cache has room.
  void reopened(const std::shared_ptr<FileFetch>& fetch);

  // Any thread. Dirty bytes: queued or being written.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  // The dirty chunks of one file. A chunk that was fetched for two datasets may be here twice.
  struct FileQueue {
    std::shared_ptr<KeyFetch> file;
    std::multimap<std::uint32_t, DirtyChunk> chunks;
    std::size_t inARow = 0;  // written since its turn began
  };
  // A chunk that is only in memory because its write failed.
  struct Unkept {
    std::weak_ptr<FileFetch> fetch;
    std::uint32_t chunk;
    std::weak_ptr<LoadedChunk> loaded;
  };
  struct Disk {
    std::list<FileQueue> files;  // the one that has waited longest first
    std::size_t writers = 0;
    std::uint64_t writing = 0;   // bytes
    Clock::time_point progress;  // when it last took something, or had nothing to take
    Urgency* pacing = nullptr;   // of the writer that waits for the node's limit; null: none waits
  };

  void queue(DirtyChunk dirty);
  [[nodiscard]] bool mayWrite(const Disk& disk) const;
  void startWriter(Disk& disk);
  Task<void> write(Disk& disk);
  // Waits until the node's limit allows the first chunk, or nothing is left to write.
  Task<void> pace(Disk& disk, BandwidthAllowance& allowance);
  // Starts the next write beside the one that the node's limit has just allowed.
  void startNext(Disk& disk);
  // Readers wait for memory.
  void press();
  [[nodiscard]] bool pressed() const { return Clock::now() < pressedUntil_; }
  // Since when the disk takes nothing although the node's limit allows writes.
  [[nodiscard]] Clock::time_point standsSince(const Disk& disk) const;
  [[nodiscard]] static std::optional<DirtyChunk> next(Disk& disk);
  Task<void> writeOne(DirtyChunk dirty);
  // Ends the chunk's flight; `kept`: the status of its write.
  void end(const DirtyChunk& dirty, const Status& kept);
  void end(const DirtyChunk& dirty, const Status& kept, ChunkFlight::Reason reason);
  void notKept(const DirtyChunk& dirty, const Error& why);
  void reportHeld(const DirtyChunk& dirty) const;
  // Frees memory for a reader: gives up one chunk, in a buffer of `pool` or of none, that waits for
  // a disk that takes nothing. False: there is no such chunk.
  [[nodiscard]] bool shed(const BufferPool& pool);
  [[nodiscard]] bool shedFrom(Disk& disk, const BufferPool& pool);
  void tick();
  // Writes chunks that the cache accepts again, a few at a time: the disk may fail again.
  void retry();
  void remember(const std::shared_ptr<FileFetch>& fetch, std::uint32_t chunk,
                const std::shared_ptr<LoadedChunk>& loaded);
  // True: the chunk is to be tried again later.
  [[nodiscard]] bool tryAgain(const Unkept& unkept, std::size_t& begun);

  const FetchPorts& ports_;
  std::vector<FileObserver*> observers_;
  std::map<std::size_t, Disk> disks_;
  std::size_t writers_ = 0;  // of all disks
  std::atomic<std::uint64_t> bytes_{0};
  bool ticking_ = false;
  Reactor::Timer timer_;
  Clock::time_point pressedSince_, pressedUntil_;
  std::list<Unkept> unkept_;
  Reactor::Timer retryTimer_;
};

}  // namespace hearth
