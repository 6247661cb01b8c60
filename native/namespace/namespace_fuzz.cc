// Whatever the bytes, a record is refused or understood, and understood again after encoding it; a
// tree takes it or refuses it, and what it took makes a checkpoint that gives the same tree. A
// checkpoint's reader gives items in order or stops. Checksums and lengths are made right first, so
// that the fuzzer gets past them.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/crc32c.h"
#include "namespace/namespace.h"

namespace {

using hearth::tree::Bytes;
using hearth::tree::CheckpointReader;
using hearth::tree::Namespace;
using hearth::tree::Parse;
using Step = CheckpointReader::Step;

constexpr std::uint64_t kEpoch = 1;

void require(bool truth) {
  if (!truth) std::abort();
}

void seal(std::span<std::byte> bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(bytes.data() + 4, &length, 4);
  const std::uint32_t checksum = hearth::crc32c(bytes.subspan(4));
  std::memcpy(bytes.data(), &checksum, 4);
}

void compare(const Namespace& tree) {
  Bytes before, after;
  tree.checkpoint(before);
  CheckpointReader reader;
  reader.feed(before);
  Namespace again({});
  Step step = reader.next();
  for (; step == Step::kItem; step = reader.next()) require(again.load(reader.item()).ok());
  require(step == Step::kEnd);
  if (!again.loaded(reader.head()).ok()) return;
  again.checkpoint(after);
  require(before == after);
}

// Bytes as records behind the first one of a log: before each is a byte for its length.
void applyRecords(std::span<const std::byte> input) {
  Namespace tree({});
  require(tree.lead(kEpoch, 0).ok());
  while (input.size() > 2) {
    const std::size_t wanted = hearth::tree::kHeaderBytes + static_cast<std::size_t>(input[0]) * 8;
    const std::size_t size = std::min(wanted, input.size() - 1);
    Bytes bytes(input.begin() + 1, input.begin() + 1 + static_cast<std::ptrdiff_t>(size));
    input = input.subspan(1 + size);
    if (bytes.size() < hearth::tree::kHeaderBytes) return;
    bytes[8] = std::byte{1};
    bytes[9] = bytes[10] = bytes[11] = std::byte{0};
    const std::uint64_t number = tree.lastRecord() + 1;
    std::memcpy(bytes.data() + 12, &kEpoch, 8);
    std::memcpy(bytes.data() + 20, &number, 8);
    seal(bytes);
    const auto parsed = hearth::tree::parseRecord(bytes);
    if (parsed.kind != Parse::kGood) return;
    require(parsed.bytes == bytes.size());
    Bytes encoded;
    hearth::tree::appendRecord(encoded, parsed.record);
    require(hearth::tree::parseRecord(encoded).record == parsed.record);
    if (!tree.apply(parsed.record).ok()) return;
    (void)tree.list(hearth::tree::kRootInode, 0, 100);
    compare(tree);
  }
}

void readCheckpoint(std::span<const std::byte> input) {
  CheckpointReader reader;
  Namespace tree({});
  Step step = Step::kMore;
  while (!input.empty()) {
    const std::size_t size =
        std::min<std::size_t>(1 + static_cast<std::size_t>(input[0]), input.size());
    reader.feed(input.first(size));
    input = input.subspan(size);
    for (step = reader.next(); step == Step::kItem; step = reader.next()) {
      if (!tree.load(reader.item()).ok()) return;
    }
  }
  if (step == Step::kEnd) (void)tree.loaded(reader.head());
}

// Blocks of the input's bytes behind a head that is right.
void readBlocks(std::span<const std::byte> input) {
  Bytes bytes;
  { hearth::tree::CheckpointWriter head({1, 1}, bytes); }
  while (!input.empty()) {
    const std::size_t size =
        std::min<std::size_t>(9 + static_cast<std::size_t>(input[0]) * 4, input.size());
    if (size < 9) break;
    const std::size_t begin = bytes.size();
    bytes.insert(bytes.end(), input.begin(), input.begin() + static_cast<std::ptrdiff_t>(size));
    seal(std::span(bytes).subspan(begin));
    input = input.subspan(size);
  }
  readCheckpoint(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  (void)hearth::tree::parseRecord(input);
  applyRecords(input);
  readCheckpoint(input);
  readBlocks(input);
  return 0;
}
