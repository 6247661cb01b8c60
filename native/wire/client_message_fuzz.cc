// Messages of clients to agents, and the answers of agents: what a decoder of either side accepts
// is what its encoder makes of it.
#include <cstdlib>

#include "wire/client_message.h"

namespace {

using namespace hearth;

void require(bool holds) {
  if (!holds) std::abort();
}

template <class Decode>
void tryBody(std::span<const std::byte> body, Decode decode) {
  const auto decoded = decode(body);
  if (!decoded.ok()) return;
  const auto again = decode(encode(*decoded));
  require(again.ok() && *again == *decoded);
}

void tryPath(std::span<const std::byte> body) {
  const Result<std::string> path = decodePath(body);
  if (!path.ok()) return;
  static_cast<void>(checkClientPath(*path));
  const Result<std::string> again = decodePath(encodePath(*path));
  require(again.ok() && *again == *path);
}

}  // namespace

// The first byte chooses the decoder; the rest is its input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto body = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 7) {
    case 0:
      tryPath(body);
      break;
    case 1:
      tryBody(body, decodeListRequest);
      break;
    case 2:
      tryBody(body, decodeAdviseRequest);
      break;
    case 3:
      tryBody(body, decodeResolvedPath);
      break;
    case 4:
      tryBody(body, decodeWriteRange);
      break;
    case 5:
      tryBody(body, decodeTicket);
      break;
    default:
      tryBody(body, decodeFolderPage);
  }
  return 0;
}
