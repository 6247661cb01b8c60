// Which of the files that are kept goes first when there is no room: whole files, from bytes to
// hundreds of gigabytes. Pure: no I/O, no time, no randomness; the same calls give the same
// answers on every machine.
//
// S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction", SOSP
// 2023) over bytes. What is new waits in a short queue, on probation, and goes first unless it is
// used again there: a pass over a dataset displaces no model. What was used again is moved to the
// main queue, where each use gives it one more turn, a few at most. A file that went while on
// probation is remembered for a while, and is no longer on probation when it comes back. What
// differs from the paper was chosen by native/bench/hit_ratio, as was the policy
// (docs/performance.md): one use on probation is enough, not two; lengths of queues, and turns.
//
// One thread at a time. About 150 bytes a file, and as much for each that is remembered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <unordered_map>

#include "base/content_key.h"

namespace hearth {

// The best of those tried on seeds 0 to 39 of native/bench/hit_ratio. Shares of the capacity.
struct EvictionTuning {
  double probation = 0.08;
  double remembered = 0.6;
  std::uint8_t maxUses = 4;  // turns in the main queue that uses can give in advance
};

class EvictionPolicy {
 public:
  // May this file go now? Not when it is pinned, published or in use. Calls nothing of the policy.
  using MayGo = std::function<bool(const ContentKey&)>;

  // `capacityBytes`: the approximate room for files. It only scales the queues: the caller of the
  // policy enforces the capacity.
  explicit EvictionPolicy(std::uint64_t capacityBytes, EvictionTuning tuning = {});
  EvictionPolicy(const EvictionPolicy&) = delete;
  EvictionPolicy& operator=(const EvictionPolicy&) = delete;

  // Room has come or gone. O(1).
  void setCapacity(std::uint64_t capacityBytes);

  // A file is kept from now on. One that is kept already changes its size, and nothing else. O(1)
  // amortised.
  void insert(const ContentKey& key, std::uint64_t bytes);
  // A file is used: once for each time that it is read, not for each of its chunks. Nothing when it
  // is not kept. O(1).
  void hit(const ContentKey& key);
  // A file is no longer kept, because it was a victim or for another reason. Nothing when it is
  // not. O(1) amortised.
  void remove(const ContentKey& key);

  // The file that should go next; none when none may go. It is kept until remove(), so asking again
  // names it again unless it was used or may no longer go. Amortised O(1) for what may go; `mayGo`
  // is asked again and again of files that may not, in the worst case of all: those get another
  // turn, as if they were new in their queue.
  [[nodiscard]] std::optional<ContentKey> victim(const MayGo& mayGo);

  [[nodiscard]] bool contains(const ContentKey& key) const;
  // It is kept, and was used after it came, or had been kept before.
  [[nodiscard]] bool usedAgain(const ContentKey& key) const;
  // Of files that are kept.
  [[nodiscard]] std::size_t files() const;
  [[nodiscard]] std::uint64_t bytes() const;
  // Files that went and whose keys are still known; no more than are kept, or kMinRemembered.
  [[nodiscard]] std::size_t remembered() const { return queue(Place::kRemembered).files.size(); }

  static constexpr std::size_t kMinRemembered = 1024;

 private:
  enum class Place : std::uint8_t { kProbation, kMain, kRemembered };
  struct File {
    ContentKey key;
    std::uint64_t bytes;
    Place place;
    std::uint8_t uses;  // that have not been paid with a turn yet
  };
  using Files = std::list<File>;
  struct Queue {
    Files files;  // oldest first
    std::uint64_t bytes = 0;
  };

  [[nodiscard]] Queue& queue(Place place) { return queues_[static_cast<std::size_t>(place)]; }
  [[nodiscard]] const Queue& queue(Place place) const {
    return queues_[static_cast<std::size_t>(place)];
  }
  // To the end of `place`.
  void move(Files::iterator file, Place place);
  void erase(Files::iterator file);
  void forgetOldest();
  // The next to go of one of the two queues; null when none of it may go. Invariant: files that may
  // go are only passed over at the price of a use, so this ends.
  [[nodiscard]] const File* nextOnProbation(const MayGo& mayGo);
  [[nodiscard]] const File* nextOfMain(const MayGo& mayGo);

  const EvictionTuning tuning_;
  std::uint64_t probationBytes_ = 0, rememberedBytes_ = 0;
  std::array<Queue, 3> queues_;
  std::unordered_map<ContentKey, Files::iterator, ContentKeyHash> byKey_;
};

}  // namespace hearth
