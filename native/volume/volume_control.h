// Control messages by which agents ask a volume's leader, and it its followers, in the range of
// wire/frame.h; sent on connections with WireFeature::kVolumes alone, and never by clients.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "namespace/ids.h"
#include "wire/frame.h"

namespace hearth {

// Values of ControlMessage::type. Part of the protocol: never reused. Answers have the same type.
enum class VolumeControl : std::uint16_t {
  kJoin = kVolumeControlFirst,        // JoinMessage -> ChangeReply
  kChange = kVolumeControlFirst + 1,  // ChangeMessage -> ChangeReply
  kQuery = kVolumeControlFirst + 2,   // QueryMessage -> QueryReply
  kUpkeep = kVolumeControlFirst + 3,  // UpkeepMessage -> UpkeepReply
  // To followers of the leader's log; all of them -> FollowerReply.
  kLogState = kVolumeControlFirst + 4,
  kLogAppend = kVolumeControlFirst + 5,
  kLogInstall = kVolumeControlFirst + 6,
};

// The volume that a request is about: its first 16 bytes.
[[nodiscard]] inline std::optional<tree::WideId> volumeOf(std::span<const std::byte> body) {
  tree::WideId id{};
  if (body.size() < id.size()) return std::nullopt;
  std::ranges::copy(body.first(id.size()), std::as_writable_bytes(std::span(id)).begin());
  return id;
}

}  // namespace hearth
