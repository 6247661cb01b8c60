#include "loader/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "loader/header_scanner.h"

namespace hearth {
namespace {

// Frameworks keep sizes and strides as signed words.
constexpr std::uint64_t kMaxExtent = std::numeric_limits<std::int64_t>::max();

Error corruptTensor(const std::string& name, std::string_view reason) {
  return {ErrorCode::kCorrupt, "tensor '" + name + "' " + std::string(reason)};
}

// Reads the objects of a header; what the tensors' bytes are is checked afterwards.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view json) : scanner_(json) {}

  Result<SafetensorsHeader> read() {
    if (Status status = members(&HeaderReader::topMember); !status) return status.error();
    if (Status status = scanner_.end(); !status) return status.error();
    return std::move(header_);
  }

 private:
  // One object, each of whose members `member` reads after its name.
  Status members(Status (HeaderReader::*member)(std::string name)) {
    if (Status open = scanner_.expect('{'); !open) return open;
    if (scanner_.accept('}')) return {};
    while (true) {
      Result<std::string> name = scanner_.string();
      if (!name) return name.error();
      if (Status colon = scanner_.expect(':'); !colon) return colon;
      if (Status status = (this->*member)(std::move(*name)); !status) return status;
      const Result<bool> more = scanner_.another('}');
      if (!more) return more.error();
      if (!*more) return {};
    }
  }

  Status topMember(std::string name) {
    if (name == "__metadata__") {
      if (std::exchange(hasMetadata_, true)) return scanner_.corrupt("__metadata__ stands twice");
      return scanner_.acceptNull() ? Status{} : members(&HeaderReader::metadataMember);
    }
    tensor_ = {.name = std::move(name)};
    hasType_ = hasShape_ = hasOffsets_ = false;
    if (Status status = members(&HeaderReader::tensorMember); !status) return status;
    if (!hasType_ || !hasShape_ || !hasOffsets_) {
      return corruptTensor(tensor_.name, "lacks dtype, shape or data_offsets");
    }
    header_.tensors.push_back(std::move(tensor_));
    return {};
  }

  Status metadataMember(std::string name) {
    Result<std::string> value = scanner_.string();
    if (!value) return value.error();
    header_.metadata.insert_or_assign(std::move(name), std::move(*value));
    return {};
  }

  Status tensorMember(std::string name) {
    if (name == "dtype") return once(hasType_, &HeaderReader::type);
    if (name == "shape") return once(hasShape_, &HeaderReader::shape);
    if (name == "data_offsets") return once(hasOffsets_, &HeaderReader::offsets);
    return scanner_.skipValue();
  }

  Status once(bool& has, Status (HeaderReader::*value)()) {
    if (std::exchange(has, true)) return scanner_.corrupt("a member of a tensor stands twice");
    return (this->*value)();
  }

  Status type() {
    const Result<std::string> name = scanner_.string();
    if (!name) return name.error();
    const std::optional<TensorType> type = tensorTypeOf(*name);
    if (!type) {
      return Error{ErrorCode::kUnsupported, "tensor '" + tensor_.name +
                                                "' has the unknown dtype '" + name->substr(0, 32) +
                                                "'; convert the tensor, or use a newer Hearth"};
    }
    tensor_.type = *type;
    return {};
  }

  Status shape() {
    Result<std::vector<std::uint64_t>> shape = scanner_.integers();
    if (!shape) return shape.error();
    tensor_.shape = std::move(*shape);
    return {};
  }

  Status offsets() {
    const Result<std::vector<std::uint64_t>> offsets = scanner_.integers();
    if (!offsets) return offsets.error();
    if (offsets->size() != 2) return scanner_.corrupt("data_offsets are not two");
    tensor_.begin = (*offsets)[0];
    tensor_.end = (*offsets)[1];
    return {};
  }

  HeaderScanner scanner_;
  SafetensorsHeader header_;
  TensorEntry tensor_;  // being read
  bool hasMetadata_ = false, hasType_ = false, hasShape_ = false, hasOffsets_ = false;
};

// Leaves the last of the tensors of one name.
void dropOverridden(std::vector<TensorEntry>& tensors) {
  std::vector<std::size_t> byName(tensors.size());
  std::iota(byName.begin(), byName.end(), std::size_t{0});
  std::ranges::stable_sort(byName, {},
                           [&](std::size_t i) { return std::string_view(tensors[i].name); });
  std::vector<bool> isOverridden(tensors.size());
  for (std::size_t i = 1; i < byName.size(); ++i) {
    isOverridden[byName[i - 1]] = tensors[byName[i - 1]].name == tensors[byName[i]].name;
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (isOverridden[i]) continue;
    if (kept != i) tensors[kept] = std::move(tensors[i]);
    ++kept;
  }
  tensors.resize(kept);
}

// The bytes that type and shape say.
Result<std::uint64_t> bytesOf(const TensorEntry& tensor) {
  // Strides of a tensor without elements are those of its other dimensions.
  bool isEmpty = false;
  std::uint64_t extent = tensorTypeBits(tensor.type);
  for (const std::uint64_t dimension : tensor.shape) {
    isEmpty = isEmpty || dimension == 0;
    if (dimension != 0 &&
        (__builtin_mul_overflow(extent, dimension, &extent) || extent > kMaxExtent)) {
      return corruptTensor(tensor.name, "has a shape whose size overflows");
    }
  }
  const std::uint64_t bits = isEmpty ? 0 : extent;
  if (bits % 8 != 0) return corruptTensor(tensor.name, "does not end at a whole byte");
  return bits / 8;
}

Status checkBytes(const SafetensorsHeader& header, std::uint64_t dataBytes) {
  std::uint64_t covered = 0;
  for (const TensorEntry& tensor : header.tensors) {
    if (tensor.begin > tensor.end) return corruptTensor(tensor.name, "ends before it begins");
    if (tensor.begin < covered) return corruptTensor(tensor.name, "overlaps the one before it");
    if (tensor.begin > covered) return corruptTensor(tensor.name, "leaves a hole before it");
    const Result<std::uint64_t> bytes = bytesOf(tensor);
    if (!bytes) return bytes.error();
    if (*bytes != tensor.bytes()) {
      return corruptTensor(tensor.name, "has " + std::to_string(tensor.bytes()) +
                                            " bytes where its dtype and shape need " +
                                            std::to_string(*bytes));
    }
    covered = tensor.end;
  }
  if (covered == dataBytes) return {};
  const std::string difference =
      covered > dataBytes ? "the tensors have " + std::to_string(covered) +
                                " bytes, the file has " + std::to_string(dataBytes) + " (truncated)"
                          : std::to_string(dataBytes - covered) +
                                " bytes follow the last tensor, which belong to none";
  return Error{ErrorCode::kCorrupt, difference + "; copy or download the file again"};
}

}  // namespace

Result<SafetensorsHeader> parseSafetensorsHeader(std::string_view json, std::uint64_t dataBytes) {
  if (json.size() > kMaxHeaderBytes) {
    return Error{ErrorCode::kCorrupt, "the header has " + std::to_string(json.size()) +
                                          " bytes, more than the 100,000,000 of the format"};
  }
  Result<SafetensorsHeader> header = HeaderReader(json).read();
  if (!header) return header;
  dropOverridden(header->tensors);
  // Empty tensors lie before the one that begins where they do.
  std::ranges::sort(header->tensors, [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  if (const Status status = checkBytes(*header, dataBytes); !status) return status.error();
  return header;
}

}  // namespace hearth
