// Bodies of the messages by which a client asks a volume's leader for a change, and of the answers.
// Little-endian, lengths checked before use; the frames around them are wire/frame.h's. Each may
// end with optional fields (base/optional_fields.h) that later releases add. Pure: any thread.
//
// Request: 16 bytes volume, 16 bytes incarnation, u64 epoch, u64 number, u64 doneBelow, u8 kind of
//   the change (its index in tree::ClientChange), and its fields in the order of
//   namespace/change.h: names and values with their length in 16 bits, optional ones behind u8 0
//   or 1, lists behind a count in 32 bits.
// Join: 16 bytes volume, 16 bytes incarnation, u64 epoch. Before the first change of a client.
// Answer of both: i32 errno, u8 refusal, u8 created, u64 inode, u64 removed, u64 session, content
//   version (u64 session, u32 counter), holder (u32 agent, 16 bytes incarnation), then the
//   attributes of the inode behind u8 1, or u8 0. That of a join has the client as the holder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "namespace/namespace.h"

namespace hearth {

struct ChangeMessage {
  tree::WideId volume{};
  // Of the client, which is the agent that the connection has proved. An earlier one of it, when it
  // repeats a request of the kernel.
  tree::WideId incarnation{};
  std::uint64_t epoch = 0;
  std::uint64_t number = 0;
  std::uint64_t doneBelow = 0;
  tree::ClientChange change;
};

struct JoinMessage {
  tree::WideId volume{};
  tree::WideId incarnation{};
  std::uint64_t epoch = 0;
};

struct ChangeReply {
  tree::Answer answer;
  // Of answer.inode when the answer was sent; a repeated change may get later ones. None: it has
  // gone, or the answer has none.
  std::optional<tree::Attributes> attributes;
};

[[nodiscard]] std::vector<std::byte> encode(const ChangeMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const JoinMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const ChangeReply& reply);
// None: malformed, or of a later release and must be understood. Names are not judged: the leader
// answers a wrong one with its errno.
[[nodiscard]] std::optional<ChangeMessage> decodeChange(std::span<const std::byte> body);
[[nodiscard]] std::optional<JoinMessage> decodeJoin(std::span<const std::byte> body);
[[nodiscard]] std::optional<ChangeReply> decodeReply(std::span<const std::byte> body);

}  // namespace hearth
