// How the sources of a dataset stand with one request: how often each has failed, when it may be
// asked again, and why it has not given what it was asked for. On the request's shard.
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

  // Those that may still give it: were not left out, and have not failed as often as a single
  // source is asked in a row.
  [[nodiscard]] SourceMask remaining() const;
  // Failures that may pass, since a piece came last.
  [[nodiscard]] int failures(std::size_t source) const { return all_[source].failures; }
  // When one may be asked (again): by what it asked for itself, and after a pause.
  [[nodiscard]] Clock::time_point notBefore(std::size_t source) const;
  // When the first of `mask` may.
  [[nodiscard]] Clock::time_point soonest(SourceMask mask) const;
  // Those of `mask` whose time has come.
  [[nodiscard]] SourceMask due(SourceMask mask, Clock::time_point now) const;
  // Those of `mask` that did not ask to be left alone.
  [[nodiscard]] SourceMask notLeftAlone(SourceMask mask, Clock::time_point now) const;

  // What its last failure was; it may be asked again at once.
  void noteCause(std::size_t source, Error cause) { all_[source].cause = std::move(cause); }
  // Another attempt may pass, after a pause.
  void noteTry(std::size_t source, const Error& error, std::optional<Clock::duration> retryAfter);
  // As noteTry, without a pause.
  void noteFailure(std::size_t source, Error error);
  // It is asked no more.
  void leaveOut(std::size_t source, Error cause);
  // None of these is. `why`: of those of which no cause is known.
  void leaveOut(SourceMask sources, const Error& why);
  // A piece came: what they failed with was before that.
  void cameOn();

  [[nodiscard]] std::string nameOf(std::size_t source) const;
  // Of a request that none has given. The code is the first source's, unless that gave wrong bytes.
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
