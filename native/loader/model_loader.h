// Loads tensors of safetensors files into host or GPU memory: the door of the room.
//
//   auto model = loadModel({{"model.safetensors"}}, {});
//   for (const LoadedTensor& tensor : model->tensors) use(*tensor.entry, tensor.bytes());
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "loader/load_plan.h"
#include "loader/node_ranks.h"
#include "loader/parallel_read.h"
#include "loader/slice_plan.h"
#include "memory/memory_region.h"

namespace hearth {

struct LoadOptions {
  // Only these tensors; all of them without.
  std::optional<std::vector<std::string>> names;
  // Of these tensors only parts, which lie in memory without gaps; `names` and the others as ever.
  // Ranks of `place` may then want different names and slices of the same files, and read each byte
  // that one of them wants once between them. Rows with less than 64 KiB between them are read with
  // the bytes between. Not together with `mapsCachedFiles`.
  std::optional<TensorSlices> slices;
  // As openDevice() names it. Into a GPU bytes go by DeviceFiles, which `read.threads` and
  // `read.chunkBytes` do not concern.
  std::string device = "cpu";
  // Files that are in the page cache are mapped into host memory and not copied. Writes of this
  // process stay its own; but whoever writes or cuts such a file later changes the tensors, or ends
  // the process (SIGBUS).
  bool mapsCachedFiles = false;
  // Of a process that loads together with others of its node, which give the same files and names:
  // each byte is read once between them. Host memory is then shared until it is written.
  std::optional<RankPlace> place;
  ReadOptions read;
};

struct LoadedTensor {
  const TensorEntry* entry = nullptr;  // lives for as long as the LoadedModel; of a part, its own
  // Memory of the tensor's file, shared by all tensors of it.
  std::shared_ptr<MemoryRegion> memory;
  std::uint64_t inMemory = 0;

  // Only of host memory.
  [[nodiscard]] std::span<std::byte> bytes() const {
    if (entry->bytes() == 0) return {};
    return memory->bytes().subspan(inMemory, entry->bytes());
  }
};

struct LoadedModel {
  LoadPlan plan;
  std::vector<LoadedTensor> tensors;  // by file, in the order of their bytes
};

// Blocks, on any thread. Either all tensors are whole or an error comes back: kNotFound for files
// and names, kCorrupt for malformed and truncated files, kOriginChanged for files that were written
// or replaced during the load, kOutOfSpace without memory, kCancelled by `progress`; of the device
// as openDevice() and DeviceFiles answer; of other ranks as NodeRanks does.
[[nodiscard]] Result<LoadedModel> loadModel(std::span<const std::string> paths,
                                            const LoadOptions& options);

// Reads parts of one file into memory of the caller, as loaders of other programs lay it out:
// `address` of the host or of `options.device`, `bytes` long. Each read lies inside, with the rest
// of its last page. `layout`: of a caller who has read the header before; the file must still have
// it. Blocks, on any thread; the caller's memory is touched no more afterwards.
// Errors as loadModel(), and kInvalidArgument for reads that leave the memory or the file.
[[nodiscard]] Status readModelFile(const std::string& path,
                                   const std::optional<ModelLayout>& layout,
                                   std::vector<PlannedRead> reads, std::uint64_t address,
                                   std::uint64_t bytes, const LoadOptions& options);

}  // namespace hearth
