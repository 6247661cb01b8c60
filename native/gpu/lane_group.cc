#include "gpu/lane_group.h"

#include <algorithm>
#include <map>

#include "base/clock.h"

namespace hearth {
namespace {

// How often a caller looks whether anything still moves.
constexpr std::chrono::milliseconds kWatch{100};

}  // namespace

Result<std::shared_ptr<LaneGroup>> LaneGroup::start(std::shared_ptr<LaneTerms> terms,
                                                    unsigned lanes) {
  std::shared_ptr<LaneGroup> group(new LaneGroup(terms));
  for (unsigned index = 0; index < lanes; ++index) {
    Result<std::unique_ptr<Lane>> lane = Lane::make(terms);
    if (!lane.ok() && index == 0) return lane.error();
    if (!lane.ok()) break;
    group->lanes_.push_back(std::move(*lane));
  }
  for (std::shared_ptr<Lane>& lane : group->lanes_) {
    group->threads_.emplace_back([group, lane = lane]() mutable { lane->run(*group); });
  }
  return group;
}

void LaneGroup::stop() {
  bool isBroken = false;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    isBroken = broken_.has_value();
  }
  hasWork_.notify_all();
  for (std::thread& thread : threads_) {
    if (isBroken) {
      thread.detach();
    } else {
      thread.join();
    }
  }
  threads_.clear();
}

Result<Transferred> LaneGroup::run(const std::shared_ptr<Transfer>& transfer) {
  std::unique_lock lock(mutex_);
  if (broken_) return *broken_;
  if (transfer->isDone()) return transfer->moved;
  active_.push_back(transfer);
  hasWork_.notify_all();
  std::uint64_t seen = finished_;
  auto since = Clock::now();
  while (!transfer->isDone()) {
    hasProgress_.wait_for(lock, std::min(terms_->options.stallTimeout, kWatch));
    if (broken_) return *broken_;
    const auto now = Clock::now();
    if (finished_ != seen) {
      seen = finished_;
      since = now;
    } else if (now - since >= terms_->options.stallTimeout && !transfer->isDone()) {
      broken_ = hang();
      active_.clear();
      hasProgress_.notify_all();
      return *broken_;
    }
  }
  if (transfer->failed) return transfer->error;
  return transfer->moved;
}

Error LaneGroup::hang() const {
  std::map<std::string, int> stages;
  for (const std::shared_ptr<Lane>& lane : lanes_) ++stages[lane->stage()];
  std::string where;
  for (const auto& [stage, count] : stages) {
    where += (where.empty() ? "" : ", ") + std::to_string(count) + " in " + stage;
  }
  return {ErrorCode::kDeadlineExceeded,
          "nothing moved between files and " + std::string(terms_->device->name()) + " within " +
              std::to_string(terms_->options.stallTimeout.count()) + " ms (lanes: " + where +
              "); look at `dmesg`, and start the process again"};
}

std::optional<LaneWork> LaneGroup::next() {
  while (!active_.empty()) {
    const std::shared_ptr<Transfer> transfer = std::move(active_.front());
    active_.pop_front();
    std::optional<TransferSlice> slice = transfer->take(terms_->options.sliceBytes);
    if (!slice.has_value()) continue;
    active_.push_back(transfer);
    return LaneWork{transfer, *slice};
  }
  return std::nullopt;
}

std::optional<LaneWork> LaneGroup::take(bool wait) {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<LaneWork> work = next();
    if (work.has_value() || !wait || stopping_) return work;
    hasWork_.wait(lock);
  }
}

void LaneGroup::finish(const LaneWork& work, TransferPath path, const Status& status) {
  const std::lock_guard lock(mutex_);
  work.transfer->finish(work.slice, path, status);
  ++finished_;
  // A caller looks at the time by itself; it has to be woken at the end alone.
  if (work.transfer->isDone()) hasProgress_.notify_all();
}

void LaneGroup::explain(const LaneWork& work, std::string why, bool byChoice) {
  const std::lock_guard lock(mutex_);
  work.transfer->explain(std::move(why), byChoice);
}

}  // namespace hearth
