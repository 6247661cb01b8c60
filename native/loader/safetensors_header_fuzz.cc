// Whatever the bytes: the parser refuses them or gives tensors that cover the data exactly, each as
// large as its type and shape say. The first two bytes are the length of the data.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "loader/safetensors_header.h"

namespace {

void require(bool truth) {
  if (!truth) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint64_t dataBytes = data[0] | std::uint64_t{data[1]} << 8;
  const auto header = hearth::parseSafetensorsHeader(
      {reinterpret_cast<const char*>(data) + 2, size - 2}, dataBytes);
  if (!header) {
    require(header.code() == hearth::ErrorCode::kCorrupt ||
            header.code() == hearth::ErrorCode::kUnsupported);
    require(!header.error().message.empty());
    return 0;
  }
  std::uint64_t covered = 0;
  for (const hearth::TensorEntry& tensor : header->tensors) {
    require(tensor.begin == covered && tensor.end >= tensor.begin);
    unsigned __int128 bits = hearth::tensorTypeBits(tensor.type);
    for (const std::uint64_t dimension : tensor.shape) bits *= dimension;
    require(bits == static_cast<unsigned __int128>(tensor.bytes()) * 8);
    covered = tensor.end;
  }
  require(covered == dataBytes);
  return 0;
}
