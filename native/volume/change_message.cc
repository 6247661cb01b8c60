#include "volume/change_message.h"

#include <utility>

#include "base/byte_codec.h"
#include "volume/change_fields.h"
#include "volume/field_codec.h"

namespace hearth {
namespace {

template <class Io>
void visitHead(Io& io, ChangeMessage& it) {
  io(it.volume);
  io(it.incarnation);
  io(it.epoch);
  io(it.number);
  io(it.doneBelow);
}

}  // namespace

template <class Io>
void visitFields(Io& io, JoinMessage& it) {
  io(it.volume);
  io(it.incarnation);
  io(it.epoch);
}

std::vector<std::byte> encode(const JoinMessage& message) { return encodeFields(message); }

std::optional<JoinMessage> decodeJoin(std::span<const std::byte> body) {
  return decodeFields<JoinMessage>(body);
}

std::vector<std::byte> encode(const ChangeMessage& message) {
  ByteWriter out;
  FieldWriter write(out);
  ChangeMessage fields = message;
  visitHead(write, fields);
  writeOneOf(out, write, fields.change);
  return out.take();
}

std::optional<ChangeMessage> decodeChange(std::span<const std::byte> body) {
  ByteReader in(body);
  FieldReader read(in);
  ChangeMessage message;
  visitHead(read, message);
  if (!readOneOf(in, read, message.change) || !finishBody(in, read)) return std::nullopt;
  return message;
}

std::vector<std::byte> encode(const ChangeReply& reply) {
  ByteWriter out;
  FieldWriter write(out);
  ChangeReply fields = reply;
  visitFields(write, fields.answer);
  write.maybe(fields.attributes);
  return out.take();
}

std::optional<ChangeReply> decodeReply(std::span<const std::byte> body) {
  ByteReader in(body);
  FieldReader read(in);
  ChangeReply reply;
  visitFields(read, reply.answer);
  read.maybe(reply.attributes);
  if (!finishBody(in, read) || reply.answer.error < 0) return std::nullopt;
  return reply;
}

}  // namespace hearth
