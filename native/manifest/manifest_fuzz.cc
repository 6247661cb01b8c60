// Whatever the bytes: parse() refuses them or gives a manifest that can be walked completely. The
// header's checksum and lengths are made right first, so that the fuzzer gets past them.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "manifest/format.h"
#include "manifest/manifest.h"

namespace {

using hearth::EntryKind;
using hearth::manifest_format::Entry;
using hearth::manifest_format::Header;

void require(bool truth) {
  if (!truth) std::abort();
}

void walk(const hearth::Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < manifest.totals().entries; ++i) {
    const hearth::ManifestEntry entry = manifest.entry(i);
    bytes += entry.size;
    if (i != hearth::kRootEntry) require(manifest.find(entry.parent, entry.name) == i);
    require(manifest.lookUp(manifest.path(i)) == i);
    for (std::uint32_t child = 0; child < entry.childCount; ++child) {
      require(manifest.entry(entry.firstChild + child).parent == i);
    }
  }
  require(bytes == manifest.totals().bytes);
}

void repair(std::vector<std::byte>& bytes) {
  if (bytes.size() < sizeof(Header)) return;
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.magic = hearth::manifest_format::kMagic;
  header.version = hearth::manifest_format::kVersion;
  header.requiredFeatures = 0;
  // As long as the fuzzer says, within what is allowed and there.
  header.headerBytes = sizeof(Header) + header.headerBytes % 5 * 8;
  if (header.entryBytes != 0) header.entryBytes = sizeof(Entry) + header.entryBytes % 5 * 8;
  if (header.optionalFeatures == 0) header.reserved = {};
  const std::uint64_t entryBytes = header.entryBytes == 0 ? sizeof(Entry) : header.entryBytes;
  header.fileBytes = bytes.size();
  header.entriesOffset = header.headerBytes;
  header.digestsOffset = header.headerBytes + std::uint64_t{header.entries} * entryBytes;
  header.stringsOffset = header.digestsOffset + header.digests * 32;
  header.checksum =
      hearth::crc32c({reinterpret_cast<const std::byte*>(&header), offsetof(Header, checksum)});
  std::memcpy(bytes.data(), &header, sizeof header);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  for (int round = 0; round < 2; ++round) {
    if (const auto manifest = hearth::Manifest::parse(bytes); manifest.ok()) walk(**manifest);
    repair(bytes);
  }
  return 0;
}
