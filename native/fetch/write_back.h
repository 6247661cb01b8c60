// Writes chunks that have landed in memory to their cache files, behind everything that waits for
// bytes: readers, other agents and further fetches go on when a chunk has landed. What is written
// is the file that has waited longest, its chunks in order, and kInARow of them at most while
// others wait, so that the disk sees long sequential writes; disks do not wait for one another.
// Until a chunk is written its memory is not given to others: the disk sets the pace only when that
// memory is full.
//
// Where the node limits what goes to its disks this is warm work, as none waits for it; while
// readers wait for its memory it is demand, and goes before all other writes and reads of that
// kind.
//
// A disk that takes nothing while readers need memory holds them up for kStalled; then what waits
// for it is read through, as what has no room on it is. That is tried again every kRetry for as
// long as it stays in memory and its file is wanted. On the fetcher's shard.
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
  BufferPool* pool = nullptr;  // whose its buffer is, until it is the memory tier's
  bool again = false;          // it could not be kept before
  bool named = false;          // the directory has sent others to wait for us to have it
};

class WriteBack {
 public:
  // What is written to one disk at the same time: so many chunks, or as many bytes of small files,
  // which take the disk's latency each. Fewer when memory is small, as a disk that hangs keeps what
  // it is being given.
  static constexpr std::size_t kAtOnce = 4;
  // Chunks of one file until it is the turn of others, which would wait for the end of one that
  // comes in faster than it is written.
  static constexpr std::size_t kInARow = 16;
  // How long no write has ended when a disk is taken for one that takes nothing.
  static constexpr auto kStalled = std::chrono::milliseconds(500);
  static constexpr auto kRetry = std::chrono::milliseconds(500);

  // What `ports` refers to must remain live while this object is used.
  explicit WriteBack(const FetchPorts& ports);
  ~WriteBack();
  WriteBack(const WriteBack&) = delete;
  WriteBack& operator=(const WriteBack&) = delete;

  // `observer` lives as long as chunks are written.
  void setObserver(FileObserver& observer) { observer_ = &observer; }

  // The directory learns at once that the chunk is here, unless the cache would refuse it. After
  // the shard's gate has closed chunks are given up, with kCancelled.
  void add(DirtyChunk dirty);

  // Has a chunk written that is in memory and nowhere else, and is not on its way: the flight that
  // it makes of it has landed.
  [[nodiscard]] std::shared_ptr<ChunkFlight> store(const std::shared_ptr<FileFetch>& fetch,
                                                   std::uint32_t chunk,
                                                   std::shared_ptr<LoadedChunk> loaded);
  // A file is wanted again, of which chunks are in memory: what is nowhere else is written when the
  // cache has room.
  void reopened(const std::shared_ptr<FileFetch>& fetch);

  // Any thread. Bytes that wait to be written, or are being written.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  // What waits for one file, by chunk. One that was fetched for two datasets may come twice.
  struct FileQueue {
    std::shared_ptr<KeyFetch> file;
    std::multimap<std::uint32_t, DirtyChunk> chunks;
    std::size_t inARow = 0;  // written since its turn began
  };
  // In memory, and nowhere else.
  struct Unkept {
    std::weak_ptr<FileFetch> fetch;
    std::uint32_t chunk;
    std::weak_ptr<LoadedChunk> loaded;
  };
  struct Disk {
    std::list<FileQueue> files;  // who has waited longest first
    std::size_t writers = 0;
    std::uint64_t writing = 0;   // bytes
    Clock::time_point progress;  // when it last took something, or had nothing to take
    Urgency* pacing = nullptr;   // of the writer that waits for the node's limit; null: none does
  };

  void queue(DirtyChunk dirty);
  [[nodiscard]] bool mayWrite(const Disk& disk) const;
  void startWriter(Disk& disk);
  Task<void> write(Disk& disk);
  // Until the node's limit lets what is first be written, or there is nothing to write.
  Task<void> pace(Disk& disk, BandwidthAllowance& allowance);
  // What follows, while that is written which was waited for.
  void startNext(Disk& disk);
  // Readers wait for memory.
  void press();
  [[nodiscard]] bool pressed() const { return Clock::now() < pressedUntil_; }
  // Since when the disk takes nothing although it might.
  [[nodiscard]] Clock::time_point standsSince(const Disk& disk) const;
  [[nodiscard]] static std::optional<DirtyChunk> next(Disk& disk);
  Task<void> writeOne(DirtyChunk dirty);
  // In the cache file, or `kept` says why not.
  void end(const DirtyChunk& dirty, const Status& kept);
  void notKept(const DirtyChunk& dirty, const Error& why);
  void reportHeld(const DirtyChunk& dirty) const;
  // A reader needs memory: something in a buffer of `pool`, or of none, that waits for a disk that
  // takes nothing is read through. False: there is nothing like that.
  [[nodiscard]] bool shed(const BufferPool& pool);
  [[nodiscard]] bool shedFrom(Disk& disk, const BufferPool& pool);
  void tick();
  // Writes what can be kept now, a few at a time: the disk may fail again.
  void retry();
  void remember(const std::shared_ptr<FileFetch>& fetch, std::uint32_t chunk,
                const std::shared_ptr<LoadedChunk>& loaded);
  // False: it is of no more interest. True: it is to be tried again.
  [[nodiscard]] bool tryAgain(const Unkept& unkept, std::size_t& begun);

  const FetchPorts& ports_;
  FileObserver* observer_ = nullptr;
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
