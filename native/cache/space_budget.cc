#include "cache/space_budget.h"

#include <algorithm>

namespace hearth {

std::uint64_t SpaceBudget::freeNow() const {
  const std::uint64_t taken = underWay_ + (writtenTotal_ - writtenAtMeasure_);
  return measuredFree_ - std::min(measuredFree_, taken);
}

SpaceBudget::Answer SpaceBudget::reserve(std::uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  if (bytes > budget_ || used_ > budget_ - bytes) return Answer::kOverBudget;
  if (measuredAt_ == Clock::time_point::min() || Clock::now() - measuredAt_ > kMeasureEvery ||
      writtenTotal_ - writtenAtMeasure_ > kMeasureBytes) {
    return Answer::kMeasureFirst;
  }
  const std::uint64_t free = freeNow();
  if (free < bytes || free - bytes < floor_) return Answer::kBelowFloor;
  used_ += bytes;
  underWay_ += bytes;
  return Answer::kReserved;
}

void SpaceBudget::written(std::uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  underWay_ -= bytes;
  writtenTotal_ += bytes;
}

void SpaceBudget::cancel(std::uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  underWay_ -= bytes;
  used_ -= bytes;
}

void SpaceBudget::adopt(std::uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  used_ += bytes;
}

void SpaceBudget::release(std::uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  used_ -= bytes;
  measuredFree_ += bytes;
}

std::uint64_t SpaceBudget::measuring() const {
  const std::lock_guard guard(mutex_);
  return writtenTotal_;
}

void SpaceBudget::measured(std::uint64_t token, std::uint64_t freeBytes) {
  const std::lock_guard guard(mutex_);
  measuredFree_ = freeBytes;
  writtenAtMeasure_ = token;
  measuredAt_ = Clock::now();
}

void SpaceBudget::remeasure() {
  const std::lock_guard guard(mutex_);
  measuredAt_ = Clock::time_point::min();
}

std::uint64_t SpaceBudget::deficit(std::uint64_t bytes) const {
  const std::lock_guard guard(mutex_);
  const std::uint64_t overBudget = used_ + bytes > budget_ ? used_ + bytes - budget_ : 0;
  const std::uint64_t free = freeNow();
  const std::uint64_t belowFloor =
      measuredAt_ != Clock::time_point::min() && free < floor_ + bytes ? floor_ + bytes - free : 0;
  return std::max(overBudget, belowFloor);
}

void SpaceBudget::promise(std::uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  promised_ += bytes;
}

void SpaceBudget::fulfil(std::uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  promised_ -= bytes;
}

std::int64_t SpaceBudget::expectedFree() const {
  const std::lock_guard guard(mutex_);
  return static_cast<std::int64_t>(budget_) - static_cast<std::int64_t>(used_) -
         static_cast<std::int64_t>(promised_);
}

std::uint64_t SpaceBudget::usedBytes() const {
  const std::lock_guard guard(mutex_);
  return used_;
}

std::uint64_t SpaceBudget::freeBytes() const {
  const std::lock_guard guard(mutex_);
  return freeNow();
}

}  // namespace hearth
