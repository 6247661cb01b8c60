// The sources of a dataset's bytes in the order of asking: the first source, which was listed, and
// its mirrors. The source where a request is expected to end soonest, by measured rates, comes
// first. A source that fails is set aside for a pause that doubles with every failure; then one
// request tries it. A source whose bytes a digest refuted is quarantined. This object sends no
// requests and proves no bytes (source_request.h). Any thread.
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
[[nodiscard]] constexpr bool isIn(SourceMask mask, std::size_t source) {
  return (mask & bitOfSource(source)) != 0;
}

struct SourceStatistics {
  std::uint64_t bytes = 0;     // of objects, that came from it
  std::uint64_t requests = 0;  // that ended, except those that the caller gave up
  std::uint64_t failures = 0;
  std::uint64_t stragglers = 0;  // requests that went to another source because it was slow
  std::uint64_t unproved = 0;    // files that it lacks, or has not as the manifest lists them
  std::string aside;             // why it is set aside now; empty: it is not
};

class SourceRanking {
 public:
  static constexpr std::size_t kMaxSources = 16;
  // The first and the longest pause of a source that fails.
  static constexpr auto kFirstAside = std::chrono::seconds(1);
  static constexpr auto kLongestAside = std::chrono::minutes(5);
  // A request gives a source up when another one would have been this many times as fast.
  static constexpr int kSlowness = 8;
  // An older measurement says nothing about now.
  static constexpr auto kRateHolds = std::chrono::minutes(1);
  // A file that a source lacks is looked for there again after this long.
  static constexpr auto kLacksHolds = std::chrono::minutes(10);
  static constexpr std::size_t kMaxLacking = 16384;
  // A source is set aside after this many requests in a row that it refused, or for files that it
  // lacks.
  static constexpr int kMaxRefusals = 8;
  // The quarantine of a source that gave all bytes of a wrong file, and of one that gave some.
  static constexpr auto kLieHolds = std::chrono::hours(1);
  static constexpr auto kSuspicionHolds = std::chrono::seconds(256);

  // `sources`: 1 to kMaxSources.
  explicit SourceRanking(std::size_t sources);

  // Sources by their state.
  struct View {
    SourceMask lied = 0;       // lately
    SourceMask having = 0;     // did not, and do not lack the entry
    SourceMask answering = 0;  // of these: neither in the pause after a failure nor left alone
    SourceMask healthy = 0;    // of these: without a failure or a suspicion
    SourceMask due = 0;        // of answering: to be tried by one request, as the pause is over
    // The sources to ask: those that are well or due; without such, all that have the entry.
    [[nodiscard]] SourceMask usable() const {
      return (healthy | due) != 0 ? healthy | due : having;
    }
  };
  [[nodiscard]] View look(SourceMask among, std::uint32_t entry, Clock::time_point now) const;

  // One request to a source. Each ends by one call of end().
  struct Turn {
    std::size_t source = 0;
    Clock::time_point begun;
  };
  enum class Outcome : std::uint8_t {
    kGave,       // all bytes came
    kFailed,     // an error that may pass, or a stall
    kSlow,       // another source is expected to be faster
    kRefused,    // it does not give the entry, which may be so of others
    kLacks,      // it has not the entry as the manifest lists it
    kUndecided,  // the caller gave the request up
  };
  // Begins a request to the first source of `among`, which has one at least. Sources that are set
  // aside come last, in the order in which their pauses end.
  [[nodiscard]] Turn begin(SourceMask among, Clock::time_point now);
  // `bytes` came. `why`: the cause of a failure, for people. True: the source is set aside now, or,
  // after kGave, no longer.
  bool end(const Turn& turn, Outcome outcome, std::uint64_t bytes, const std::string& why,
           Clock::time_point now);
  // False: the source was set aside or quarantined after the turn had begun.
  [[nodiscard]] bool wanted(const Turn& turn) const;
  // The time that a request for `bytes` may take at the turn's source: a multiple of what the best
  // of `others` would take beside its other requests. Nothing: none of them was measured.
  [[nodiscard]] std::optional<Clock::duration> patience(const Turn& turn, SourceMask others,
                                                        std::uint64_t bytes,
                                                        Clock::time_point now) const;

  // The server asked all requests to wait until then (Retry-After).
  void leaveAlone(std::size_t source, Clock::time_point until);
  // The sources of `among` that are left alone now.
  [[nodiscard]] SourceMask leftAlone(SourceMask among, Clock::time_point now) const;
  // The source is not asked for the entry for kLacksHolds. True: the source's first such entry.
  bool lacks(std::size_t source, std::uint32_t entry, Clock::time_point now);
  // Quarantines a source because of one wrong file, which `why` names. `lied`: it gave all bytes of
  // the file, and is asked for nothing; else it comes behind all others. A file changes no verdict
  // of another file for the better. True: the quarantine is new.
  bool distrust(std::size_t source, bool lied, const std::string& why, Clock::time_point now);
  // Ends the quarantine if the last verdict was on the file that `why` names.
  void trust(std::size_t source, const std::string& why);

  [[nodiscard]] std::vector<SourceStatistics> statistics(Clock::time_point now) const;

 private:
  struct Source {
    std::size_t running = 0;
    SampleWindow rates{16};  // bytes a second
    Clock::time_point measuredAt = Clock::time_point::min();
    int failures = 0;  // in a row; it is set aside while there are some
    int refusals = 0;  // in a row
    Clock::time_point asideAt = Clock::time_point::min();
    Clock::time_point asideUntil = Clock::time_point::min();
    Clock::time_point leftAloneUntil = Clock::time_point::min();
    bool lied = false;
    Clock::time_point doubtedAt = Clock::time_point::min();
    Clock::time_point doubtedUntil = Clock::time_point::min();
    std::string doubt;
    SourceStatistics counts;  // aside: the last failure

    [[nodiscard]] bool isDoubted(Clock::time_point now) const { return doubtedUntil > now; }
    // Bytes a second; nothing: not known now.
    [[nodiscard]] std::optional<double> rate(Clock::time_point now) const;
    bool setAside(const Turn& turn, const std::string& why, Clock::time_point now);
    bool takeBack(const Turn& turn);
  };

  mutable std::mutex mutex_;
  std::vector<Source> sources_;
  // Source and entry, and until when it is not asked for that.
  std::unordered_map<std::uint64_t, Clock::time_point> lacking_;
};

}  // namespace hearth
