// Fetches ahead of readers: the rest of a file that is read in order, and the beginning of the
// files that follow it in its folder. A file that is fetched ahead but not read yet causes no
// further look-ahead, so a reader's look-ahead is bounded and ends soon after the reader has left.
// One a shard; used on its thread only.
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

  // A reader comes to these bytes soon: loads those that are in the cache file into memory.
  void loadAhead(const std::shared_ptr<FileFetch>& fetch, std::uint64_t offset,
                 std::uint64_t length);

  // A reader reads the end of a small file, which its first read fetches as a whole.
  void smallFileRead(const std::shared_ptr<FileFetch>& fetch);
  // The file is opened. The kernel may read complete files without asking us, so a reader that goes
  // through a folder counts as here already.
  void opened(const std::shared_ptr<FileFetch>& fetch);

  // Files of this shard whose beginning is fetched because an earlier file is read.
  [[nodiscard]] std::size_t expected() const { return expected_; }

 private:
  Task<void> prefetch(std::shared_ptr<FileFetch> fetch);
  Task<void> load(std::shared_ptr<FileFetch> fetch, std::uint32_t chunk);
  // Waits until a failed fetch is to be tried again, or no reader waits for it any more.
  Task<void> pauseAhead(std::shared_ptr<FileFetch> fetch);
  // Models are read file by file in the order of their names. Fetches a little of the files behind
  // one that is wanted to its end, so that the reader does not wait when it comes there.
  void lookAhead(const std::shared_ptr<FileFetch>& fetch, std::size_t files);
  void expect(LookAhead::Part part, const std::shared_ptr<LookAhead>& lookAhead);
  Task<void> fetchStart(LookAhead::Part part, std::shared_ptr<LookAhead> lookAhead);
  Task<void> readEarly(std::shared_ptr<FileFetch> fetch, std::shared_ptr<LookAhead> lookAhead);
  // `file.bytes` has the whole file.
  Task<void> awaitOpening(EarlyFile file);
  Task<void> awaitReader(std::shared_ptr<FileFetch> fetch, std::shared_ptr<LookAhead> lookAhead);
  Task<void> prefetchRun(std::shared_ptr<FileFetch> fetch, ChunkRun run,
                         std::shared_ptr<Semaphore> window);

  MountShard& shard_;
  Semaphore earlyTurns_;
  std::size_t expected_ = 0, early_ = 0;
};

}  // namespace hearth
