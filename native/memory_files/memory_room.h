// The budget of memory for whole files: which files have room, and which ones go for another. It
// holds no bytes. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/content_key.h"

namespace hearth {

// Who wants a file in memory. A file of a higher rank never goes for one of a lower rank.
enum class MemoryRank : std::uint8_t {
  kUse,     // readers that come again and again
  kWarm,    // a warm job
  kMemory,  // a warm job or a pin that asks for memory
};

class MemoryRoom {
 public:
  explicit MemoryRoom(std::uint64_t budgetBytes) : budget_(budgetBytes) {}

  struct Claim {
    ContentKey key;
    std::uint64_t bytes = 0;
    MemoryRank rank = MemoryRank::kUse;
    // Files of the same rank go when nobody used them from then on, so that a model that is larger
    // than the budget does not evict its own first files.
    Clock::time_point since;
  };
  struct Answer {
    bool taken = false;
    // Files that have to go first, in this order; empty with `taken` false: no room can be made.
    std::vector<ContentKey> victims;
  };
  using Keys = std::unordered_set<ContentKey, ContentKeyHash>;

  // Takes room for a file that is to be filled, or names files whose going would make it. Nothing
  // is named in vain. A key that has room keeps it, with the higher rank. `staying`: files that
  // cannot go now.
  [[nodiscard]] Answer claim(const Claim& claim, const Keys& staying);
  // All of the file is in memory: from now on it may be evicted. False: it has lost its room.
  [[nodiscard]] bool filled(const ContentKey& key);
  // The file has gone, or was never filled.
  void release(const ContentKey& key);
  // The file of an earlier agent, which is whole.
  void adopt(const ContentKey& key, std::uint64_t bytes, std::uint64_t hugeBytes, MemoryRank rank);
  // A file that has room gets this rank, unless it has a higher one. Returns its rank.
  MemoryRank raise(const ContentKey& key, MemoryRank rank);
  // The file is whole, or is being filled.
  [[nodiscard]] bool has(const ContentKey& key) const;

  void noteUse(const ContentKey& key, Clock::time_point at);
  // So many more bytes of the file lie in huge pages. Returns their sum.
  std::uint64_t noteHuge(const ContentKey& key, std::uint64_t bytes);

  struct Use {
    std::uint64_t budgetBytes = 0;
    std::uint64_t usedBytes = 0;  // of files that are whole or being filled
    std::uint64_t hugeBytes = 0;  // of usedBytes
    std::uint64_t files = 0;      // whole ones
  };
  [[nodiscard]] Use use() const;
  // Whole files beyond the budget, the least used first: those of an agent that had more.
  [[nodiscard]] std::vector<ContentKey> excess() const;

 private:
  struct File {
    std::uint64_t bytes = 0;
    std::uint64_t hugeBytes = 0;
    MemoryRank rank = MemoryRank::kUse;
    bool whole = false;
    Clock::time_point used;
  };
  using Files = std::unordered_map<ContentKey, File, ContentKeyHash>;

  // With the lock. Whole files that go before others do: by rank, then by last use.
  [[nodiscard]] std::vector<const Files::value_type*> inOrder() const;

  const std::uint64_t budget_;
  mutable std::mutex mutex_;  // guards all below
  Files files_;
  std::uint64_t used_ = 0;
};

}  // namespace hearth
