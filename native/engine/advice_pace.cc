#include "engine/advice_pace.h"

#include <algorithm>
#include <utility>

namespace hearth {

void AdvicePace::noteRead(const ClientIdentity& client, std::uint64_t bytes,
                          Clock::time_point now) {
  if (!counting_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  if (now - asked_ > kIdle) {
    counting_.store(false, std::memory_order_relaxed);
    return;
  }
  count(client.pod, bytes, now);
}

void AdvicePace::count(const std::string& pod, std::uint64_t bytes, Clock::time_point now) {
  Reader& reader = readers_[pod];
  reader.bytes += bytes;
  reader.last = now;
}

void AdvicePace::begin(Clock::time_point now) {
  counting_.store(true, std::memory_order_relaxed);
  readers_.clear();
  windowBegan_ = now;
  lastWindow_ = {};
  mountsBefore_ = readOfMounts_();
}

void AdvicePace::endWindow(Clock::time_point now) {
  const std::uint64_t mounts = readOfMounts_();
  if (mounts != mountsBefore_) count("", mounts - mountsBefore_, now);
  mountsBefore_ = mounts;
  lastWindow_ = now - windowBegan_;
  windowBegan_ = now;
  std::erase_if(readers_, [now](const auto& entry) { return now - entry.second.last > kIdle; });
  for (auto& [pod, reader] : readers_) reader.bytesBefore = std::exchange(reader.bytes, 0);
  // An adviser that owes bytes is kept, or it could begin afresh.
  std::erase_if(advisers_, [now](const auto& entry) {
    const Adviser& adviser = entry.second;
    return now - adviser.asked > kIdle && adviser.bucket.wait(now) == Clock::duration::zero();
  });
}

std::uint64_t AdvicePace::rateBeside(const std::string& pod) const {
  if (lastWindow_ == Clock::duration::zero()) return kMinBytesPerSecond;
  std::uint64_t bytes = 0;
  bool others = false;
  for (const auto& [name, reader] : readers_) {
    if (name == pod) continue;
    others = true;
    bytes += reader.bytesBefore;
  }
  if (!others) return 0;
  const double seconds = std::chrono::duration<double>(lastWindow_).count();
  const double rate = static_cast<double>(bytes) / seconds / kReadPerAdvised;
  return std::max(kMinBytesPerSecond, static_cast<std::uint64_t>(rate));
}

Clock::duration AdvicePace::tryTake(const ClientIdentity& client, std::uint64_t bytes,
                                    Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (!counting_.load(std::memory_order_relaxed) || now - asked_ > kIdle) begin(now);
  asked_ = now;
  if (now - windowBegan_ >= kWindow) endWindow(now);
  Adviser& adviser = advisers_[client.pod];
  adviser.asked = now;
  const auto asking = static_cast<std::uint64_t>(std::ranges::count_if(
      advisers_, [now](const auto& entry) { return now - entry.second.asked <= kIdle; }));
  adviser.bucket.setRate(rateBeside(client.pod) / asking, now);
  const Clock::duration wait = adviser.bucket.wait(now);
  if (wait == Clock::duration::zero()) adviser.bucket.spend(bytes, now);
  return wait;
}

}  // namespace hearth
