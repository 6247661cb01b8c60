// libFuzzer: no message makes the decoder read outside of it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "fuse/fuse_request.h"

namespace {

std::size_t touch(const hearth::FuseRequest& request) {
  std::size_t sum = request.unique;
  if (const auto* argument = std::get_if<hearth::FuseNameArgument>(&request.arguments)) {
    for (const char c : argument->name) sum += static_cast<unsigned char>(c);
  }
  if (const auto* argument = std::get_if<hearth::FuseXattrArgument>(&request.arguments)) {
    for (const char c : argument->name) sum += static_cast<unsigned char>(c);
  }
  return sum;
}

volatile std::size_t sink;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Once as it comes and once with the length that lets it pass the first check.
  std::vector<std::byte> message(size);
  if (size != 0) std::memcpy(message.data(), data, size);
  for (int round = 0; round < 2; ++round) {
    if (const auto request = hearth::decodeFuseRequest(message); request.ok())
      sink = touch(*request);
    const auto length = static_cast<std::uint32_t>(size);
    if (size >= sizeof length) std::memcpy(message.data(), &length, sizeof length);
  }
  return 0;
}
