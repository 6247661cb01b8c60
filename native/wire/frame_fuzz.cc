// Bytes from unauthenticated peers into the decoders: they never crash, and whatever a decoder
// accepts means the same when it is encoded and decoded again.
#include <cstdlib>

#include "wire/frame.h"

namespace {

using namespace hearth;

template <class Body>
void tryBody(std::span<const std::byte> bytes) {
  const Result<Body> decoded = decodeBody<Body>(bytes);
  if (!decoded.ok()) return;
  const std::vector<std::byte> again = encodeFrame(decoded.value());
  const auto body = std::span(again).subspan(kFrameHeaderBytes);
  const Result<Body> decodedAgain = decodeBody<Body>(body);
  if (!decodedAgain.ok() || !(*decodedAgain == *decoded)) std::abort();
  const Result<FrameHeader> header = decodeHeader(again);
  if (!header.ok() || !checkBody(*header, body).ok()) std::abort();
}

}  // namespace

// The first byte chooses the decoder; the rest is its input.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  switch (data[0] % 17) {
    case 0:
      tryBody<Preface>(bytes);
      break;
    case 1:
      tryBody<Hello>(bytes);
      break;
    case 2:
      tryBody<Challenge>(bytes);
      break;
    case 3:
      tryBody<Proof>(bytes);
      break;
    case 4:
      tryBody<Refuse>(bytes);
      break;
    case 5:
      tryBody<Goodbye>(bytes);
      break;
    case 6:
      tryBody<Credit>(bytes);
      break;
    case 7:
      tryBody<ReadRequest>(bytes);
      break;
    case 8:
      tryBody<ManifestRequest>(bytes);
      break;
    case 9:
      tryBody<ReadAnswer>(bytes);
      break;
    case 10:
      tryBody<ManifestAnswer>(bytes);
      break;
    case 11:
      tryBody<ControlRequest>(bytes);
      break;
    case 12:
      tryBody<ControlAnswer>(bytes);
      break;
    case 13:
      tryBody<WriteRequest>(bytes);
      break;
    case 14:
      tryBody<WriteData>(bytes);
      break;
    case 15:
      tryBody<WriteAnswer>(bytes);
      break;
    default:
      if (bytes.size() >= kFrameHeaderBytes) {
        const Result<FrameHeader> header = decodeHeader(bytes);
        if (!header.ok()) return 0;
        const std::size_t limit =
            header->unknown ? kMaxSkippedBytes : bodyLimit(header.value().type);
        if (header->bodyLength > limit) std::abort();
      }
  }
  return 0;
}
