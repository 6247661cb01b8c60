// Files of one cache directory in the order in which they may go. On the directory's home.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "cache/cache_entry.h"
#include "cache/key_index.h"

namespace hearth {

// A file is wanted in the cluster for so long after its last use anywhere, with the credit that
// many uses have (CacheEntry::lastUsedMs): a day after one use, up to four after many.
inline constexpr std::chrono::milliseconds kWantedFor = std::chrono::hours(24);

// `nowMs`: since the epoch. An empty file is none that could be lost.
[[nodiscard]] inline bool isWanted(const CacheEntry& entry, std::int64_t nowMs) {
  return entry.size != 0 && entry.lastUsedMs() > nowMs - kWantedFor.count();
}

class EvictionCandidates {
 public:
  enum class Order : std::uint8_t {
    kByUse,  // by the last use in the cluster
    // Wanted files go by this agent's own last use, since other agents may keep them; unwanted
    // files as above. Leaves out files known to be the last copy, or perhaps the last one
    // (CacheEntry::lastCopyUntil, unconfirmedUntil).
    kAsCopies,
  };

  // Both must remain live while this object is used.
  EvictionCandidates(const KeyIndex& index, const CacheDirectory& directory, Order order)
      : index_(index), directory_(directory), order_(order) {}

  // Any thread. This one has a cache file now, and may stand before those that the last look found,
  // as uses in the cluster may lie ahead.
  void noteMade(const std::shared_ptr<CacheEntry>& entry);
  // To be called before a number of them is taken: puts files that were made since the last look
  // among those that it found, if they do not stand behind all of them. Takes as long as there are
  // such, kFound at most.
  void begin();
  // The next one of those that the last look found, unless it was used since; null when they are
  // used up.
  [[nodiscard]] std::shared_ptr<CacheEntry> next();
  // Looks through all files for those that are not pinned and not in use; false when there are
  // none, or a look was in vain lately. Takes as long as the cache has files.
  [[nodiscard]] bool look();
  // The files found did not help: no look for a second. Does not prolong a pause that runs already.
  void lookLater();
  // How often all files were looked through.
  [[nodiscard]] std::uint64_t looks() const { return looks_; }

  // One look finds so many, the first to go of all.
  static constexpr std::size_t kFound = 1024;

 private:
  struct Candidate {
    std::int64_t time = 0;
    std::shared_ptr<CacheEntry> entry;
    // Sorts later removals first: the next one is at the end.
    bool operator>(const Candidate& other) const {
      return time != other.time ? time > other.time : entry > other.entry;
    }
  };
  // May go, by what is known here; but for use.
  [[nodiscard]] bool eligible(const CacheEntry& entry) const;

  [[nodiscard]] std::int64_t timeOf(const CacheEntry& entry, std::int64_t nowMs) const;

  const KeyIndex& index_;
  const CacheDirectory& directory_;
  const Order order_;
  std::int64_t lookedMs_ = 0;     // what was wanted is by this time
  std::vector<Candidate> found_;  // the next one at the end
  // The last look found too many files and left out those with a later time than this.
  std::int64_t foundUntilMs_ = std::numeric_limits<std::int64_t>::max();
  Clock::time_point nextLook_ = Clock::time_point::min();
  std::uint64_t looks_ = 0;

  std::mutex mutex_;  // guards what follows: any thread
  // Since the last look, and not put among the others yet: kFound at most, as what comes behind so
  // many is for the next look. None before the first look.
  std::vector<std::shared_ptr<CacheEntry>> made_;
  bool noting_ = false;
};

}  // namespace hearth
