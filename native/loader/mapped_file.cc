#include "loader/mapped_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "memory/aligned_mapping.h"

namespace hearth {

std::optional<MappedFile> mapCachedFile(const FilePlan& plan) {
  const ModelFile& file = *plan.file;
  MappedFile mapped{.plan = plan, .memory = nullptr};
  for (PlacedTensor& tensor : mapped.plan.tensors) {
    tensor.inMemory = file.dataOffset() + tensor.entry->begin;
    if (tensor.inMemory % tensorTypeAlignment(tensor.entry->type) != 0) return std::nullopt;
  }
  auto mapping = AlignedMapping::map(file.descriptor(), 0, file.bytes(), PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_NORESERVE);
  if (!mapping.ok()) return std::nullopt;
  const auto owner = std::make_shared<AlignedMapping>(std::move(*mapping));
  const std::span<std::byte> bytes(owner->data(), file.bytes());
  const bool isCached = std::ranges::all_of(plan.reads, [&](const PlannedRead& read) {
    return file.populateCached(*owner, read.offset, read.size);
  });
  if (!isCached) return std::nullopt;
  mapped.plan.reads.clear();
  mapped.plan.memoryBytes = file.bytes();
  mapped.memory = MemoryRegion::host(bytes, owner);
  return mapped;
}

}  // namespace hearth
