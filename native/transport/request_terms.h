// The terms of a request as it is sent and answered: its timeout, the blocks that it covers, its
// cost, and the frame that answers it. Pure, any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "reactor/reactor.h"
#include "wire/frame.h"

namespace hearth {

[[nodiscard]] inline std::uint32_t timeoutMsUntil(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  const auto longest = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(left.count(), 1, longest));
}

// The blocks of a range of at most a chunk that starts on a block: bit i stands for block i.
[[nodiscard]] inline std::uint64_t blockMask(std::uint32_t offset, std::uint32_t length) {
  static_assert(kChunkBytes / kBlockBytes <= 64);
  const std::uint32_t first = static_cast<std::uint32_t>(offset / kBlockBytes);
  const std::uint32_t count = static_cast<std::uint32_t>(blocksOf(length));
  const std::uint64_t ones = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  return ones << first;
}

// The part of the credit that the request takes (wire/frame.h, Credit).
template <class Request>
[[nodiscard]] std::uint64_t costOf(const Request& request) {
  if constexpr (requires { request.length; }) {
    return request.length;
  } else {
    return request.body.size();
  }
}

[[nodiscard]] inline FrameType answerTo(FrameType request) {
  switch (request) {
    case FrameType::kReadRequest:
      return FrameType::kReadAnswer;
    case FrameType::kManifestRequest:
      return FrameType::kManifestAnswer;
    case FrameType::kWriteRequest:
      return FrameType::kWriteAnswer;
    default:
      return FrameType::kControlAnswer;
  }
}

}  // namespace hearth
