#include "loader/slice_plan.h"

#include <algorithm>

namespace hearth {
namespace {

// Of tensors in their memory, for the vector instructions of processors and GPUs.
constexpr std::uint64_t kSliceAlignment = 256;

std::uint64_t roundUp(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Of memory behind `used` bytes. One piece of the file lies at the same place of its page in file
// and memory, so that it can be read past the page cache, except where processors could not use it
// there.
std::uint64_t placeAfter(std::uint64_t used, const RowRead& rows, unsigned typeAlignment) {
  if (rows.rows > 1 || rows.offset % typeAlignment != 0) return roundUp(used, kSliceAlignment);
  const std::uint64_t inPage = rows.offset % kDirectReadAlignment;
  const std::uint64_t place = used / kDirectReadAlignment * kDirectReadAlignment + inPage;
  return place >= used ? place : place + kDirectReadAlignment;
}

Error refused(const ModelFile& file, const TensorEntry& tensor, const TensorSlice& slice,
              std::string_view why) {
  return {ErrorCode::kInvalidArgument, file.path() + ": [" + std::to_string(slice.begin) + ", " +
                                           std::to_string(slice.end) + ") of dimension " +
                                           std::to_string(slice.dimension) + " of tensor '" +
                                           tensor.name + "' " + std::string(why)};
}

// A part of a tensor and where its bytes lie in the file.
struct Part {
  TensorEntry entry;
  RowRead rows;
};

Part wholeOf(const ModelFile& file, const TensorEntry& tensor) {
  TensorEntry entry = tensor;
  entry.begin = 0;
  entry.end = tensor.bytes();
  return {std::move(entry),
          {.offset = file.dataOffset() + tensor.begin, .rowBytes = tensor.bytes()}};
}

Result<Part> partOf(const ModelFile& file, const TensorEntry& tensor, const TensorSlice& slice) {
  if (slice.dimension >= tensor.shape.size() || slice.begin > slice.end ||
      slice.end > tensor.shape[slice.dimension]) {
    return refused(file, tensor, slice, "leaves the tensor");
  }
  Part part = wholeOf(file, tensor);
  part.entry.shape[slice.dimension] = slice.end - slice.begin;
  part.entry.end = 0;
  if (tensor.bytes() == 0 || slice.begin == slice.end) {
    part.rows.rowBytes = 0;
    return part;
  }
  // The header was checked: no product of these overflows.
  std::uint64_t rows = 1, elementBits = tensorTypeBits(tensor.type);
  for (std::size_t i = 0; i < slice.dimension; ++i) rows *= tensor.shape[i];
  for (std::size_t i = slice.dimension + 1; i < tensor.shape.size(); ++i) {
    elementBits *= tensor.shape[i];
  }
  const std::uint64_t strideBits = tensor.shape[slice.dimension] * elementBits;
  const std::uint64_t beginBits = slice.begin * elementBits, endBits = slice.end * elementBits;
  const bool isWhole = rows == 1 || strideBits % 8 == 0;
  if (!isWhole || beginBits % 8 != 0 || endBits % 8 != 0) {
    return refused(file, tensor, slice, "does not begin and end with bytes");
  }
  part.rows.offset += beginBits / 8;
  part.rows.rowBytes = (endBits - beginBits) / 8;
  part.rows.stride = strideBits / 8;
  part.rows.rows = rows;
  if (part.rows.rowBytes == part.rows.stride) {
    part.rows = {.offset = part.rows.offset, .rowBytes = part.rows.rowBytes * rows};
  }
  part.entry.end = part.rows.bytes();
  return part;
}

}  // namespace

Result<LoadPlan> planSlices(std::span<const std::shared_ptr<const ModelFile>> files,
                            const std::optional<std::vector<std::string>>& names,
                            const TensorSlices& slices) {
  std::optional<std::vector<std::string>> wanted = names;
  if (!wanted) {
    wanted.emplace();
    for (const auto& file : files) {
      for (const TensorEntry& tensor : file->header().tensors) wanted->push_back(tensor.name);
    }
  }
  for (const auto& [name, slice] : slices) wanted->push_back(name);
  Result<LoadPlan> plan = planLoad(files, wanted);
  if (!plan) return plan;
  for (FilePlan& file : plan->files) {
    file.reads.clear();
    file.memoryBytes = 0;
    for (PlacedTensor& tensor : file.tensors) {
      const auto slice = slices.find(tensor.entry->name);
      Result<Part> part = slice == slices.end() ? Result<Part>(wholeOf(*file.file, *tensor.entry))
                                                : partOf(*file.file, *tensor.entry, slice->second);
      if (!part) return part.error();
      part->rows.inMemory =
          placeAfter(file.memoryBytes, part->rows, tensorTypeAlignment(tensor.entry->type));
      tensor = {std::make_shared<const TensorEntry>(std::move(part->entry)), part->rows.inMemory};
      file.memoryBytes = part->rows.inMemory + part->rows.bytes();
      if (part->rows.bytes() > 0) file.rows.push_back(part->rows);
    }
    file.memoryBytes = roundUp(file.memoryBytes, kDirectReadAlignment);
  }
  return plan;
}

}  // namespace hearth
