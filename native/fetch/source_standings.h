// The state of each source of a dataset in one request: its failures, when it may be asked again,
// and the cause of its last failure. On the request's shard.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "dataset/dataset_sources.h"
#include "origin/origin_client.h"
#include "origin/retry_policy.h"

namespace hearth {

class SourceStandings {
 public:
  // `set` must remain live while this object is used.
  explicit SourceStandings(const SourceSet& set) : set_(set), all_(set.sources.size()) {}

  // The sources that may still give the range: not left out, and with fewer failures in a row than
  // a single source may have.
  [[nodiscard]] SourceMask remaining() const;
  // Failures since a piece came last.
  [[nodiscard]] int failures(std::size_t source) const { return all_[source].failures; }
  // When the source may be asked again: after its own Retry-After and the pause between attempts.
  [[nodiscard]] Clock::time_point notBefore(std::size_t source) const;
  // When the first source of `mask` may be asked.
  [[nodiscard]] Clock::time_point soonest(SourceMask mask) const;
  // The sources of `mask` whose time has come.
  [[nodiscard]] SourceMask due(SourceMask mask, Clock::time_point now) const;
  // The sources of `mask` that did not ask to be left alone.
  [[nodiscard]] SourceMask notLeftAlone(SourceMask mask, Clock::time_point now) const;

  // Notes the last failure; the source may be asked again at once.
  void noteCause(std::size_t source, Error cause) { all_[source].cause = std::move(cause); }
  // Notes a failure that may pass: the source may be asked again after a pause.
  void noteTry(std::size_t source, const Error& error, std::optional<Clock::duration> retryAfter);
  // As noteTry, without a pause.
  void noteFailure(std::size_t source, Error error);
  // The request asks the source no more.
  void leaveOut(std::size_t source, Error cause);
  // The same for several. `why`: the cause for sources that have none yet.
  void leaveOut(SourceMask sources, const Error& why);
  // A piece came: all failures were before that, and count no more.
  void cameOn();

  [[nodiscard]] std::string nameOf(std::size_t source) const;
  // The error of a request that no source has given. The code is the first source's, unless that
  // gave wrong bytes.
  [[nodiscard]] Error failure() const;

 private:
  struct Standing {
    int failures = 0;
    bool out = false;
    Clock::time_point notBefore = Clock::time_point::min();
    std::optional<Error> cause;  // of its last failure
  };
  const SourceSet& set_;
  std::vector<Standing> all_;             // by source
  std::unique_ptr<RetryPolicy> retries_;  // once one failed
};

}  // namespace hearth
