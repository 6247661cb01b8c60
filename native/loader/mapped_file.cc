#include "loader/mapped_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "memory/aligned_mapping.h"

namespace hearth {
namespace {

// MADV_POPULATE_READ of Linux 5.14; before, pages come when they are touched.
constexpr int kPopulateRead = 22;

}  // namespace

std::optional<MappedFile> mapCachedFile(const FilePlan& plan) {
  const ModelFile& file = *plan.file;
  MappedFile mapped{.plan = plan, .memory = nullptr};
  for (PlacedTensor& tensor : mapped.plan.tensors) {
    tensor.inMemory = file.dataOffset() + tensor.entry->begin;
    if (tensor.inMemory % tensorTypeAlignment(tensor.entry->type) != 0) return std::nullopt;
  }
  const bool isCached = std::ranges::all_of(
      plan.reads, [&](const PlannedRead& read) { return file.isCached(read.offset, read.size); });
  if (!isCached) return std::nullopt;
  auto mapping = AlignedMapping::map(file.descriptor(), 0, file.bytes(), PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_NORESERVE);
  if (!mapping.ok()) return std::nullopt;
  const auto owner = std::make_shared<AlignedMapping>(std::move(*mapping));
  const std::span<std::byte> bytes(owner->data(), file.bytes());
  for (const PlannedRead& read : plan.reads) {
    const std::uint64_t begin = read.offset / kDirectReadAlignment * kDirectReadAlignment;
    madvise(bytes.data() + begin, read.offset + read.size - begin, kPopulateRead);
  }
  mapped.plan.reads.clear();
  mapped.plan.memoryBytes = file.bytes();
  mapped.memory = MemoryRegion::host(bytes, owner);
  return mapped;
}

}  // namespace hearth
