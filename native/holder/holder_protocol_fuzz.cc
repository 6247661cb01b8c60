// libFuzzer: no message makes a decoder read outside of it, and what is accepted is made again in
// the same way.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "holder/holder_protocol.h"

namespace {

using namespace hearth;

void check(const std::vector<std::byte>& message) {
  if (const auto request = decodeHolderRequest(message); request.ok()) {
    if (request->unsupported.empty() && encode(*request).size() <= kMaxHolderMessage) {
      const auto again = decodeHolderRequest(encode(*request));
      if (!again.ok() || encode(*again) != encode(*request)) std::abort();
    }
  }
  if (const auto reply = decodeHolderReply(message);
      reply.ok() && encode(*reply).size() <= kMaxHolderMessage) {
    const auto again = decodeHolderReply(encode(*reply));
    if (!again.ok() || encode(*again) != encode(*reply)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> message(size);
  if (size != 0) std::memcpy(message.data(), data, size);
  check(message);
  // Once more with a header that lets it pass the first checks.
  if (size < kHolderHeaderBytes) return 0;
  std::memcpy(message.data(), &kHolderMagic, sizeof kHolderMagic);
  std::memcpy(message.data() + 4, &kHolderVersion, sizeof kHolderVersion);
  const auto length = static_cast<std::uint32_t>(size);
  std::memcpy(message.data() + 8, &length, sizeof length);
  check(message);
  return 0;
}
