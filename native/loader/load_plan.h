// Lays chosen tensors out in memory so that each of their bytes is read once, straight to where it
// stays. Pure, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "loader/model_file.h"
#include "loader/row_read.h"

namespace hearth {

// Bytes of a file and their place in the memory of that file.
struct PlannedRead {
  std::uint64_t offset = 0;
  std::uint64_t inMemory = 0;
  std::uint64_t size = 0;
};

struct PlacedTensor {
  std::shared_ptr<const TensorEntry> entry;
  std::uint64_t inMemory = 0;
};

// One file and its memory. Every read is at the same place of its page in file and memory, except
// where the tensors of a file would then be misaligned for processors.
struct FilePlan {
  std::shared_ptr<const ModelFile> file;
  std::uint64_t memoryBytes = 0;  // a multiple of kDirectReadAlignment
  std::vector<PlannedRead> reads;
  std::vector<RowRead> rows;  // besides the reads
  std::vector<PlacedTensor> tensors;
};

struct LoadPlan {
  std::vector<FilePlan> files;  // without those of which nothing is wanted
  [[nodiscard]] std::uint64_t readBytes() const;
};

// The reads of one of `ranks` that load `plan` together: every byte is read by one of them, and
// each reads about as many. Parts meet at multiples of kDirectReadAlignment in their file.
[[nodiscard]] LoadPlan shareOf(const LoadPlan& plan, unsigned rank, unsigned ranks);

// Of `names` all, or of all files everything without them. kNotFound: no file has a name, which the
// message lists; kAlreadyExists: two files have the same one.
[[nodiscard]] Result<LoadPlan> planLoad(std::span<const std::shared_ptr<const ModelFile>> files,
                                        const std::optional<std::vector<std::string>>& names);

}  // namespace hearth
