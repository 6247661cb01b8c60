// The budget for asking a host for the same bytes twice: a bucket of bytes that earns a hundredth
// of the bytes received from the host. A hedge pays for the bytes it asks for and gets nothing
// back, whichever transfer wins: so hedges ask for at most a hundredth of the bytes of a host, and
// the initial balance, however slow the host is for everyone. Pure: not thread-safe. Source: the
// token bucket of retries in gRPC (gRFC A6), in bytes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hearth {

class HedgeBudget {
 public:
  static constexpr std::uint64_t kEarnedPart = 100;
  // A hedge costs no less, so that requests are bounded too.
  static constexpr std::uint64_t kMinCost = std::uint64_t{1} << 20;

  // There are `bytes` at the start, and never more.
  explicit HedgeBudget(std::uint64_t bytes) : limit_(bytes), left_(bytes) {}

  // So many bytes came by transfers that are no hedges.
  void earn(std::uint64_t bytes) {
    unearned_ += bytes;
    left_ = std::min(limit_, left_ + unearned_ / kEarnedPart);
    unearned_ %= kEarnedPart;
  }
  // False, and nothing is spent, when there is not enough.
  [[nodiscard]] bool trySpend(std::uint64_t bytes) {
    const std::uint64_t cost = std::max(bytes, kMinCost);
    if (cost > left_) return false;
    left_ -= cost;
    return true;
  }
  [[nodiscard]] std::uint64_t left() const { return left_; }

 private:
  const std::uint64_t limit_;
  std::uint64_t left_;
  std::uint64_t unearned_ = 0;  // bytes that are less than one of budget
};

}  // namespace hearth
