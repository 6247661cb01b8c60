// Chunks of cache files on their way into memory, ahead of readers that go through a file in order,
// and for peers: past the page cache, straight into their slots, one read of the disk for all who
// want the chunk. Nothing depends on it: where no memory can be had at once, or the disk has a
// limit, who wants the bytes reads them from the file. So it has no reserve of its own, and takes
// no more than a part of that of origins. One a shard; used on its thread only.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "fetch/fetch_ports.h"

namespace hearth {

class CacheLoads {
 public:
  // As many chunks keep a disk busy; each of the cache's has so many turns.
  static constexpr std::size_t kMaxAtOnce = 8;

  // What `ports` refers to must remain live while this object is used.
  explicit CacheLoads(const FetchPorts& ports)
      : ports_(ports), atOnce_(atOnceOf(ports.ofOrigin.reserve())) {}

  // Of what is read ahead, which waits for others; and of who waits for the bytes, and reads them
  // from the file when others have all turns.
  enum class Turn : std::uint8_t { kWait, kNow };
  // Ends when the chunk is in memory. Null: it is not, and the bytes are to be read from the file,
  // which says why. `wanted`: asked when its turn has come; null: it is.
  [[nodiscard]] Task<std::shared_ptr<LoadedChunk>> load(std::shared_ptr<CachedFile> file,
                                                        std::uint32_t chunk, Turn turn,
                                                        std::function<bool()> wanted);
  // What is on its way, once it is there; null when it is not on its way, or did not come.
  [[nodiscard]] Task<std::shared_ptr<LoadedChunk>> coming(ContentKey key, std::uint32_t chunk);

  // Any thread. Bytes that came into memory like this.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Load {
    explicit Load(Reactor& reactor) : ended(reactor) {}
    Event ended;
    std::shared_ptr<LoadedChunk> loaded;  // once it has ended; null: it did not come
  };
  using Loads = std::unordered_map<std::uint32_t, std::shared_ptr<Load>>;

  // A disk that hangs keeps what is on its way; readers of origins have the rest.
  [[nodiscard]] static std::size_t atOnceOf(std::size_t reserve) {
    return std::clamp<std::size_t>(reserve / 4, 2, kMaxAtOnce);
  }
  [[nodiscard]] Semaphore& turnsOf(const CachedFile& file) {
    return turns_.try_emplace(file.disk(), ports_.reactor, atOnce_).first->second;
  }
  [[nodiscard]] std::shared_ptr<Load> find(const ContentKey& key, std::uint32_t chunk) const;
  // Null: not now.
  [[nodiscard]] std::shared_ptr<Load> start(const std::shared_ptr<CachedFile>& file,
                                            std::uint32_t chunk);
  Task<void> run(std::shared_ptr<CachedFile> file, std::uint32_t chunk, std::shared_ptr<Load> load,
                 ChunkBuffer buffer);
  // Null: it is bad, or was found to be meanwhile.
  Task<std::shared_ptr<LoadedChunk>> read(std::shared_ptr<CachedFile> file, std::uint32_t chunk,
                                          ChunkBuffer buffer);

  const FetchPorts& ports_;
  const std::size_t atOnce_;
  std::map<std::size_t, Semaphore> turns_;  // by disk, so that one that hangs stops no other
  std::unordered_map<ContentKey, Loads, ContentKeyHash> loads_;
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace hearth
