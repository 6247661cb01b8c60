// Remembers that an origin refused a file to a dataset. The refusal holds for all pieces of the
// file, so the agent asks for none of them for a moment. Used on the key's shard.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "base/result.h"
#include "dataset/dataset.h"

namespace hearth {

class Refusal {
 public:
  static constexpr auto kLasts = std::chrono::seconds(1);

  // Notes the error of a request that was made with the dataset's locations of this version.
  void note(const Error& error, std::uint64_t version) {
    if (!isRefusal(error.code)) return;
    error_ = error;
    until_ = Clock::now() + kLasts;
    version_ = version;
  }
  // The refusal that still holds, if any. New locations end it, as the origin may give them more.
  [[nodiscard]] std::optional<Error> holds(const LocationCache& locations) const {
    if (!error_ || Clock::now() >= until_ || version_ != locations.version()) return std::nullopt;
    return error_;
  }

 private:
  // Other errors may be gone the next time.
  static bool isRefusal(ErrorCode code) {
    return code == ErrorCode::kPermissionDenied || code == ErrorCode::kUnauthenticated ||
           code == ErrorCode::kLocationExpired || code == ErrorCode::kNotFound ||
           code == ErrorCode::kOriginChanged;
  }

  std::optional<Error> error_;
  Clock::time_point until_;
  std::uint64_t version_ = 0;
};

}  // namespace hearth
