// A handler's answer, as bytes that own their memory. For memory_network.h.
#pragma once

#include <string>
#include <utility>

#include "transport/peer_transport.h"
#include "transport/testing/mailbox.h"

namespace hearth::testing_rails {

inline Task<Result<Answer>> pieceOfManifest(PeerHandler& handler, std::string from,
                                            Sha256Digest digest, std::uint64_t offset) {
  Task<Result<BytesAnswer>> reading =
      handler.onReadManifest(std::move(from), digest, offset, kChunkBytes);
  const Result<BytesAnswer> piece = co_await reading;
  if (!piece.ok()) co_return piece.error();
  co_return Answer{.bytes = {piece->bytes.begin(), piece->bytes.end()}, .checksums = {}};
}
inline Task<Result<Answer>> controlOf(PeerHandler& handler, std::string from,
                                      ControlMessage request) {
  Result<ControlMessage> answer = co_await handler.onControl(std::move(from), std::move(request));
  if (!answer.ok()) co_return answer.error();
  co_return Answer{.type = answer->type, .bytes = std::move(answer->body), .checksums = {}};
}
inline Task<Result<Answer>> partOfFile(PeerHandler& handler, std::string from, ContentKey key,
                                       std::uint64_t offset, std::uint32_t length,
                                       Interest interest) {
  Task<Result<BytesAnswer>> reading =
      handler.onRead(std::move(from), key, offset, length, interest);
  Result<BytesAnswer> given = co_await reading;
  if (!given.ok()) co_return given.error();
  Answer answer{.bytes = {}, .checksums = std::move(given->blockChecksums)};
  if (given->lent == nullptr) {
    answer.bytes.assign(given->bytes.begin(), given->bytes.end());
    co_return answer;
  }
  LentPayload::Piece piece = given->lent->now();
  if (piece.bytes.empty()) {
    const Status loaded = co_await given->lent->load();
    if (!loaded.ok()) co_return loaded.error();
    piece = given->lent->now();
  }
  answer.bytes.assign(piece.bytes.begin(), piece.bytes.end());
  given->lent->release();
  co_return answer;
}

}  // namespace hearth::testing_rails
