// Files of a directory whose time of change moved while nothing that is known of them says why:
// not their links, mode or owner. Links that came and went do that, and so does a writer who puts
// the time of modification back (utimensat(2)); their bytes tell the one from the other. Any
// thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace hearth {

class TouchedFiles {
 public:
  // `file`: its entry in the manifest. `changedNs`: the time of change, in nanoseconds.
  // A read has met the file so.
  void note(std::uint32_t file, std::int64_t changedNs) {
    const std::lock_guard lock(mutex_);
    files_[file].metNs = changedNs;
  }
  // The last time that was noted.
  [[nodiscard]] std::optional<std::int64_t> noted(std::uint32_t file) const {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(file);
    return found == files_.end() ? std::nullopt : found->second.metNs;
  }
  // The bytes were compared while the file had that time.
  void judge(std::uint32_t file, std::int64_t changedNs, bool isSame) {
    const std::lock_guard lock(mutex_);
    files_[file].judged = {changedNs, isSame};
  }
  // Nothing: they were not.
  [[nodiscard]] std::optional<bool> isSame(std::uint32_t file, std::int64_t changedNs) const {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(file);
    if (found == files_.end() || !found->second.judged) return std::nullopt;
    const Judged& judged = *found->second.judged;
    return judged.changedNs == changedNs ? std::optional(judged.isSame) : std::nullopt;
  }

 private:
  struct Judged {
    std::int64_t changedNs = 0;
    bool isSame = false;
  };
  struct Touched {
    std::optional<std::int64_t> metNs;
    std::optional<Judged> judged;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, Touched> files_;
};

}  // namespace hearth
