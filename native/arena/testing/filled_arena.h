// An arena with its index, and contents of slots that a test can recognise.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "arena/arena_index.h"
#include "base/crc32c.h"

namespace hearth::testing_arena {

struct FilledArena {
  std::unique_ptr<Arena> arena;
  std::unique_ptr<ArenaIndex> index;

  static FilledArena create(std::size_t slots, ArenaPageKind best = ArenaPageKind::kTransparent) {
    ArenaOptions options;
    options.best = best;
    options.bytes = slots * kChunkBytes;
    FilledArena made;
    made.arena = std::move(*Arena::create(options));
    made.index = std::move(*ArenaIndex::create(*made.arena));
    return made;
  }

  // Bytes that follow from key and chunk alone, so that wrong ones are seen.
  static void write(std::span<std::byte> into, const ContentKey& key, std::uint64_t chunk) {
    std::mt19937_64 random(key.prefix() * 31 + chunk);
    for (std::size_t at = 0; at + 8 <= into.size(); at += 8) {
      const std::uint64_t word = random();
      std::memcpy(into.data() + at, &word, 8);
    }
  }
  static SlotContents contentsOf(std::span<const std::byte> bytes, const ContentKey& key,
                                 std::uint64_t chunk) {
    SlotContents contents{key, chunk, static_cast<std::uint32_t>(bytes.size()), {}};
    const auto crcs = crc32cOfBlocks(bytes, kBlockBytes);
    std::ranges::copy(crcs, contents.crcs.begin());
    return contents;
  }
  static ContentKey keyOf(std::uint64_t seed) {
    ContentKey key;
    std::mt19937_64 random(seed);
    for (auto& byte : key.bytes) byte = static_cast<std::uint8_t>(random());
    return key;
  }

  // Fills a free slot with `size` bytes, and publishes it.
  SlotContents fill(std::size_t slot, const ContentKey& key, std::uint64_t chunk,
                    std::size_t size) const {
    index->beginFill(slot);
    const auto bytes = arena->bytes(slot).first(size);
    write(bytes, key, chunk);
    const SlotContents contents = contentsOf(bytes, key, chunk);
    index->publish(slot, contents);
    return contents;
  }

  // The arena as the next process adopts it.
  [[nodiscard]] std::unique_ptr<Arena> adoptedArena() const {
    return std::move(*Arena::adopt(OwnedFd(::dup(arena->file().get())), {}));
  }
  [[nodiscard]] OwnedFd indexFile() const { return OwnedFd(::dup(index->file().get())); }
};

}  // namespace hearth::testing_arena
