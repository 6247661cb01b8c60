#include "volume_mount/volume_answers.h"

#include <cerrno>

namespace hearth {

bool VolumeAnswers::accepts() const {
  const std::lock_guard lock(mutex_);
  return closed_ || pending_.size() < kMaxPending;
}

bool VolumeAnswers::begin(std::uint64_t unique) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  pending_.insert(unique);
  return true;
}

bool VolumeAnswers::reply(std::uint64_t unique, std::span<const std::byte> body) {
  const std::lock_guard lock(mutex_);
  if (pending_.erase(unique) == 0) return false;
  changed_.notify_all();
  return device_.reply(unique, body);
}

bool VolumeAnswers::replyErrno(std::uint64_t unique, int error) {
  const std::lock_guard lock(mutex_);
  if (pending_.erase(unique) == 0) return false;
  changed_.notify_all();
  return device_.replyError(unique, error);
}

void VolumeAnswers::close(std::chrono::milliseconds limit, bool leave) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return pending_.empty(); });
  closed_ = true;
  left_ = leave;
  for (const std::uint64_t unique : pending_) {
    if (!leave) device_.replyError(unique, EIO);
  }
  pending_.clear();
  changed_.notify_all();
}

bool VolumeAnswers::left() const {
  const std::lock_guard lock(mutex_);
  return left_;
}

}  // namespace hearth
