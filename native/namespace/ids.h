// Ids of one volume. Inodes and sessions share one kind of number: the epoch of the leader that
// gave it, and a counter of that epoch. Epochs only grow, and a leader begins each with a new
// counter, so no id is given twice, whatever was lost since (rule R5 of docs/design/namespace.md).
// Plain values: any thread.
#pragma once

#include <array>
#include <compare>
#include <cstdint>

namespace hearth::tree {

inline constexpr unsigned kCounterBits = 40;
inline constexpr std::uint64_t kMaxEpoch = (std::uint64_t{1} << (64 - kCounterBits)) - 1;
inline constexpr std::uint64_t kMaxCounter = (std::uint64_t{1} << kCounterBits) - 1;

enum class InodeId : std::uint64_t {};
// The right of one client to write one file.
enum class SessionId : std::uint64_t {};
// A node's agents, whatever their incarnation: an index into the table of agents that the log has.
enum class AgentId : std::uint32_t {};

inline constexpr InodeId kNoInode{0};
inline constexpr InodeId kRootInode{1};
inline constexpr SessionId kNoSession{0};
inline constexpr AgentId kNoAgent{0};

[[nodiscard]] constexpr std::uint64_t idOf(std::uint64_t epoch, std::uint64_t counter) {
  return epoch << kCounterBits | counter;
}
[[nodiscard]] constexpr std::uint64_t epochOf(SessionId id) {
  return static_cast<std::uint64_t>(id) >> kCounterBits;
}
[[nodiscard]] constexpr std::uint64_t counterOf(SessionId id) {
  return static_cast<std::uint64_t>(id) & kMaxCounter;
}

// 128 bits that name a store, a volume or one start of an agent.
using WideId = std::array<std::uint8_t, 16>;

// One publish of a file: the session that made it, and its number there, from 1 on. The default is
// a file that was never published, or was cut to nothing.
struct ContentVersion {
  SessionId session = kNoSession;
  std::uint32_t counter = 0;
  auto operator<=>(const ContentVersion&) const = default;
};

// Chunks of a file in a row: `count` chunks of one session, counted from `first`. `holder` is the
// agent that wrote them. Without a session it is a hole.
struct ChunkRun {
  SessionId session = kNoSession;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  AgentId holder = kNoAgent;
  auto operator<=>(const ChunkRun&) const = default;
};

// One start of one agent.
struct ClientId {
  AgentId agent = kNoAgent;
  WideId incarnation{};
  auto operator<=>(const ClientId&) const = default;
};

struct ChangeId {
  ClientId client;
  std::uint64_t number = 0;
  auto operator<=>(const ChangeId&) const = default;
};

}  // namespace hearth::tree
