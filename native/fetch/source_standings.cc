#include "fetch/source_standings.h"

#include <algorithm>
#include <random>

namespace hearth {
namespace {

// The client's attempts in a row and pauses for a single source.
const OriginOptions kUsual;

}  // namespace

SourceMask SourceStandings::remaining() const {
  SourceMask mask = 0;
  for (std::size_t source = 0; source < all_.size(); ++source) {
    const Standing& standing = all_[source];
    if (!standing.out && standing.failures < kUsual.attempts) mask |= bitOfSource(source);
  }
  return mask;
}

// A server's Retry-After holds for every request of the dataset, the pause between attempts for
// this one.
Clock::time_point SourceStandings::notBefore(std::size_t source) const {
  return std::max(all_[source].notBefore, set_.choice.notBefore(source));
}

Clock::time_point SourceStandings::soonest(SourceMask mask) const {
  Clock::time_point next = Clock::time_point::max();
  for (std::size_t source = 0; source < all_.size(); ++source) {
    if ((mask & bitOfSource(source)) != 0) next = std::min(next, notBefore(source));
  }
  return next;
}

SourceMask SourceStandings::due(SourceMask mask, Clock::time_point now) const {
  for (std::size_t source = 0; source < all_.size(); ++source) {
    if (notBefore(source) > now) mask &= ~bitOfSource(source);
  }
  return mask;
}

SourceMask SourceStandings::notLeftAlone(SourceMask mask, Clock::time_point now) const {
  for (std::size_t source = 0; source < all_.size(); ++source) {
    if (set_.choice.notBefore(source) > now) mask &= ~bitOfSource(source);
  }
  return mask;
}

void SourceStandings::noteTry(std::size_t source, const Error& error,
                              std::optional<Clock::duration> retryAfter) {
  if (!retries_) {
    retries_ = std::make_unique<RetryPolicy>(kUsual.firstBackOff, kUsual.longestBackOff,
                                             std::random_device()());
  }
  noteFailure(source, error);
  Standing& standing = all_[source];
  standing.notBefore = Clock::now() + retries_->delay(standing.failures, retryAfter);
}

void SourceStandings::noteFailure(std::size_t source, Error error) {
  all_[source].cause = std::move(error);
  ++all_[source].failures;
}

void SourceStandings::leaveOut(std::size_t source, Error cause) {
  all_[source].cause = std::move(cause);
  all_[source].out = true;
}

void SourceStandings::leaveOut(SourceMask sources, const Error& why) {
  for (std::size_t source = 0; source < all_.size(); ++source) {
    if ((sources & bitOfSource(source)) == 0) continue;
    all_[source].out = true;
    if (!all_[source].cause) all_[source].cause = why;
  }
}

void SourceStandings::cameOn() {
  for (Standing& standing : all_) standing.failures = 0;
}

std::string SourceStandings::nameOf(std::size_t source) const {
  return source == 0 ? "the first source" : "the mirror " + set_.sources[source].name;
}

Error SourceStandings::failure() const {
  Error error{ErrorCode::kUnavailable, "no source gives it"};
  const std::optional<Error>& first = all_[0].cause;
  if (first && first->code != ErrorCode::kCorrupt) error.code = first->code;
  // Sources that answer, though with wrong bytes, are not away: nobody waits for them.
  const auto any = [this](auto is) {
    return std::ranges::any_of(
        all_, [&](const Standing& one) { return one.cause && is(one.cause->code); });
  };
  const auto isWrong = [](ErrorCode code) { return code == ErrorCode::kCorrupt; };
  const auto isAway = [](ErrorCode code) {
    return code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded ||
           code == ErrorCode::kTryElsewhere;
  };
  if (error.code == ErrorCode::kUnavailable && any(isWrong) && !any(isAway))
    error.code = ErrorCode::kCorrupt;
  const char* between = ": ";
  for (std::size_t source = 0; source < all_.size(); ++source) {
    if (!all_[source].cause) continue;
    error.message += between + nameOf(source) + ": " + all_[source].cause->message;
    between = "; ";
  }
  return error;
}

}  // namespace hearth
