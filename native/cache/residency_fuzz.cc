// Whatever the bytes, the decoder refuses, skips or understands a record and reads no byte outside;
// it understands an understood record again after encoding it. The fuzzer first corrects checksum
// and length, so that inputs reach the decoder behind them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "cache/residency_record.h"

namespace {

using hearth::ParsedRecord;

void require(bool truth) {
  if (!truth) std::abort();
}

void check(const ParsedRecord& parsed, std::size_t size) {
  const bool passed =
      parsed.kind == ParsedRecord::Kind::kRecord || parsed.kind == ParsedRecord::Kind::kSkipped;
  if (passed) require(parsed.bytes >= 12 && parsed.bytes <= size && parsed.bytes % 4 == 0);
  if (parsed.kind != ParsedRecord::Kind::kRecord) return;
  std::vector<std::byte> again;
  hearth::appendRecord(again, parsed.record);
  require(hearth::parseRecord(again).record == parsed.record);
}

void repair(std::vector<std::byte>& bytes) {
  if (bytes.size() < 12) return;
  bytes.resize(std::min(bytes.size() / 4 * 4, hearth::kMaxRecordBytes));
  const auto length = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(bytes.data() + 4, &length, 4);
  const std::uint32_t checksum = hearth::crc32c(std::span<const std::byte>(bytes).subspan(4));
  std::memcpy(bytes.data(), &checksum, 4);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  for (int round = 0; round < 2; ++round) {
    check(hearth::parseRecord(bytes), bytes.size());
    check(hearth::parseRecordVersion1(bytes), bytes.size());
    repair(bytes);
  }
  return 0;
}
