// The contents of one slot of an arena, laid out in memory that outlives a process. The layout is
// fixed and little-endian. The writer may end at any instruction, so it writes the state last, and
// everything else while the state says that nothing is valid.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/content_key.h"
#include "base/generated/constants.h"

namespace hearth {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::size_t kSlotBlocks = kChunkBytes / kBlockBytes;
using SlotCrcs = std::array<std::uint32_t, kSlotBlocks>;

enum class SlotState : std::uint32_t {
  kFree = 0,
  kFilling = 1,      // bytes are on their way into it
  kValid = 2,        // its bytes are those that the record says
  kQuarantined = 3,  // a process before this one may have had I/O in flight
};

// Names the bytes in a slot.
struct SlotContents {
  ContentKey key;
  std::uint64_t chunk = 0;  // of the content
  std::uint32_t bytes = 0;  // at most kChunkBytes
  SlotCrcs crcs{};          // of each block that is begun; zero behind these
  bool operator==(const SlotContents&) const = default;
};

struct ArenaRecord {
  std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> busy;  // I/O in flight
  std::atomic<std::uint64_t> generation;
  std::array<std::uint8_t, 32> key;
  std::uint64_t chunk;
  std::uint32_t bytes;
  std::uint32_t crc;  // checksumOf()
  SlotCrcs crcs;
};
static_assert(sizeof(ArenaRecord) == 320 && alignof(ArenaRecord) == 8);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

// The first bytes of an index. What is not named here is zero.
struct ArenaIndexHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t headerBytes;
  std::uint64_t required;  // features that a reader has to know; none yet
  std::uint64_t optional;  // features that it may leave alone; none yet
  std::uint64_t slots;
  std::uint64_t slotBytes;
  std::uint64_t recordBytes;
  std::uint64_t arenaDevice;
  std::uint64_t arenaInode;
  std::uint64_t arenaBytes;
  std::array<char, 40> bootId;  // of the machine's boot, as text
  std::uint32_t reserved;
  std::uint32_t crc;  // of all before it
};
static_assert(sizeof(ArenaIndexHeader) == 128);

inline constexpr std::uint64_t kArenaIndexMagic = 0x584449414e455241;  // "ARENAIDX"
inline constexpr std::uint32_t kArenaIndexVersion = 1;
inline constexpr std::size_t kArenaIndexHeaderBytes = 4096;

// CRC32C of everything in the record but its state, its busy word and this checksum.
[[nodiscard]] std::uint32_t checksumOf(const ArenaRecord& record);
[[nodiscard]] std::uint32_t checksumOf(const ArenaIndexHeader& header);

// Blocks that `bytes` bytes of a slot begin.
[[nodiscard]] constexpr std::size_t slotBlocks(std::uint32_t bytes) {
  return (std::size_t{bytes} + kBlockBytes - 1) / kBlockBytes;
}

}  // namespace hearth
