// Fills memory files of one shard: chunks are copied from the slots that they came in as soon as
// the disk has them, and the others are read from the cache file. On the shard's thread.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "fetch/file_fetch.h"
#include "fetch/file_observer.h"
#include "fetch/memory_tier.h"
#include "fetch/node_limits.h"
#include "memory_files/memory_files.h"
#include "reactor/synchronization.h"

namespace hearth {

class MemoryFilling final : public FileObserver {
 public:
  // A file that is being filled. Whoever wants it shares it; the last one to finish publishes it,
  // or gives it up.
  class Fill;

  struct Ports {
    Reactor& reactor;
    Gate& gate;  // background coroutines
    MemoryFiles& files;
    MemoryTier& tier;
    NodeLimits& limits;
    // Chunks stay in the tier beside their memory file, where devices read them from registered
    // memory.
    bool keepsSlots = false;
  };

  // What `ports` refers to must remain live while this object is used.
  explicit MemoryFilling(Ports ports)
      : ports_(ports), buffers_(ports.reactor, kBuffers), brings_(ports.reactor, 1) {}

  // The file is wanted in memory: chunks that are stored from now on are copied. Null: it is there,
  // it is too small, or there is no room for it. finish() must follow unless null.
  [[nodiscard]] Task<std::shared_ptr<Fill>> begin(std::shared_ptr<FileFetch> fetch, MemoryRank rank,
                                                  Clock::time_point since);
  // Copies what is missing, and ends when the file is found in memory, or could not be filled; the
  // reason is in MemoryFiles::use(). `wanted`: false as soon as nobody waits for it.
  [[nodiscard]] Task<void> finish(std::shared_ptr<FileFetch> fetch, std::shared_ptr<Fill> fill,
                                  std::function<bool()> wanted);

  // An application opens the file. One that is opened again within kOftenWithin is brought to
  // memory in the background, where there is room.
  void noteOpen(const std::shared_ptr<FileFetch>& fetch);

  // Writes an absent chunk of the cache file again from the file's copy in memory. False: there is
  // no copy, its chunk is bad, too, or the disk refuses it.
  [[nodiscard]] Task<bool> restore(std::shared_ptr<FileFetch> fetch, std::uint32_t chunk);
  // Reads every block of the file's copy in memory, and copies bad chunks from the cache file
  // again, which has just been checked. A copy that cannot be repaired is given up. Blocks that
  // were bad.
  [[nodiscard]] Task<std::uint64_t> check(std::shared_ptr<FileFetch> fetch);

  void opened(const std::shared_ptr<FileFetch>&) override {}
  void stored(const std::shared_ptr<FileFetch>& fetch, std::uint32_t chunk,
              const std::shared_ptr<LoadedChunk>& loaded) override;

 private:
  // Chunks that are read from the disk at the same time, each into memory of its own.
  static constexpr std::uint64_t kBuffers = 4;
  static constexpr auto kOftenWithin = std::chrono::minutes(10);
  // A file that is opened often takes the room of those that nobody used for so long.
  static constexpr auto kUnusedFor = std::chrono::minutes(1);
  static constexpr std::size_t kMaxOpened = 4096;

  [[nodiscard]] Task<Status> copy(std::shared_ptr<Fill> fill, std::uint32_t chunk,
                                  std::shared_ptr<LoadedChunk> loaded);
  Task<void> copyInBackground(std::shared_ptr<Fill> fill, std::uint32_t chunk,
                              std::shared_ptr<LoadedChunk> loaded);
  Task<void> bring(std::shared_ptr<FileFetch> fetch);
  // Reads the chunk from the cache file.
  Task<void> readIn(std::shared_ptr<FileFetch> fetch, std::shared_ptr<Fill> fill,
                    std::uint32_t chunk);
  [[nodiscard]] Task<Status> complete(std::shared_ptr<FileFetch> fetch, std::shared_ptr<Fill> fill,
                                      const std::function<bool()>& wanted);
  [[nodiscard]] static Status same(const FileFetch& fetch, const CachedFile& copy);

  const Ports ports_;
  Semaphore buffers_;
  Semaphore brings_;  // of files that are opened often
  // When files that are only on the disk were opened last.
  std::unordered_map<ContentKey, Clock::time_point, ContentKeyHash> opened_;
  std::unordered_map<ContentKey, std::shared_ptr<Fill>, ContentKeyHash> fills_;
};

}  // namespace hearth
