#include "namespace/record.h"

#include <cstring>

#include "base/byte_codec.h"
#include "base/crc32c.h"
#include "base/optional_fields.h"

namespace hearth::tree {
namespace {

constexpr std::uint8_t kLayout = 1;
constexpr std::uint8_t kPut = 1;
constexpr std::uint8_t kDelete = 2;

void overwrite(Bytes& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
  }
}

bool takeChange(ByteReader& in, RawChange& change) {
  const std::uint8_t kind = in.u8();
  change.key = in.raw(in.u16());
  if (kind == kPut) change.value = in.raw(in.u32());
  return in.ok() && !change.key.empty() && (kind == kPut || kind == kDelete);
}

Parse finishRecord(ByteReader& in) {
  OptionalFields fields(in);
  while (const auto field = fields.next()) {
    if (field->mustUnderstand()) return Parse::kLater;
  }
  return fields.malformed() ? Parse::kBad : Parse::kGood;
}

}  // namespace

void appendRecord(Bytes& to, const Record& record) {
  const std::size_t begin = to.size();
  ByteWriter out(to);
  out.u64(0);  // checksum and length, below
  out.u8(kLayout);
  out.u8(0);
  out.u16(0);
  out.u64(record.epoch);
  out.u64(record.number);
  out.u32(static_cast<std::uint32_t>(record.changes.size()));
  Bytes key, value;
  for (const KeyChange& change : record.changes) {
    key.clear();
    value.clear();
    encodeKey(change.key, key);
    out.u8(change.deletes() ? kDelete : kPut);
    out.u16(static_cast<std::uint16_t>(key.size()));
    out.bytes(key);
    if (change.deletes()) continue;
    encodeValue(change.value, value);
    out.u32(static_cast<std::uint32_t>(value.size()));
    out.bytes(value);
  }
  overwrite(to, begin + 4, static_cast<std::uint32_t>(to.size() - begin));
  overwrite(to, begin, crc32c(std::span(to).subspan(begin + 4)));
}

RawRecord parseRawRecord(std::span<const std::byte> from) {
  RawRecord parsed;
  if (from.size() < 8) return {.kind = Parse::kCut};
  ByteReader framing(from);
  const std::uint32_t checksum = framing.u32();
  parsed.bytes = framing.u32();
  if (parsed.bytes < kHeaderBytes || parsed.bytes > kMaxRecordBytes) return {};
  if (from.size() < parsed.bytes) return {.kind = Parse::kCut};
  const auto whole = from.first(parsed.bytes);
  if (crc32c(whole.subspan(4)) != checksum) return {};
  ByteReader in(whole.subspan(8));
  if (in.u8() != kLayout) return {.kind = Parse::kLater};
  if (in.u8() != 0 || in.u16() != 0) return {};
  parsed.epoch = in.u64();
  parsed.number = in.u64();
  const std::uint32_t count = in.u32();
  for (std::uint32_t i = 0; i < count; ++i) {
    RawChange change;
    if (!takeChange(in, change)) return {};
    parsed.changes.push_back(change);
  }
  parsed.kind = finishRecord(in);
  return parsed;
}

ParsedRecord parseRecord(std::span<const std::byte> from) {
  const RawRecord raw = parseRawRecord(from);
  if (raw.kind != Parse::kGood) return {.kind = raw.kind};
  ParsedRecord parsed{
      .kind = Parse::kGood, .bytes = raw.bytes, .record = {raw.epoch, raw.number, {}}};
  for (const RawChange& change : raw.changes) {
    KeyChange decoded;
    switch (decodeChange(change.key, change.value, decoded)) {
      case Decoded::kGood:
        parsed.record.changes.push_back(std::move(decoded));
        break;
      case Decoded::kSkipped:
        break;
      case Decoded::kBad:
        return {};
      case Decoded::kLater:
        return {.kind = Parse::kLater};
    }
  }
  return parsed;
}

}  // namespace hearth::tree
