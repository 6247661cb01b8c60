#include "volume/log_segment.h"

#include <algorithm>

#include "base/byte_codec.h"
#include "base/crc32c.h"

namespace hearth {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kSegmentVersion = 1;
// Of a group with one record.
constexpr std::size_t kLeastGroup = kGroupHeadBytes + tree::kHeaderBytes;
constexpr std::size_t kScanBytes = std::size_t{1} << 20;

struct GroupHead {
  std::size_t size = 0;  // 0: not the head of a group that stands there
  std::uint64_t synced = 0;
};

GroupHead groupAt(std::span<const std::byte> bytes, std::uint64_t offset) {
  ByteReader in(bytes.first(kGroupHeadBytes));
  const std::uint32_t checksum = in.u32();
  const std::uint32_t size = in.u32();
  if (in.u64() != offset || size < kLeastGroup || size > kMostGroupBytes) return {};
  if (crc32c(bytes.subspan(4, kGroupHeadBytes - 4)) != checksum) return {};
  return {size, in.u64()};
}

Error rotten(const std::string& path, std::uint64_t offset) {
  return {ErrorCode::kCorrupt, path + " has damaged bytes at " + std::to_string(offset) +
                                   " that had been synced: its disk returns wrong bytes"};
}

Error later(const std::string& path) {
  return {ErrorCode::kUnsupported, path + " was written by a later release of Hearth"};
}

// Records of one group, each good and the next in order; an empty list: the group is not whole.
Result<std::vector<std::span<const std::byte>>> recordsOf(std::span<const std::byte> group,
                                                          std::uint64_t first,
                                                          const std::string& path) {
  std::vector<std::span<const std::byte>> records;
  while (!group.empty()) {
    const tree::RawRecord record = tree::parseRawRecord(group);
    if (record.kind == tree::Parse::kLater) return later(path);
    if (record.kind != tree::Parse::kGood || record.number != first + records.size()) {
      return std::vector<std::span<const std::byte>>();
    }
    records.push_back(group.first(record.bytes));
    group = group.subspan(record.bytes);
  }
  return records;
}

// True: a group behind `from` says that the byte there had been synced.
Task<Result<bool>> wasSynced(Background background, File& file, std::uint64_t from,
                             std::uint64_t size) {
  Bytes bytes(kScanBytes);
  for (std::uint64_t at = from + 1; at + kGroupHeadBytes <= size;
       at += kScanBytes - kGroupHeadBytes + 1) {
    const auto read = co_await file.readAt(bytes, at);
    if (!read.ok()) co_return read.error();
    const auto search = [&bytes, at, from, count = *read] {
      for (std::size_t i = 0; i + kGroupHeadBytes <= count; ++i) {
        if (groupAt(std::span(bytes).subspan(i), at + i).synced > from) return true;
      }
      return false;
    };
    if (co_await background.run(search)) co_return true;
  }
  co_return false;
}

}  // namespace

Bytes encodeSegmentHead(const SegmentHead& head, const HeadMagic& magic) {
  ByteWriter out;
  out.bytes(std::as_bytes(std::span(magic)));
  out.u32(kSegmentVersion);
  out.u32(0);
  out.bytes(std::as_bytes(std::span(head.store)));
  out.bytes(std::as_bytes(std::span(head.volume)));
  out.u64(head.firstRecord);
  out.u32(0);
  Bytes bytes = out.take();
  ByteWriter(bytes).u32(crc32c(bytes));
  return bytes;
}

HeadKind decodeSegmentHead(std::span<const std::byte> bytes, SegmentHead& head,
                           const HeadMagic& expected) {
  if (bytes.size() < kSegmentHeadBytes) return HeadKind::kTorn;
  ByteReader in(bytes.first(kSegmentHeadBytes));
  const auto magic = in.fixed<8>();
  const std::uint32_t version = in.u32();
  (void)in.u32();
  head.store = in.fixed<16>();
  head.volume = in.fixed<16>();
  head.firstRecord = in.u64();
  (void)in.u32();
  const bool whole = in.u32() == crc32c(bytes.first(kSegmentHeadBytes - 4));
  if (!whole || magic != expected) return HeadKind::kTorn;
  return version == kSegmentVersion ? HeadKind::kGood : HeadKind::kLater;
}

Bytes encodeGroupHead(std::uint64_t offset, std::uint64_t synced, std::size_t recordBytes) {
  ByteWriter fields;
  fields.u32(static_cast<std::uint32_t>(kGroupHeadBytes + recordBytes));
  fields.u64(offset);
  fields.u64(synced);
  const Bytes checked = fields.take();
  ByteWriter out;
  out.u32(crc32c(checked));
  out.bytes(checked);
  return out.take();
}

std::optional<std::uint64_t> groupOffset(std::span<const std::byte> bytes) {
  if (bytes.size() < kGroupHeadBytes) return std::nullopt;
  ByteReader in(bytes.subspan(8, 8));
  const std::uint64_t claimed = in.u64();
  return groupAt(bytes, claimed).size == 0 ? std::nullopt : std::optional(claimed);
}

Status takeGroups(std::span<const std::byte> window, SegmentReport& report,
                  const std::function<Status(std::span<const std::byte>)>& each,
                  const std::string& path) {
  while (window.size() >= kLeastGroup) {
    const std::size_t group = groupAt(window, report.goodBytes).size;
    if (group == 0 || group > window.size()) break;
    const auto records = recordsOf(window.subspan(kGroupHeadBytes, group - kGroupHeadBytes),
                                   report.lastRecord + 1, path);
    if (!records.ok()) return records.error();
    if (records->empty()) break;
    for (const auto record : *records) {
      if (Status taken = each(record); !taken.ok()) return taken;
    }
    report.lastRecord += records->size();
    report.goodBytes += group;
    window = window.subspan(group);
  }
  return {};
}

Task<Result<SegmentReport>> readSegment(Background background, File& file, std::string path,
                                        std::function<Status(std::span<const std::byte>)> each) {
  const auto info = co_await file.info();
  if (!info.ok()) co_return info.error();
  const std::uint64_t size = info->size;
  Bytes bytes(kSegmentHeadBytes);
  auto read = co_await file.readAt(bytes, 0);
  if (!read.ok()) co_return read.error();
  SegmentReport report;
  SegmentHead head;
  const HeadKind kind = decodeSegmentHead(std::span(bytes).first(*read), head);
  if (kind == HeadKind::kLater) co_return later(path);
  if (kind == HeadKind::kGood) {
    report.head = head;
    report.lastRecord = head.firstRecord - 1;
    report.goodBytes = kSegmentHeadBytes;
  }
  for (bool more = report.head && size > kSegmentHeadBytes; more;) {
    const std::uint64_t at = report.goodBytes;
    bytes.resize(std::min<std::uint64_t>(size - at, kMostGroupBytes));
    read = co_await file.readAt(bytes, at);
    if (!read.ok()) co_return read.error();
    const std::span<const std::byte> window = std::span(bytes).first(*read);
    const Status taken = co_await background.run(
        [&report, &each, &path, window] { return takeGroups(window, report, each, path); });
    if (!taken.ok()) co_return taken.error();
    more = report.goodBytes != at && report.goodBytes < size;
  }
  report.torn = report.goodBytes < size;
  if (report.torn) {
    const auto synced = co_await wasSynced(background, file, report.goodBytes, size);
    if (!synced.ok()) co_return synced.error();
    if (*synced) co_return rotten(path, report.goodBytes);
  }
  co_return report;
}

}  // namespace hearth
