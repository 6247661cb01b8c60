// Whatever a former process left in an index: the successor refuses it, or believes each record
// only when the record is whole and stays inside its slot. The fuzzer first corrects header and
// checksums, so that inputs reach the checks behind them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "arena/arena_index.h"

namespace {

using hearth::ArenaIndexHeader;
using hearth::ArenaRecord;

constexpr std::size_t kSlots = 4;
constexpr std::size_t kBytes = 8192;
constexpr hearth::ArenaIdentity kArena{7, 11, kSlots* hearth::kChunkBytes};

void require(bool truth) {
  if (!truth) std::abort();
}

void check(const std::vector<std::byte>& index) {
  (void)hearth::refusalOf(index, kArena);
  if (index.size() < hearth::kArenaIndexHeaderBytes + kSlots * sizeof(ArenaRecord)) return;
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    alignas(ArenaRecord) std::byte copy[sizeof(ArenaRecord)];
    std::memcpy(copy, index.data() + hearth::kArenaIndexHeaderBytes + slot * sizeof copy,
                sizeof copy);
    const auto& record = *reinterpret_cast<const ArenaRecord*>(copy);
    if (hearth::assess(record) != hearth::SlotState::kValid) continue;
    require(record.bytes != 0 && record.bytes <= hearth::kChunkBytes);
    require(hearth::slotBlocks(record.bytes) <= record.crcs.size());
    require(record.busy.load() == 0 && record.crc == checksumOf(record));
  }
}

void repair(std::vector<std::byte>& index) {
  if (index.size() < hearth::kArenaIndexHeaderBytes + kSlots * sizeof(ArenaRecord)) return;
  ArenaIndexHeader header;
  std::memcpy(&header, index.data(), sizeof header);
  header.magic = hearth::kArenaIndexMagic;
  header.version = hearth::kArenaIndexVersion;
  header.crc = checksumOf(header);
  std::memcpy(index.data(), &header, sizeof header);
  for (std::size_t slot = 0; slot < kSlots; ++slot) {
    auto* const record = reinterpret_cast<ArenaRecord*>(
        index.data() + hearth::kArenaIndexHeaderBytes + slot * sizeof(ArenaRecord));
    record->crc = checksumOf(*record);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Short inputs are headers and then records.
  constexpr std::size_t kHeader = sizeof(ArenaIndexHeader);
  std::vector<std::byte> index(size < kHeader ? size : kBytes);
  if (size > 0) std::memcpy(index.data(), data, std::min(size, kHeader));
  if (size > kHeader) {
    const std::size_t rest =
        std::min(size - kHeader, index.size() - hearth::kArenaIndexHeaderBytes);
    std::memcpy(index.data() + hearth::kArenaIndexHeaderBytes, data + kHeader, rest);
  }
  check(index);
  repair(index);
  check(index);
  return 0;
}
