// Bodies of the messages by which an agent and a volume's leader agree on files and chunks that may
// go (R11), and of the answers. Written as change_message.h says, with the fields in the order
// below. Pure: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "namespace/namespace.h"

namespace hearth {

// Of one message.
inline constexpr std::size_t kMaxUpkeepIds = 4096;

struct UpkeepMessage {
  tree::WideId volume{};
  std::uint64_t epoch = 0;
  // Orphans of an earlier reply that no process of this agent has open, and none is opening. Each
  // is named once for a leader's term.
  std::vector<tree::InodeId> unused;
  // Garbage of an earlier reply of which this agent has no chunk any more.
  std::vector<tree::GarbageId> collected;
};

struct NamedGarbage {
  tree::GarbageId id;
  tree::Garbage garbage;
};

struct UpkeepReply {
  std::int32_t error = 0;  // an errno
  // Inodes without names that this agent has not said to be unused.
  std::vector<tree::InodeId> orphans;
  // Durable garbage with chunks that this agent wrote, and has not said to be collected.
  std::vector<NamedGarbage> garbage;
  bool more = false;  // there are others: ask again when these are done
};

[[nodiscard]] std::vector<std::byte> encode(const UpkeepMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const UpkeepReply& reply);
// None: malformed, or of a later release and must be understood.
[[nodiscard]] std::optional<UpkeepMessage> decodeUpkeep(std::span<const std::byte> body);
[[nodiscard]] std::optional<UpkeepReply> decodeUpkeepReply(std::span<const std::byte> body);

}  // namespace hearth
