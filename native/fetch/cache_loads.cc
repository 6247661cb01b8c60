#include "fetch/cache_loads.h"

#include <algorithm>
#include <utility>

namespace hearth {

std::shared_ptr<CacheLoads::Load> CacheLoads::find(const ContentKey& key,
                                                   std::uint32_t chunk) const {
  const auto file = loads_.find(key);
  if (file == loads_.end()) return nullptr;
  const auto load = file->second.find(chunk);
  return load == file->second.end() ? nullptr : load->second;
}

Task<std::shared_ptr<LoadedChunk>> CacheLoads::load(std::shared_ptr<CachedFile> file,
                                                    std::uint32_t chunk, Turn turn,
                                                    std::function<bool()> wanted) {
  std::shared_ptr<Load> load = find(file->key(), chunk);
  if (load == nullptr) {
    Semaphore& turns = turnsOf(*file);
    if (turn == Turn::kWait) {
      co_await turns.acquire(1);
    } else if (!turns.tryAcquire(1)) {
      co_return nullptr;
    }
    // Another caller may have loaded the chunk, or begun to, while this one waited for a turn.
    auto here = ports_.memory.find(file->key(), chunk);
    load = find(file->key(), chunk);
    const bool gone = !file->resident(chunk) || (wanted && !wanted());
    if (here != nullptr || load != nullptr || gone) {
      turns.release(1);
      if (load == nullptr) co_return here;
    } else {
      load = start(file, chunk);
      if (load == nullptr) co_return nullptr;
    }
  }
  co_await load->ended.wait();
  co_return load->loaded;
}

Task<std::shared_ptr<LoadedChunk>> CacheLoads::coming(ContentKey key, std::uint32_t chunk) {
  const std::shared_ptr<Load> load = find(key, chunk);
  if (load == nullptr) co_return nullptr;
  co_await load->ended.wait();
  co_return load->loaded;
}

std::shared_ptr<CacheLoads::Load> CacheLoads::start(const std::shared_ptr<CachedFile>& file,
                                                    std::uint32_t chunk) {
  // A limited disk reads only the bytes that callers ask for.
  const bool limited = ports_.limits.disk.limits(Priority::kDemand);
  std::optional<ChunkBuffer> buffer;
  if (!limited && !ports_.gate.closed()) buffer = ports_.ofOrigin.takeNow();
  if (!buffer) {
    turnsOf(*file).release(1);
    return nullptr;
  }
  const auto load = std::make_shared<Load>(ports_.reactor);
  loads_[file->key()][chunk] = load;
  ports_.gate.spawn(run(file, chunk, load, std::move(*buffer)));
  return load;
}

Task<void> CacheLoads::run(std::shared_ptr<CachedFile> file, std::uint32_t chunk,
                           std::shared_ptr<Load> load, ChunkBuffer buffer) {
  load->loaded = co_await read(file, chunk, std::move(buffer));
  const auto loads = loads_.find(file->key());
  loads->second.erase(chunk);
  if (loads->second.empty()) loads_.erase(loads);
  // Waiters get the chunk before the next load may claim its memory.
  load->ended.set();
  turnsOf(*file).release(1);
}

Task<std::shared_ptr<LoadedChunk>> CacheLoads::read(std::shared_ptr<CachedFile> file,
                                                    std::uint32_t chunk, ChunkBuffer buffer) {
  const std::uint64_t generation = file->generation();
  // A disk that hangs keeps the buffer.
  const auto held = std::make_shared<ChunkBuffer>(std::move(buffer));
  const Status read = co_await file->readChunk(chunk, held->first(kChunkBytes), held);
  const std::vector<std::uint32_t> checksums = file->blockChecksums(chunk);
  // Does not bring back a chunk that was dropped as wrong during the read.
  if (!read.ok() || checksums.empty() || file->generation() != generation) co_return nullptr;
  const std::uint64_t bytes = std::min(kChunkBytes, file->size() - chunk * kChunkBytes);
  auto loaded = loadInto(ports_.reactor, std::move(*held), bytes);
  loaded->checksums = checksums;
  loaded->publish(file->key(), chunk);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  ports_.memory.adopt(file->key(), file->size(), ports_.wanted.find(file->key()), chunk, loaded);
  co_return loaded;
}

}  // namespace hearth
