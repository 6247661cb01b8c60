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

// Files and chunks of an earlier reply that an agent has released. It says so once in a leader's
// term.
struct Released {
  // Orphans that no process of its node has open, and none is opening.
  std::vector<tree::InodeId> unused;
  // Garbage whose chunks no process of its node has open to read, and none is opening.
  std::vector<tree::GarbageId> unread;
  // Garbage of which it has no chunk any more.
  std::vector<tree::GarbageId> collected;
};

struct UpkeepMessage {
  tree::WideId volume{};
  std::uint64_t epoch = 0;
  Released released;
};

struct NamedGarbage {
  tree::GarbageId id;
  bool mayGo = false;  // no agent reads the chunks; otherwise this one says when it does not
  tree::Garbage garbage;
};

struct UpkeepReply {
  std::int32_t error = 0;  // an errno
  // Inodes without names that this agent has not said to be unused.
  std::vector<tree::InodeId> orphans;
  // Durable garbage that this agent has not said to be unread; and that may go, has chunks that
  // this agent wrote, and that it has not said to be collected.
  std::vector<NamedGarbage> garbage;
  bool more = false;  // there are others: ask again when these are done
};

[[nodiscard]] std::vector<std::byte> encode(const UpkeepMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const UpkeepReply& reply);
// None: malformed, or of a later release and must be understood.
[[nodiscard]] std::optional<UpkeepMessage> decodeUpkeep(std::span<const std::byte> body);
[[nodiscard]] std::optional<UpkeepReply> decodeUpkeepReply(std::span<const std::byte> body);

}  // namespace hearth
