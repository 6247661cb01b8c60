// A follower refuses or understands each message of a peer. The decoder understands a message again
// after encoding it, and records that are taken follow one another.
#include <cstdint>
#include <cstdlib>

#include "volume/follower_message.h"

namespace {

void require(bool truth) {
  if (!truth) std::abort();
}

template <class Decode>
auto understood(std::span<const std::byte> body, Decode decode) {
  const auto message = decode(body);
  if (message) {
    const auto encoded = hearth::encode(*message);
    require(hearth::encode(*decode(encoded)) == encoded);
  }
  return message;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = std::as_bytes(std::span(data, size));
  (void)understood(body, hearth::decodeLogState);
  (void)understood(body, hearth::decodeLogInstall);
  (void)understood(body, hearth::decodeFollowerReply);
  const auto append = understood(body, hearth::decodeLogAppend);
  if (!append) return 0;
  std::vector<std::span<const std::byte>> records;
  const auto end = hearth::endOfRecords(append->records, append->after, append->epoch, &records);
  if (!end) return 0;
  require(end->record == append->after.record + records.size());
  require(records.empty() || end->epoch <= append->epoch);
  return 0;
}
