// Plans the parts of tensors that one rank of a tensor-parallel engine wants. Pure, any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "loader/load_plan.h"

namespace hearth {

// Indices [begin, end) of one dimension of a tensor, and all of its other dimensions.
struct TensorSlice {
  std::size_t dimension = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
using TensorSlices = std::map<std::string, TensorSlice, std::less<>>;

// Of tensors that `slices` names, these parts; of `names` all others whole, or of all files without
// them. The plan has rows only: each tensor of it is without gaps in memory, and its entry
// describes the part. kNotFound, kAlreadyExists: as planLoad(), for names in `slices`, too.
// kInvalidArgument: a slice leaves its tensor, or cuts an element of a packed type out of its byte.
[[nodiscard]] Result<LoadPlan> planSlices(std::span<const std::shared_ptr<const ModelFile>> files,
                                          const std::optional<std::vector<std::string>>& names,
                                          const TensorSlices& slices);

}  // namespace hearth
