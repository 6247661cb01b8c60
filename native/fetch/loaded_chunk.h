// Chunks that have landed and are still in memory, which answers readers and peers; the disk
// follows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fetch/buffer_pool.h"
#include "transport/peer_transport.h"

namespace hearth {

// The verified bytes of one chunk. Immutable once in a file's LoadedChunks. Any thread; the buffer
// goes back to its pool on the pool's thread, wherever the last reference goes.
struct LoadedChunk {
  LoadedChunk(ChunkBuffer memory, std::size_t size)
      : buffer(std::move(memory)), bytes(buffer.first(size)) {}

  ChunkBuffer buffer;
  const std::span<std::byte> bytes;
  std::vector<std::uint32_t> checksums;  // CRC32C of its blocks, set before it lands
  // Bytes that readers got from here. A reader that goes through the file takes each byte once.
  std::atomic<std::uint64_t> taken{0};
  std::atomic<Clock::time_point> takenAt{Clock::now()};  // the last time

  // Lets the next process take the slot over as this chunk. Call after `checksums` are set, on the
  // pool's thread.
  void publish(const ContentKey& key, std::uint32_t chunk) {
    SlotContents contents{key, chunk, static_cast<std::uint32_t>(bytes.size()), {}};
    std::ranges::copy(checksums, contents.crcs.begin());
    buffer.publish(contents);
  }

  // Notes an answer to a peer from this memory. On the pool's thread, as the functions below.
  void lend(const std::shared_ptr<LentPayload>& answer, Clock::time_point now) {
    std::erase_if(lent_, [](const Lent& each) { return each.answer.expired(); });
    lent_.push_back({answer, now});
  }
  // When the oldest unsent answer began; nothing: all are sent.
  [[nodiscard]] std::optional<Clock::time_point> lentSince() const {
    for (const Lent& each : lent_) {
      if (!each.answer.expired()) return each.since;
    }
    return std::nullopt;
  }
  // Keeps the chunk, and counts as a sender that reads its memory, until the result goes. Any
  // thread.
  [[nodiscard]] static std::shared_ptr<const void> sendFrom(std::shared_ptr<LoadedChunk> chunk) {
    chunk->senders_.fetch_add(1, std::memory_order_relaxed);
    const void* const address = chunk.get();
    return {address, [chunk = std::move(chunk)](const void*) mutable {
              chunk->senders_.fetch_sub(1, std::memory_order_relaxed);
              chunk.reset();
            }};
  }
  // True: system calls or devices read the memory now, which cannot be taken back from them.
  [[nodiscard]] bool isBeingSent() const { return senders_.load(std::memory_order_relaxed) != 0; }
  // Makes unsent answers take their bytes from the file from now on.
  void takeBack() {
    for (const Lent& each : std::exchange(lent_, {})) {
      if (const std::shared_ptr<LentPayload> answer = each.answer.lock()) answer->release();
    }
  }

 private:
  struct Lent {
    std::weak_ptr<LentPayload> answer;
    Clock::time_point since;
  };
  std::vector<Lent> lent_;  // oldest first
  std::atomic<std::uint32_t> senders_{0};
};

// On the thread of `reactor`, which is the pool's.
[[nodiscard]] inline std::shared_ptr<LoadedChunk> loadInto(Reactor& reactor, ChunkBuffer memory,
                                                           std::size_t size) {
  return {new LoadedChunk(std::move(memory), size), [&reactor](LoadedChunk* chunk) {
            if (reactor.onThisThread()) {
              delete chunk;
            } else {
              reactor.post([chunk] { delete chunk; });
            }
          }};
}

// The loaded chunks of one file. Any thread.
class LoadedChunks {
 public:
  [[nodiscard]] std::shared_ptr<LoadedChunk> find(std::uint32_t chunk) const {
    const std::lock_guard lock(mutex_);
    const auto found = chunks_.find(chunk);
    return found == chunks_.end() ? nullptr : found->second;
  }
  [[nodiscard]] std::vector<std::pair<std::uint32_t, std::shared_ptr<LoadedChunk>>> all() const {
    const std::lock_guard lock(mutex_);
    return {chunks_.begin(), chunks_.end()};
  }
  // Destroys a replaced or erased chunk after the lock is released: its buffer serves waiters, and
  // they may erase another chunk of the same file.
  void put(std::uint32_t chunk, std::shared_ptr<LoadedChunk> loaded) {
    const std::lock_guard lock(mutex_);
    chunks_[chunk].swap(loaded);  // parameters live longer than the lock
  }
  // Does nothing when the chunk has come in again meanwhile.
  void erase(std::uint32_t chunk, const LoadedChunk& loaded) {
    std::shared_ptr<LoadedChunk> last;
    const std::lock_guard lock(mutex_);
    const auto found = chunks_.find(chunk);
    if (found == chunks_.end() || found->second.get() != &loaded) return;
    last = std::move(found->second);
    chunks_.erase(found);
  }
  // Drops all chunks, as all of the file turned out to be wrong.
  void clear() {
    std::unordered_map<std::uint32_t, std::shared_ptr<LoadedChunk>> last;
    const std::lock_guard lock(mutex_);
    last.swap(chunks_);
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::shared_ptr<LoadedChunk>> chunks_;
};

}  // namespace hearth
