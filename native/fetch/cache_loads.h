// Loads chunks of cache files into memory, for peers and ahead of readers that go through a file in
// order. One read of the disk, past the page cache and straight into a slot, serves all who want
// the chunk. Loading is optional: where no memory is free at once, or the disk has a limit, the
// caller reads the file. So CacheLoads has no reserve of its own and takes only a part of the
// reserve of origins. One a shard; used on its thread only.
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
  // Enough chunks to keep a disk busy. Each disk of the cache has its own turns.
  static constexpr std::size_t kMaxAtOnce = 8;

  // Everything that `ports` refers to must remain live while this object is used.
  explicit CacheLoads(const FetchPorts& ports)
      : ports_(ports), atOnce_(atOnceOf(ports.ofOrigin.reserve())) {}

  // kWait: waits for a turn, for read-ahead. kNow: gives up when all turns are taken, for a caller
  // that then reads the file.
  enum class Turn : std::uint8_t { kWait, kNow };
  // Ends when the chunk is in memory. Null: the chunk was not loaded; a read of the file tells why.
  // `wanted`: called when the load's turn comes; null: always wanted.
  [[nodiscard]] Task<std::shared_ptr<LoadedChunk>> load(std::shared_ptr<CachedFile> file,
                                                        std::uint32_t chunk, Turn turn,
                                                        std::function<bool()> wanted);
  // Waits for a load that is under way. Null: none is, or the load failed.
  [[nodiscard]] Task<std::shared_ptr<LoadedChunk>> coming(ContentKey key, std::uint32_t chunk);

  // Any thread. Bytes loaded so far.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Load {
    explicit Load(Reactor& reactor) : ended(reactor) {}
    Event ended;
    std::shared_ptr<LoadedChunk> loaded;  // set when the load ends; null: it failed
  };
  using Loads = std::unordered_map<std::uint32_t, std::shared_ptr<Load>>;

  // A hanging disk keeps the buffers of its loads; origins keep the rest of the reserve.
  [[nodiscard]] static std::size_t atOnceOf(std::size_t reserve) {
    return std::clamp<std::size_t>(reserve / 4, 2, kMaxAtOnce);
  }
  [[nodiscard]] Semaphore& turnsOf(const CachedFile& file) {
    return turns_.try_emplace(file.disk(), ports_.reactor, atOnce_).first->second;
  }
  [[nodiscard]] std::shared_ptr<Load> find(const ContentKey& key, std::uint32_t chunk) const;
  // Starts a load for which the caller has acquired a turn. Null: no memory now; the turn is
  // released.
  [[nodiscard]] std::shared_ptr<Load> start(const std::shared_ptr<CachedFile>& file,
                                            std::uint32_t chunk);
  Task<void> run(std::shared_ptr<CachedFile> file, std::uint32_t chunk, std::shared_ptr<Load> load,
                 ChunkBuffer buffer);
  // Null: the chunk is bad, or was dropped while it was read.
  Task<std::shared_ptr<LoadedChunk>> read(std::shared_ptr<CachedFile> file, std::uint32_t chunk,
                                          ChunkBuffer buffer);

  const FetchPorts& ports_;
  const std::size_t atOnce_;
  std::map<std::size_t, Semaphore> turns_;  // by disk, so that a hanging disk stops no other
  std::unordered_map<ContentKey, Loads, ContentKeyHash> loads_;
  std::atomic<std::uint64_t> bytes_{0};
};

}  // namespace hearth
