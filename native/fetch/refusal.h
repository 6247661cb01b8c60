// That an origin has refused a file to a dataset, which says the same of all its pieces: for a
// moment nothing more is asked of it. Used on the key's shard.
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

  // What became of a request to the origin, made when the dataset's locations were of this version.
  void note(const Error& error, std::uint64_t version) {
    if (!isRefusal(error.code)) return;
    error_ = error;
    until_ = Clock::now() + kLasts;
    version_ = version;
  }
  // The refusal that still holds, if one does: other locations may be given more.
  [[nodiscard]] std::optional<Error> holds(const LocationCache& locations) const {
    if (!error_ || Clock::now() >= until_ || version_ != locations.version()) return std::nullopt;
    return error_;
  }

 private:
  // Other errors may have gone the next time.
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
