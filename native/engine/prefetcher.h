// Fetches ahead of readers: the rest of a file that is read in order, and the beginning of what
// follows it in its folder. One a shard; used on its thread only.
#pragma once

#include <memory>

#include "engine/file_fetch.h"
#include "engine/shard.h"

namespace hearth {

class Prefetcher {
 public:
  explicit Prefetcher(Shard& shard) : shard_(shard) {}

  // Bytes [offset, offset + length) will be wanted soon: fetches ahead while the file has readers.
  void willNeed(const std::shared_ptr<FileFetch>& fetch, std::uint64_t offset,
                std::uint64_t length);

 private:
  Task<void> prefetch(std::shared_ptr<FileFetch> fetch);
  // Models are read file by file in the order of their names: what follows a file that is wanted to
  // its end is fetched for a little way, so that the reader does not wait when it comes there.
  void lookAhead(const FileReference& file);
  static Task<void> fetchStart(Shard& shard, FileReference file, std::uint64_t length);
  Task<void> prefetchRun(std::shared_ptr<FileFetch> fetch, ChunkRun run,
                         std::shared_ptr<Semaphore> window);

  Shard& shard_;
};

}  // namespace hearth
