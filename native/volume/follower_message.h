// Bodies of the messages by which the leader of a volume copies its log to followers, and a
// candidate compares logs; and of the answer, which is the same for all. Written as
// change_message.h says, with the fields in the order below; blobs behind their length in 32 bits.
// Pure: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "volume/log_replay.h"

namespace hearth {

// Of records in an append, or of a piece of a checkpoint: a body stays below kMaxControlBytes.
inline constexpr std::size_t kMaxLogPiece = std::size_t{768} << 10;
static_assert(kMaxLogPiece >= tree::kMaxRecordBytes);

// Asks for the end of a follower's log. The follower takes nothing of a lower epoch from then on.
struct LogStateMessage {
  tree::WideId volume{};
  std::uint64_t epoch = 0;
};

// Records (namespace/record.h), one behind the other, of which the first one follows `after`.
struct LogAppendMessage {
  tree::WideId volume{};
  std::uint64_t epoch = 0;  // of the sender's term
  LogPosition after;
  std::vector<std::byte> records;
};

// A piece of the checkpoint with which a follower begins its log anew. Pieces come in order; the
// answer says where the next one begins. Position 0 has no bytes: the log begins empty.
struct LogInstallMessage {
  tree::WideId volume{};
  std::uint64_t epoch = 0;
  // The end of the log that goes. A message that is late finds another log, which it leaves alone.
  LogPosition replaced;
  LogPosition checkpoint;
  std::uint64_t size = 0;    // of the whole checkpoint
  std::uint64_t offset = 0;  // of the piece in it
  std::vector<std::byte> piece;
};

enum class LogOutcome : std::uint8_t {
  kTaken,
  kLowerEpoch,     // the follower knows of a later term
  kDoesNotFollow,  // its log does not end where the message begins
};

struct FollowerReply {
  LogOutcome outcome = LogOutcome::kTaken;
  std::uint64_t epoch = 0;  // the lowest that it takes
  LogPosition last;         // of its durable log
  // While a checkpoint comes: its position, and how many bytes the follower has of it.
  LogPosition installing;
  std::uint64_t installedBytes = 0;
};

[[nodiscard]] std::vector<std::byte> encode(const LogStateMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const LogAppendMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const LogInstallMessage& message);
[[nodiscard]] std::vector<std::byte> encode(const FollowerReply& reply);
// None: malformed, or of a later release and must be understood. Records are not judged.
[[nodiscard]] std::optional<LogStateMessage> decodeLogState(std::span<const std::byte> body);
[[nodiscard]] std::optional<LogAppendMessage> decodeLogAppend(std::span<const std::byte> body);
[[nodiscard]] std::optional<LogInstallMessage> decodeLogInstall(std::span<const std::byte> body);
[[nodiscard]] std::optional<FollowerReply> decodeFollowerReply(std::span<const std::byte> body);

// The last record of `records`, when all are good and follow `after`, in epochs up to `epoch`; none
// otherwise.
[[nodiscard]] std::optional<LogPosition> endOfRecords(
    std::span<const std::byte> records, LogPosition after, std::uint64_t epoch,
    std::vector<std::span<const std::byte>>* each = nullptr);

}  // namespace hearth
