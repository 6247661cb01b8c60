// Fetches ahead of readers: the rest of a file that is read in order, and the beginning of what
// follows it in its folder. What is fetched for a file that is not read yet looks no further, so a
// reader's look-ahead is bounded, and it ends soon after its reader has left. One a shard; used on
// its thread only.
#pragma once

#include <memory>

#include "fetch/file_fetch.h"
#include "mount/early_files.h"
#include "mount/look_ahead.h"
#include "reactor/synchronization.h"

namespace hearth {

struct MountShard;

class Prefetcher {
 public:
  // `shard` must remain live while this object is used.
  explicit Prefetcher(MountShard& shard);

  // Bytes [offset, offset + length) will be wanted soon: fetches ahead while the file has readers.
  void willNeed(const std::shared_ptr<FileFetch>& fetch, std::uint64_t offset,
                std::uint64_t length);

  // A reader is close before these bytes: what of them is in the cache file comes into memory.
  void loadAhead(const std::shared_ptr<FileFetch>& fetch, std::uint64_t offset,
                 std::uint64_t length);

  // A reader reads the end of a file that is small enough to be fetched as a whole by its first
  // read.
  void smallFileRead(const std::shared_ptr<FileFetch>& fetch);
  // The file is opened. The kernel may read what is complete without asking us, so a reader on its
  // way through a folder goes on from here already.
  void opened(const std::shared_ptr<FileFetch>& fetch);

  // Files of this shard whose beginning is fetched because a file before them is read.
  [[nodiscard]] std::size_t expected() const { return expected_; }

 private:
  Task<void> prefetch(std::shared_ptr<FileFetch> fetch);
  Task<void> load(std::shared_ptr<FileFetch> fetch, std::uint32_t chunk);
  // Until what failed is to be tried again, or no reader waits for it any more.
  Task<void> pauseAhead(std::shared_ptr<FileFetch> fetch);
  // Models are read file by file in the order of their names: what follows a file that is wanted to
  // its end is fetched for a little way, so that the reader does not wait when it comes there.
  void lookAhead(const std::shared_ptr<FileFetch>& fetch, std::size_t files);
  void expect(LookAhead::Part part, const std::shared_ptr<LookAhead>& lookAhead);
  Task<void> fetchStart(LookAhead::Part part, std::shared_ptr<LookAhead> lookAhead);
  Task<void> readEarly(std::shared_ptr<FileFetch> fetch, std::shared_ptr<LookAhead> lookAhead);
  // `bytes`: all of its file.
  Task<void> awaitOpening(EarlyFile file);
  Task<void> awaitReader(std::shared_ptr<FileFetch> fetch, std::shared_ptr<LookAhead> lookAhead);
  Task<void> prefetchRun(std::shared_ptr<FileFetch> fetch, ChunkRun run,
                         std::shared_ptr<Semaphore> window);

  MountShard& shard_;
  Semaphore earlyTurns_;
  std::size_t expected_ = 0, early_ = 0;
};

}  // namespace hearth
