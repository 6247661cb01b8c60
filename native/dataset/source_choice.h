// Which of the places that a dataset's bytes can be read from is asked next: the first source,
// which was listed, or one of its mirrors. Chosen by what was measured: where a request is expected
// to end soonest, of those that are not put aside. A source that fails or stalls is put aside for a
// time that doubles with every failure; then one request probes it, and when that succeeds it is
// back. It asks for nothing itself, and proves no bytes (source_request.h). Any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "origin/sample_window.h"

namespace hearth {

// Bit i: source i; 0 is the first, mirror i is source i + 1.
using SourceMask = std::uint32_t;
[[nodiscard]] constexpr SourceMask bitOfSource(std::size_t source) {
  return SourceMask{1} << source;
}

struct SourceStatistics {
  std::uint64_t bytes = 0;     // of objects, that came from it
  std::uint64_t requests = 0;  // that have ended in one of these ways, or well
  std::uint64_t failures = 0;
  std::uint64_t stragglers = 0;  // requests that another source was faster with
  std::uint64_t unproved = 0;    // files that it lacks, or has not as the manifest lists them
  // Put aside now, and why; empty: it is not.
  std::string aside;
};

class SourceChoice {
 public:
  static constexpr std::size_t kMaxSources = 16;
  // It is put aside for so long at first, and at last.
  static constexpr auto kFirstAside = std::chrono::seconds(1);
  static constexpr auto kLongestAside = std::chrono::minutes(5);
  // A turn is given up when another source would have been so many times as fast.
  static constexpr int kSlowness = 8;
  // An older measurement says nothing about now.
  static constexpr auto kRateHolds = std::chrono::minutes(1);
  // A file that a mirror does not have is looked for there again after that.
  static constexpr auto kLacksHolds = std::chrono::minutes(10);
  // A source is put aside when so many requests in a row were refused, or for files that were not
  // there as listed.
  static constexpr int kLacksInRow = 8;
  static constexpr std::size_t kMaxLacking = 16384;
  // A mirror that gave wrong bytes, as is proved, is asked for nothing for so long; one that may
  // have is put aside for so long, whether it answers or not.
  static constexpr auto kLieHolds = std::chrono::hours(1);
  static constexpr auto kSuspicionHolds = std::chrono::seconds(256);

  // `sources`: 1 to kMaxSources.
  explicit SourceChoice(std::size_t sources);

  // One request: to which source, and when it began. Each ends by exactly one of the calls below.
  struct Turn {
    std::size_t source = 0;
    Clock::time_point begun;
    bool probe = false;  // of a source that was put aside
  };
  // Sources of `among` that neither lack `entry` nor lied.
  [[nodiscard]] SourceMask mayHave(SourceMask among, std::uint32_t entry, Clock::time_point now);
  // Sources of `among` that may be asked for `entry`: healthy ones and ones due for a probe; if
  // there are none, all that have the entry. Empty: all of them lack the entry, or lied.
  [[nodiscard]] SourceMask usable(SourceMask among, std::uint32_t entry, Clock::time_point now);
  // Which of `among` gave wrong bytes so lately that they are not asked.
  [[nodiscard]] SourceMask liars(SourceMask among, Clock::time_point now) const;

  // Sources of `among` without a failure so recent that they are put aside for it.
  [[nodiscard]] SourceMask answering(SourceMask among, Clock::time_point now) const;

  // Of `among`, that has one at least, where `entry` is asked for next. A source that is put aside
  // is chosen only when all of these are. Nothing: all of them lack the entry.
  [[nodiscard]] std::optional<Turn> begin(SourceMask among, std::uint32_t entry,
                                          Clock::time_point now);
  // Which other one is asked when the turn's source is slow; nothing when there is none that is
  // well. It takes no turn.
  [[nodiscard]] std::optional<std::size_t> beside(const Turn& turn, SourceMask among,
                                                  std::uint32_t entry, Clock::time_point now);

  // How long a request for `bytes` may take at the turn's source while one of `others`, which were
  // measured, would give it in an eighth of that beside what it has to do; nothing: none was.
  [[nodiscard]] std::optional<Clock::duration> longestTurn(const Turn& turn, SourceMask others,
                                                           std::uint64_t bytes,
                                                           Clock::time_point now) const;

  // The server asked not to be asked before `until`: so do all requests of this dataset.
  void leaveAlone(std::size_t source, Clock::time_point until);
  [[nodiscard]] Clock::time_point notBefore(std::size_t source) const;
  // The turn's source neither is put aside, or was so when the turn began, nor lied since. Of any
  // source: `well`.
  [[nodiscard]] bool wanted(const Turn& turn) const;
  [[nodiscard]] bool well(std::size_t source, Clock::time_point now) const;

  // `bytes` came in all. True: it was put aside, and is back.
  bool succeeded(const Turn& turn, std::uint64_t bytes, Clock::time_point now);
  // It failed or stalled, after `bytes`. True: it was well, and is put aside now.
  bool failed(const Turn& turn, std::uint64_t bytes, const std::string& why, Clock::time_point now);
  // Another source, `other`, was faster with what it was asked for, and gave `others` of the bytes.
  // True as failed().
  bool straggled(const Turn& turn, std::uint64_t bytes, std::size_t other, std::uint64_t others,
                 Clock::time_point now);
  // A request beside another source's turn, which began at `begun`, ended before its time. True as
  // failed().
  bool brokeOff(std::size_t source, Clock::time_point begun, const std::string& why,
                Clock::time_point now);
  // It has not the entry as the manifest lists it. True: that is the first time for this source.
  bool lacks(const Turn& turn, std::uint32_t entry, const std::string& why, Clock::time_point now);
  // It does not give the entry, which may be so of others. It is asked for it again. True as
  // failed().
  bool refused(const Turn& turn, std::uint64_t bytes, const std::string& why,
               Clock::time_point now);
  // It is not asked for the entry: nothing proves that it has the same bytes. True as lacks().
  bool unproved(std::size_t source, std::uint32_t entry, Clock::time_point now);
  // Nothing was found out about it: cancelled, or given up for others that wait.
  void abandoned(const Turn& turn, std::uint64_t bytes);
  // Its bytes were not what the digest says, or those of it and others together. True: that is new.
  // lied(): once for each file, until acquitted() or its time is over.
  bool lied(std::size_t source, const std::string& why, Clock::time_point now);
  bool suspected(std::size_t source, const std::string& why, Clock::time_point now);
  // Of one of these files it was not its bytes that were wrong.
  void acquitted(std::size_t source);
  void cleared(std::size_t source);  // of suspicion alone

  [[nodiscard]] std::size_t size() const { return sources_.size(); }

  // A source whose time aside is long over, as no request came that would have probed it, is not
  // aside in these.
  [[nodiscard]] std::vector<SourceStatistics> statistics(Clock::time_point now) const;

 private:
  struct Source {
    std::size_t running = 0;
    SampleWindow rates{16};  // bytes a second
    Clock::time_point measuredAt = Clock::time_point::min();
    int failures = 0;  // in a row; it is put aside while there are some
    int lacking = 0;   // in a row
    bool probing = false;
    Clock::time_point asideAt = Clock::time_point::min();
    Clock::time_point asideUntil = Clock::time_point::min();
    Clock::time_point leftAloneUntil = Clock::time_point::min();
    Clock::time_point suspectAt = Clock::time_point::min();
    Clock::time_point suspectUntil = Clock::time_point::min();
    Clock::time_point liarUntil = Clock::time_point::min();
    Clock::time_point liedAt = Clock::time_point::min();
    int lies = 0;             // files of which it gave wrong bytes, until then
    std::string lie;          // or what it is suspected of
    SourceStatistics counts;  // aside: the last reason
  };

  // All under the lock.
  // It may be asked as one that is well, or probed.
  [[nodiscard]] static bool isWell(const Source& source, Clock::time_point now);
  [[nodiscard]] static bool isDue(const Source& source, Clock::time_point now);
  [[nodiscard]] static bool isMeasured(const Source& source, Clock::time_point now);
  [[nodiscard]] SourceMask having(SourceMask among, std::uint32_t entry, Clock::time_point now);
  // Of those that are well, where a request is expected to end soonest.
  [[nodiscard]] std::optional<std::size_t> soonest(SourceMask among, Clock::time_point now) const;
  // The one that was put aside whose time is over first.
  [[nodiscard]] std::size_t nextBack(SourceMask among) const;
  Source& end(const Turn& turn, std::uint64_t bytes);
  Source& endFailed(const Turn& turn, std::uint64_t bytes);
  static void measure(Source& source, const Turn& turn, std::uint64_t bytes, Clock::time_point now);
  bool noteLacking(std::size_t source, std::uint32_t entry, Clock::time_point now);
  static bool putAside(Source& source, const Turn& turn, const std::string& why,
                       Clock::time_point now);

  mutable std::mutex mutex_;
  std::vector<Source> sources_;
  // Source and entry, and until when it is not asked for that.
  std::unordered_map<std::uint64_t, Clock::time_point> lacking_;
};

}  // namespace hearth
