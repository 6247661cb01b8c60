// Messages of clients about objects, and the answers of agents: a decoder of either side accepts
// nothing that its encoder does not give back.
#include <cstdlib>

#include "wire/object_message.h"

namespace {

using namespace hearth;

template <class Decode>
void tryBody(std::span<const std::byte> body, Decode decode) {
  const auto decoded = decode(body);
  if (!decoded.ok()) return;
  const auto again = decode(encode(*decoded));
  if (!again.ok() || *again != *decoded) std::abort();
}

}  // namespace

// The first byte chooses the decoder; the rest is its input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto body = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 6) {
    case 0:
      tryBody(body, decodePutRequest);
      break;
    case 1:
      tryBody(body, decodePutReply);
      break;
    case 2:
      tryBody(body, decodeGetRequest);
      break;
    case 3:
      tryBody(body, decodeGetReply);
      break;
    case 4:
      tryBody(body, decodeKeysRequest);
      break;
    default:
      tryBody(body, decodeKeysReply);
  }
  return 0;
}
