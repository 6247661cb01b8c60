#include "volume/follower_message.h"

#include "base/byte_codec.h"
#include "namespace/record.h"
#include "volume/field_codec.h"

namespace hearth {

template <class Io>
void visitFields(Io& io, LogPosition& it) {
  io(it.epoch);
  io(it.record);
}
template <class Io>
void visitFields(Io& io, LogStateMessage& it) {
  io(it.volume);
  io(it.epoch);
}
template <class Io>
void visitFields(Io& io, LogAppendMessage& it) {
  io(it.volume);
  io(it.epoch);
  io.part(it.after);
  io.blob(it.records, kMaxLogPiece);
}
template <class Io>
void visitFields(Io& io, LogInstallMessage& it) {
  io(it.volume);
  io(it.epoch);
  io.part(it.replaced);
  io.part(it.checkpoint);
  io(it.size);
  io(it.offset);
  io.blob(it.piece, kMaxLogPiece);
}
template <class Io>
void visitFields(Io& io, FollowerReply& it) {
  io.choice(it.outcome, LogOutcome::kDoesNotFollow);
  io(it.epoch);
  io.part(it.last);
  io.part(it.installing);
  io(it.installedBytes);
}

std::vector<std::byte> encode(const LogStateMessage& message) { return encodeFields(message); }
std::vector<std::byte> encode(const LogAppendMessage& message) { return encodeFields(message); }
std::vector<std::byte> encode(const LogInstallMessage& message) { return encodeFields(message); }
std::vector<std::byte> encode(const FollowerReply& reply) { return encodeFields(reply); }

std::optional<LogStateMessage> decodeLogState(std::span<const std::byte> body) {
  return decodeFields<LogStateMessage>(body);
}

std::optional<LogAppendMessage> decodeLogAppend(std::span<const std::byte> body) {
  return decodeFields<LogAppendMessage>(body);
}

std::optional<LogInstallMessage> decodeLogInstall(std::span<const std::byte> body) {
  auto message = decodeFields<LogInstallMessage>(body);
  if (!message) return std::nullopt;
  const bool isInside =
      message->offset <= message->size && message->piece.size() <= message->size - message->offset;
  const bool isEmpty = message->size == 0;
  if (!isInside || isEmpty != (message->checkpoint.record == 0)) return std::nullopt;
  return message;
}

std::optional<FollowerReply> decodeFollowerReply(std::span<const std::byte> body) {
  return decodeFields<FollowerReply>(body);
}

std::optional<LogPosition> endOfRecords(std::span<const std::byte> records, LogPosition after,
                                        std::uint64_t epoch,
                                        std::vector<std::span<const std::byte>>* each) {
  while (!records.empty()) {
    const tree::RawRecord record = tree::parseRawRecord(records);
    const bool follows = record.kind == tree::Parse::kGood && record.number == after.record + 1 &&
                         record.epoch >= after.epoch && record.epoch <= epoch;
    if (!follows) return std::nullopt;
    if (each != nullptr) each->push_back(records.first(record.bytes));
    after = {record.epoch, record.number};
    records = records.subspan(record.bytes);
  }
  return after;
}

}  // namespace hearth
