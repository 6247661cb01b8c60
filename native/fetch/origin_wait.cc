#include "fetch/origin_wait.h"

#include <algorithm>
#include <random>

namespace hearth {
namespace {

// Between attempts, each of which asks the origin several times itself.
constexpr auto kFirstWait = std::chrono::milliseconds(250);
constexpr auto kLongestWait = std::chrono::seconds(3);
// How often a read looks whether it is still wanted.
constexpr auto kLookSoon = std::chrono::milliseconds(50);

// The origin did not answer, or said that it cannot answer now; or no agent gave the bytes.
bool isAway(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded ||
         code == ErrorCode::kTryElsewhere;
}

}  // namespace

OriginWait::~OriginWait() {
  if (!since_ || !dataset_->absence.end()) return;
  log(ports_.events, EngineEvent::Level::kInfo, "no read waits for the origin any more",
      {{"dataset", dataset_->id}});
}

void OriginWait::begin(const Error& failure) {
  since_ = Clock::now();
  pauses_ = std::make_unique<RetryPolicy>(kFirstWait, kLongestWait, std::random_device()());
  if (!dataset_->absence.begin(failure)) return;
  log(ports_.events, EngineEvent::Level::kWarn, "reads wait for the origin, which is away",
      {{"dataset", dataset_->id}, {"error", failure.message}});
}

Task<bool> OriginWait::again(Error failure, Clock::duration bound, StillWanted wanted) {
  if (!isAway(failure.code) || bound <= Clock::duration::zero()) co_return false;
  if (!since_) begin(failure);
  const auto isOver = [this, bound](Clock::time_point now) { return now - *since_ >= bound; };
  const Clock::time_point next = Clock::now() + pauses_->delay(++failures_, std::nullopt);
  for (Clock::time_point now = Clock::now(); now < next; now = Clock::now()) {
    if (ports_.gate.closed() || isOver(now) || (wanted && !wanted())) co_return false;
    co_await ports_.reactor.sleep(std::min<Clock::duration>(next - now, kLookSoon));
  }
  co_return !ports_.gate.closed() && !isOver(Clock::now());
}

}  // namespace hearth
