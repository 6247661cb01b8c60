// One thing that a connection has to send: frames, and where their payload is. Moves only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "memory/memory_vector.h"
#include "transport/lent_parts.h"
#include "transport/peer_transport.h"

namespace hearth {

struct SendItem {
  std::vector<std::byte> frame;  // none of what is lent or goes in slices
  std::span<const std::byte> payload;
  std::shared_ptr<const void> keep;  // owns the payload
  MemoryVector source = {};          // more of the payload; host memory
  std::uint64_t requestId = 0;       // of an answer; 0 for everything else
  RequestClass requestClass = RequestClass::kDemand;
  // The frames that are left of what goes in slices, with their parts of `payload`, which is what
  // is left of it. Not of what is lent.
  std::deque<LentParts::Part> slices = {};
  std::shared_ptr<LentPayload> lent = nullptr;  // of a payload of that size
  LentParts parts = {};                         // of what is lent
  // Sent instead, or instead of the parts that are left, when what is lent can no longer be had.
  std::vector<std::byte> otherwise = {};
  // Sent instead of the parts that are left, as soon as none is being sent.
  std::vector<std::byte> withdrawn = {};
  bool begun = false;
  bool away = false;     // lent, and to be brought from elsewhere
  bool loading = false;  // is being brought

  [[nodiscard]] bool hasPayload() const { return !payload.empty() || !source.empty(); }
};

}  // namespace hearth
