#include "origin/parallelism_climb.h"

#include <utility>

namespace hearth {
namespace {

// Windows between two things that are tried: 4 s of the shortest ones. Twice as many after each one
// in a row that was taken back, up to 32 s: trying fewer costs what they do not bring.
constexpr int kHold = 16;
constexpr int kMaxDoublings = 3;
// A larger part of what is added must come as goodput; and what is measured varies by so much.
constexpr double kGain = 0.25;
constexpr double kMinGain = 0.05;
// A step down must leave so much of the goodput, when it is tried and on average afterwards.
constexpr double kKept = 0.98;
constexpr double kKeptOnAverage = 0.95;
constexpr int kWindowsOfAverage = 8;
constexpr auto kMoment = std::chrono::milliseconds(20);
constexpr auto kBetweenIncreases = std::chrono::seconds(1);

}  // namespace

ParallelismClimb::ParallelismClimb(std::size_t limit)
    : limit_(std::max<std::size_t>(1, limit)),
      floor_(std::min(kFloor, limit_)),
      parallelism_(limit_),
      hold_(kHold),
      before_(parallelism_) {}

void ParallelismClimb::saturated(bool yes, Clock::time_point now) {
  if (!yes) {
    if (!freeSince_) freeSince_ = now;
    return;
  }
  if (free(now)) restartWindow(now);
  freeSince_.reset();
}

bool ParallelismClimb::free(Clock::time_point now) const {
  return freeSince_ && now - kMoment > *freeSince_;
}

void ParallelismClimb::came(std::uint64_t bytes, Clock::time_point now) {
  recover(now);
  if (free(now)) return;
  windowBytes_ += bytes;
  const Clock::duration spent = now - windowBegin_;
  if (spent < window_) return;
  const double goodput =
      static_cast<double>(windowBytes_) / std::chrono::duration<double>(spent).count();
  const std::size_t measured = parallelism_;
  if (!settling_) judge(goodput);
  restartWindow(now);
  settling_ = parallelism_ != measured;
}

void ParallelismClimb::restartWindow(Clock::time_point now) {
  windowBegin_ = now;
  windowBytes_ = 0;
  settling_ = true;
}

void ParallelismClimb::throttled(Clock::time_point began, Clock::time_point now) {
  if (decreasedAt_ && began < *decreasedAt_) return;
  // The step under trial may be the cause.
  const std::size_t from = phase_ == Phase::kUp ? before_ : parallelism_;
  recoverTo_ = std::max(recoverTo_, from);
  peak_ = 0;
  failed_ = 0;
  settle(std::max(floor_, from / 2), kHold);
  decreasedAt_ = increasedAt_ = now;
  restartWindow(now);
}

void ParallelismClimb::recover(Clock::time_point now) {
  if (recoverTo_ == 0 || now - *increasedAt_ < kBetweenIncreases) return;
  increasedAt_ = now;
  settle(std::min(recoverTo_, parallelism_ + 1), kHold);
  if (parallelism_ == recoverTo_) recoverTo_ = 0;
  restartWindow(now);
}

void ParallelismClimb::judge(double goodput) {
  const auto now = static_cast<double>(parallelism_);
  const auto then = static_cast<double>(before_);
  switch (phase_) {
    case Phase::kSteady:
      judgeSteady(goodput);
      return;
    case Phase::kUp:
      if (goodput >= goodput_ * (1 + std::max(kMinGain, kGain * (now - then) / then))) {
        peak_ = 0;
        failed_ = 0;
        settle(parallelism_, 1);
        judgeSteady(goodput);
      } else {
        takeBack();
      }
      return;
    case Phase::kDown:
      if (goodput >= (peak_ != 0 ? peakGoodput_ : goodput_) * kKept) {
        if (peak_ == 0) {
          peak_ = before_;
          peakGoodput_ = goodput_;
        }
        failed_ = 0;
        settle(parallelism_, kHold);
      } else {
        takeBack();
      }
      return;
  }
}

void ParallelismClimb::judgeSteady(double goodput) {
  ++windows_;
  goodput_ += (goodput - goodput_) / std::min(windows_, kWindowsOfAverage);
  if (peak_ != 0 && windows_ >= kWindowsOfAverage && goodput_ < peakGoodput_ * kKeptOnAverage) {
    // The host may be slower than it was, or the steps cost something: it is no worse there.
    downNext_ = false;
    settle(std::exchange(peak_, 0), kHold << kMaxDoublings);
    return;
  }
  if (windows_ >= hold_ && recoverTo_ == 0) probe();
}

void ParallelismClimb::probe() {
  if (floor_ == limit_) return;
  if (parallelism_ == limit_) downNext_ = true;
  if (parallelism_ == floor_) downNext_ = false;
  before_ = parallelism_;
  phase_ = downNext_ ? Phase::kDown : Phase::kUp;
  const std::size_t step = std::max<std::size_t>(1, parallelism_ / 4);
  parallelism_ =
      downNext_ ? std::max(floor_, parallelism_ - step) : std::min(limit_, parallelism_ + step);
}

void ParallelismClimb::takeBack() {
  downNext_ = !downNext_;
  failed_ = std::min(failed_ + 1, kMaxDoublings);
  settle(before_, kHold << failed_);
}

void ParallelismClimb::settle(std::size_t parallelism, int hold) {
  phase_ = Phase::kSteady;
  parallelism_ = parallelism;
  windows_ = 0;
  hold_ = hold;
}

}  // namespace hearth
