// Makes room: chooses whole keys, never one that is in use, pinned or published, and removes them
// with the views that link them.
//
// Without other agents by last use in the cluster. With them (ClusterCopies) by this agent's own
// last use, and what is wanted goes only when other agents keep it. When that frees nothing,
// because all that could go is the last copy or the agents that would know are away, the budget is
// still hard: by last use in the cluster, whatever is known of other copies, and counted.
//
// Other agents may be slow, so room is not waited for longer than two seconds on their account
// (kAskFor and ClusterCopies::kAnswersIn), in all, whoever needed room before. A file is marked as
// going only when they have been asked, so who opens it does not wait for them at all.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "cache/cache_directory.h"
#include "cache/cluster_copies.h"
#include "cache/content_cache.h"

namespace hearth {

struct CacheCore;

class Evictor {
 public:
  // A last copy is not asked for again before.
  static constexpr std::chrono::seconds kLastCopyFor{60};
  // Nor one of which others did not say whether they keep it.
  static constexpr std::chrono::seconds kUnconfirmedFor{10};
  // Others are not asked any more when their answers have been waited for so long.
  static constexpr std::chrono::milliseconds kAskFor{500};
  // Nor, but once more in the last resort, when so many of these questions freed nothing.
  static constexpr std::size_t kVainRequests = 4;
  // Files that one question is about.
  static constexpr std::size_t kMaxAsked = 64;

  // `core` must remain live while this object is used.
  explicit Evictor(CacheCore& core) : core_(core) {}

  // Any shard; continues on `back`. Reserves in the directory's budget, and evicts others if
  // needed. kOutOfSpace when none may go, with what is used, pinned and in use.
  [[nodiscard]] Task<Status> reserve(CacheDirectory& directory, std::uint64_t bytes,
                                     const ShardContext& back);
  // As ContentCache::evict; continues on `back`.
  [[nodiscard]] Task<Result<EvictOutcome>> evict(ContentKey key, Reactor& back);

 private:
  struct Victim {
    std::shared_ptr<CacheEntry> entry;
    CopyVerdict verdict = CopyVerdict::kNone;
    std::uint64_t request = 0;  // ClusterCopies::Answer::request
  };
  using Victims = std::vector<Victim>;
  // The questions to other agents on behalf of one caller that needs room.
  struct Inquiry {
    Clock::duration askedBefore{};  // CacheDirectory::asked() when it was first needed
    std::size_t vain = 0;
    bool lastAsked = false;  // in the last resort
    // Verdicts on the files looked at so far: eviction asks for none of them twice.
    std::unordered_map<std::shared_ptr<CacheEntry>, CopyVerdict> verdicts;
  };
  // The outcome for victims. `error` says why the remaining ones stay, except those published
  // meanwhile.
  struct Removal {
    Victims gone, stay;
    Status status;
  };

  // These on the directory's home, with its evictions() held.
  [[nodiscard]] Task<Status> makeRoom(CacheDirectory& directory, std::uint64_t bytes,
                                      Inquiry inquiry);
  // Victims that are marked in the index as going; nothing is asked any more then. Those that may
  // go for the sake of others' copies, or are not wanted; and in the last resort any.
  [[nodiscard]] Task<Victims> chooseCopies(CacheDirectory& directory, std::uint64_t bytes,
                                           Inquiry& inquiry);
  [[nodiscard]] Task<Victims> chooseByUse(CacheDirectory& directory, std::uint64_t bytes,
                                          Inquiry& inquiry);
  // Not marked yet; `limit` at most. Without those in `known`, unless it is null.
  [[nodiscard]] Victims take(EvictionCandidates& candidates, std::uint64_t bytes, std::size_t limit,
                             const Inquiry* known, bool& looked);
  // Asks for those that are wanted, if it may be asked, and notes what is said.
  [[nodiscard]] Task<Victims> judge(CacheDirectory& directory, Victims victims, Inquiry& inquiry,
                                    bool asks);
  // This agent's knowledge of a wanted copy; kNone: nothing is known, ask for it.
  [[nodiscard]] static CopyVerdict knownOf(const CacheEntry& entry, Clock::time_point now);
  void note(const Victim& victim);
  [[nodiscard]] static bool mayAsk(CacheDirectory& directory, const Inquiry& inquiry);
  // Marks files in the index as going: files with leave and files nobody wants; in the last resort
  // any file that is not in use.
  [[nodiscard]] bool begin(const Victim& victim, bool lastResort);
  // `gone`: these have gone, and their keys have not come again.
  using Gone = std::function<void(std::span<const Victim> victims)>;
  [[nodiscard]] Task<Removal> removeMarked(CacheDirectory& directory, Victims victims, Gone gone);
  [[nodiscard]] static Task<Status> measure(CacheDirectory& directory, FileSystem& files);
  [[nodiscard]] Error outOfSpace(CacheDirectory& directory, std::uint64_t bytes) const;

  // Any thread. Null when this agent is alone.
  [[nodiscard]] ClusterCopies* copies() const;
  void reportGone(std::span<const Victim> victims);
  void reportKept(std::span<const Victim> victims);

  CacheCore& core_;
};

}  // namespace hearth
