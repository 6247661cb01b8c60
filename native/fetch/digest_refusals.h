// Files whose bytes differed from their origin's digest. The agent drops such a file and fetches it
// again from each source, then refuses it for a while. Until then this object keeps the state of
// the search, so that a later reader continues it after an earlier one gave up. Any thread;
// bounded.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/content_key.h"
#include "base/result.h"
#include "reactor/reactor.h"

namespace hearth {

class SourceRounds;

class DigestRefusals {
 public:
  // After this long the agent reads the origin again, which may have been put right.
  static constexpr auto kFor = std::chrono::minutes(10);
  static constexpr std::size_t kMax = 4096;

  // The file's bytes differ from the digest. Only the key's shard uses `rounds`.
  void note(const ContentKey& key, std::shared_ptr<SourceRounds> rounds) {
    put(key, {State::kDiffered, Clock::now(), std::move(rounds)});
  }
  // The bytes of every source differ: refuses the file from now on.
  void refuse(const ContentKey& key) { put(key, {State::kRefused, Clock::now(), nullptr}); }
  void forget(const ContentKey& key) {
    const std::lock_guard lock(mutex_);
    files_.erase(key);
  }
  [[nodiscard]] bool refuses(const ContentKey& key) { return find(key).state == State::kRefused; }
  // The rounds of a file that differed and is neither right again nor refused; else null.
  [[nodiscard]] std::shared_ptr<SourceRounds> roundsOf(const ContentKey& key) {
    return find(key).rounds;
  }
  [[nodiscard]] static Error error() {
    return {ErrorCode::kCorrupt,
            "the SHA-256 of the origin's bytes differs from the digest that it was listed with, "
            "again after they were fetched once more; put the origin right, or list it again"};
  }

 private:
  enum class State : std::uint8_t { kRight, kDiffered, kRefused };
  struct File {
    State state = State::kRight;
    Clock::time_point since;
    std::shared_ptr<SourceRounds> rounds;
  };
  void put(const ContentKey& key, File file) {
    const std::lock_guard lock(mutex_);
    expire();
    if (files_.size() >= kMax) files_.clear();
    files_[key] = std::move(file);
  }
  File find(const ContentKey& key) {
    const std::lock_guard lock(mutex_);
    if (files_.empty()) return {};
    expire();
    const auto found = files_.find(key);
    return found == files_.end() ? File{} : found->second;
  }
  void expire() {
    const auto now = Clock::now();
    std::erase_if(files_, [&](const auto& file) { return now - file.second.since > kFor; });
  }

  std::mutex mutex_;
  std::unordered_map<ContentKey, File, ContentKeyHash> files_;
};

}  // namespace hearth
