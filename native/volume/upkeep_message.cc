#include "volume/upkeep_message.h"

#include "base/byte_codec.h"
#include "volume/change_fields.h"
#include "volume/field_codec.h"

namespace hearth {
namespace {

// A content has kMaxRuns runs at most, and garbage is at most all of two contents.
constexpr std::size_t kMaxGarbageRuns = 2 * tree::kMaxRuns + 1;

}  // namespace

template <class Io>
void visitFields(Io& io, tree::GarbageId& it) {
  io(it.record);
  io(it.index);
}
template <class Io>
void visitFields(Io& io, tree::Garbage& it) {
  io(it.inode);
  io(it.listed);
  io(it.lessNamed);
  io.list(it.runs, kMaxGarbageRuns);
}
template <class Io>
void visitFields(Io& io, NamedGarbage& it) {
  io.part(it.id);
  io(it.mayGo);
  io.part(it.garbage);
}
template <class Io>
void visitFields(Io& io, UpkeepMessage& it) {
  io(it.volume);
  io(it.epoch);
  io.list(it.released.unused, kMaxUpkeepIds);
  io.list(it.released.unread, kMaxUpkeepIds);
  io.list(it.released.collected, kMaxUpkeepIds);
}
template <class Io>
void visitFields(Io& io, UpkeepReply& it) {
  io(it.error);
  io.list(it.orphans, kMaxUpkeepIds);
  io.list(it.garbage, kMaxUpkeepIds);
  io(it.more);
}

std::vector<std::byte> encode(const UpkeepMessage& message) { return encodeFields(message); }
std::vector<std::byte> encode(const UpkeepReply& reply) { return encodeFields(reply); }

std::optional<UpkeepMessage> decodeUpkeep(std::span<const std::byte> body) {
  return decodeFields<UpkeepMessage>(body);
}

std::optional<UpkeepReply> decodeUpkeepReply(std::span<const std::byte> body) {
  auto reply = decodeFields<UpkeepReply>(body);
  return reply && reply->error >= 0 ? std::move(reply) : std::nullopt;
}

}  // namespace hearth
