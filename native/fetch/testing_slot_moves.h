// Tags that say which chunk's bytes a slot has, and the moves by which readers and a shard use
// slots. SlotMoves are the product's own; testing_broken_moves.h has moves that each break one
// rule. For tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/generated/constants.h"
#include "fetch/memory_tier.h"

namespace hearth::testing_support {

// Names the bytes of one arrival of a chunk; `generation` counts the arrivals.
struct Tag {
  std::uint32_t file = 0, chunk = 0;
  std::uint64_t generation = 0;
  bool operator==(const Tag&) const = default;
};

inline Tag tagAt(std::span<const std::byte> bytes, std::size_t offset) {
  Tag tag;
  std::memcpy(&tag, bytes.data() + offset, sizeof(tag));
  return tag;
}

inline void writeTags(std::span<std::byte> bytes, const Tag& tag, std::size_t stride) {
  for (std::size_t offset = 0; offset < bytes.size(); offset += stride)
    std::memcpy(bytes.data() + offset, &tag, sizeof(tag));
}

inline bool allTagged(std::span<const std::byte> bytes, const Tag& tag, std::size_t stride) {
  for (std::size_t offset = 0; offset < bytes.size(); offset += stride) {
    if (tagAt(bytes, offset) != tag) return false;
  }
  return true;
}

// A reader's hold of a chunk, from finding it until it has read.
struct HeldBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<LoadedChunk> reference;
};

class SlotMoves {
 public:
  SlotMoves() = default;
  virtual ~SlotMoves() = default;
  SlotMoves(const SlotMoves&) = delete;
  SlotMoves& operator=(const SlotMoves&) = delete;

  // Once for each stock, before it is used.
  virtual void attach(SlotStock& /*stock*/, MemoryTier& /*tier*/) {}
  // Before the shard asks for a slot.
  virtual void look() {}

  virtual std::shared_ptr<LoadedChunk> load(Reactor& reactor, ChunkBuffer memory) {
    return loadInto(reactor, std::move(memory), kChunkBytes);
  }
  // A chunk lands between these two.
  virtual void beforeLanding(const LoadedChunk& loaded, const Tag& tag, std::size_t stride) {
    writeTags(loaded.bytes, tag, stride);
  }
  virtual void afterLanding(const LoadedChunk& /*loaded*/, const Tag& /*tag*/,
                            std::size_t /*stride*/) {}
  // The same for a part of a chunk that answers peers before the rest comes.
  virtual void beforeAnswers(std::span<std::byte> part, const Tag& tag, std::size_t stride) {
    writeTags(part, tag, stride);
  }
  virtual void afterAnswers(std::span<std::byte> /*part*/, const Tag& /*tag*/,
                            std::size_t /*stride*/) {}
  // The chunk waits for no disk any more.
  virtual void settle(MemoryTier& tier, const std::shared_ptr<KeyFetch>& file, std::uint32_t chunk,
                      const std::shared_ptr<LoadedChunk>& loaded) {
    tier.settle(file, chunk, loaded);
  }
  // A file is about to drop the chunk, or its origin has failed.
  virtual void letGo(LoadedChunk& /*loaded*/) {}

  // Any thread.
  virtual HeldBytes hold(std::shared_ptr<LoadedChunk> found) {
    return {found->bytes, std::move(found)};
  }
};

}  // namespace hearth::testing_support
