// Bodies of the control messages of the key directory. Little-endian, lengths checked before use;
// the frames around them are wire/frame.h's. Each may end with optional fields
// (base/optional_fields.h) that later releases add. Pure: any thread.
//
// Counts are bounded before anything is allocated for them: by a constant of their kind, and those
// of long lists by what the body, which has at most kMaxControlBytes, can hold.
//
// An agent that opens a file asks the directory of its key:
//   locate   "I want these chunks of stripe s"               -> LocateAnswer
//   have     "I hold these chunks of stripe s"               -> empty
//   giveUp   "I shall not fetch these chunks after all"      -> empty
//   dropped  "I have evicted the key"                        -> empty
//   updates  several of have, giveUp and dropped, in order   -> empty
// a new directory asks every ready agent:
//   query    "What is your part in this key?"                -> AgentReport
// an agent that has to make room asks it:
//   release  "May I evict the key?"                          -> ReleaseAnswer
// and who wants a chunk asks the agent that fetches or reads it:
//   await    "Answer when you have this chunk of stripe s"  -> empty
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/content_key.h"
#include "directory/key_directory.h"

namespace hearth {

// Values of ControlMessage::type. Part of the protocol: never reused.
enum class DirectoryMessage : std::uint16_t {
  kHave = 2,
  kDropped = 4,
  kLocate = 6,
  kGiveUp = 7,
  kQuery = 8,
  kAwait = 9,
  kUpdates = 10,
  kRelease = 11
};

// Of an agent that asks whether its copy may go, to the directory; which passes it on when it asks
// others what they hold.
struct LeaveRequest {
  std::uint64_t number = 0;   // of all that the agent asks no other one has it
  std::int64_t usedAtMs = 0;  // the last use in the cluster as the agent knows it, since the epoch

  bool operator==(const LeaveRequest&) const = default;
};

// One layout serves all requests; unused fields are zero. Files of more than 16 TiB have no
// directory: their agents read the origin by themselves.
struct DirectoryRequest {
  ContentKey key;
  std::uint64_t size = 0;  // of the file; earlier releases' directories go by it
  std::uint32_t stripe = 0;
  ChunkMask chunks = 0;
  // Locate only. One that is not known is a look, which changes nothing: what is not among the
  // first three is a look in the fixed part, and stands in a field that others pass over.
  Intent intent = Intent::kLookUp;
  FailureReport failure;                             // locate only
  ChunkMask inMemory = 0;                            // have only: which of the chunks need no disk
  std::optional<LeaveRequest> leave = std::nullopt;  // release, and query for the sake of one

  bool operator==(const DirectoryRequest&) const = default;
};

[[nodiscard]] std::vector<std::byte> encode(const DirectoryRequest& request);
[[nodiscard]] std::optional<DirectoryRequest> decodeDirectoryRequest(
    std::span<const std::byte> body);

// An unsolicited report of an agent to a directory.
struct DirectoryUpdate {
  DirectoryMessage type = DirectoryMessage::kHave;  // or kGiveUp, or kDropped
  DirectoryRequest request;                         // without intent and failure

  bool operator==(const DirectoryUpdate&) const = default;
};
// In one message.
inline constexpr std::size_t kMaxUpdates = 1024;

[[nodiscard]] std::vector<std::byte> encode(const std::vector<DirectoryUpdate>& updates);
[[nodiscard]] std::optional<std::vector<DirectoryUpdate>> decodeDirectoryUpdates(
    std::span<const std::byte> body);

[[nodiscard]] std::vector<std::byte> encode(const LocateAnswer& answer);
[[nodiscard]] std::optional<LocateAnswer> decodeLocateAnswer(std::span<const std::byte> body);

[[nodiscard]] std::vector<std::byte> encode(const AgentReport& report);
[[nodiscard]] std::optional<AgentReport> decodeAgentReport(std::span<const std::byte> body);

// The directory's answer to an agent that asks for leave to evict its copy. Numbers are part of the
// protocol; receivers take an unknown number for a refusal.
enum class ReleaseAnswer : std::uint8_t {
  kGranted = 1,  // other agents keep what it holds
  kRefused = 2,  // as far as is known it is needed to have all of the key
  // Agents that may have it did not say so, or not in time: they were silent, or have it on its way
  // to the disk.
  kUnconfirmed = 3,
};

[[nodiscard]] std::vector<std::byte> encode(ReleaseAnswer answer);
[[nodiscard]] std::optional<ReleaseAnswer> decodeReleaseAnswer(std::span<const std::byte> body);

}  // namespace hearth
