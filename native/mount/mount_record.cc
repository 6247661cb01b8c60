#include "mount/mount_record.h"

#include "base/byte_codec.h"

namespace hearth {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kVolumeVersion = 2;

constexpr std::string_view kSourcePrefix = "hearth:";

}  // namespace

std::string MountRecord::dataset() const {
  return source.starts_with(kSourcePrefix) ? source.substr(kSourcePrefix.size()) : std::string();
}

std::string encodeMountRecord(const MountRecord& record) {
  ByteWriter writer;
  writer.u8(kVersion);
  writer.u8(record.passthrough ? 1 : 0);
  writer.bytes(std::as_bytes(std::span(record.manifest)));
  writer.text(record.source);
  const std::vector<std::byte> bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<MountRecord> decodeMountRecord(std::string_view blob) {
  ByteReader reader(std::as_bytes(std::span(blob)));
  MountRecord record;
  const std::uint8_t version = reader.u8();
  record.passthrough = reader.u8() != 0;
  reader.bytes(std::as_writable_bytes(std::span(record.manifest)));
  record.source = reader.text();
  if (version != kVersion || !reader.finished()) return std::nullopt;
  return record;
}

std::string encodeVolumeMountRecord(const VolumeMountRecord& record) {
  ByteWriter writer;
  writer.u8(kVolumeVersion);
  writer.bytes(std::as_bytes(std::span(record.volume)));
  writer.text(record.source);
  const std::vector<std::byte> bytes = writer.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<VolumeMountRecord> decodeVolumeMountRecord(std::string_view blob) {
  ByteReader reader(std::as_bytes(std::span(blob)));
  VolumeMountRecord record;
  const std::uint8_t version = reader.u8();
  reader.bytes(std::as_writable_bytes(std::span(record.volume)));
  record.source = reader.text();
  if (version != kVolumeVersion || !reader.finished()) return std::nullopt;
  return record;
}

}  // namespace hearth
