// Files whose bytes were not what their origin's digest says: dropped and fetched again after the
// first time, refused after the second, for a while. Any thread; bounded.
#pragma once

#include <mutex>
#include <unordered_map>

#include "base/content_key.h"
#include "base/result.h"
#include "reactor/reactor.h"

namespace hearth {

class DigestRefusals {
 public:
  // The origin may have been put right: after this long it is read again.
  static constexpr auto kFor = std::chrono::minutes(10);
  static constexpr std::size_t kMax = 4096;

  // The file's bytes differ. True: for the second time, and it is refused from now on.
  bool note(const ContentKey& key) {
    const std::lock_guard lock(mutex_);
    expire();
    if (files_.size() >= kMax) files_.clear();
    File& file = files_[key];
    file.since = Clock::now();
    return ++file.times >= 2;
  }
  void forget(const ContentKey& key) {
    const std::lock_guard lock(mutex_);
    files_.erase(key);
  }
  [[nodiscard]] bool refuses(const ContentKey& key) { return times(key) >= 2; }
  // It differed, and was not right since: what other agents have of it may be as wrong.
  [[nodiscard]] bool differed(const ContentKey& key) { return times(key) != 0; }
  [[nodiscard]] static Error error() {
    return {ErrorCode::kCorrupt,
            "the SHA-256 of the origin's bytes differs from the digest that it was listed with, "
            "again after they were fetched a second time; put the origin right, or list it again"};
  }

 private:
  struct File {
    int times = 0;
    Clock::time_point since;
  };
  int times(const ContentKey& key) {
    const std::lock_guard lock(mutex_);
    if (files_.empty()) return 0;
    expire();
    const auto found = files_.find(key);
    return found == files_.end() ? 0 : found->second.times;
  }
  void expire() {
    const auto now = Clock::now();
    std::erase_if(files_, [&](const auto& file) { return now - file.second.since > kFor; });
  }

  std::mutex mutex_;
  std::unordered_map<ContentKey, File, ContentKeyHash> files_;
};

}  // namespace hearth
