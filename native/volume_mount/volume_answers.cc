#include "volume_mount/volume_answers.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "fuse/fuse_abi.h"

namespace hearth {
namespace {

// The kernel holds a folder's lock meanwhile; for attributes, while it looks at permissions.
constexpr std::uint32_t kForNames[] = {
    FUSE_LOOKUP, FUSE_GETATTR, FUSE_CREATE, FUSE_MKNOD,   FUSE_MKDIR,   FUSE_SYMLINK,    FUSE_LINK,
    FUSE_UNLINK, FUSE_RMDIR,   FUSE_RENAME, FUSE_RENAME2, FUSE_READDIR, FUSE_READDIRPLUS};

bool isForName(std::uint32_t opcode) {
  return std::ranges::find(kForNames, opcode) != std::end(kForNames);
}

std::uint64_t numberOf(std::uint64_t unique) { return unique & ~kFuseUniqueResend; }

}  // namespace

bool VolumeAnswers::accepts() const {
  const std::lock_guard lock(mutex_);
  return closed_ || pending_.size() < kMaxPending;
}

VolumeAnswers::Begun VolumeAnswers::begin(std::uint64_t unique, std::uint32_t opcode,
                                          std::uint64_t node) {
  const std::lock_guard lock(mutex_);
  if (closed_) return Begun::kClosed;
  if (const auto known = pending_.find(numberOf(unique)); known != pending_.end()) {
    known->second.unique = unique;
    return Begun::kAgain;
  }
  Kind& kind = kindOf(opcode);
  const bool stalls = kind.state == Kind::State::kStalled && kind.calls != 0;
  // An agent that refused RELEASE would take the file for open.
  if (opcode != FUSE_RELEASE && (stalls || late_.size() >= kMaxOverdue)) {
    device_.replyError(unique, stalls ? ETIMEDOUT : EIO);
    ++overdue_;
    return Begun::kRefused;
  }
  ++kind.calls;
  pending_.emplace(numberOf(unique), Pending{unique, opcode, node, Clock::now()});
  return Begun::kYes;
}

void VolumeAnswers::stall(Kind& kind) {
  kind.state = Kind::State::kStalled;
  for (const std::uint32_t opcode : kForNames) {
    Kind& other = kindOf(opcode);
    if (other.state == Kind::State::kAnswered) other.state = Kind::State::kSuspect;
  }
}

void VolumeAnswers::endOverdue(
    Clock::time_point now, Clock::duration deadline,
    const std::function<Clock::time_point(std::uint64_t node)>& lastProgress) {
  const std::lock_guard lock(mutex_);
  const std::size_t before = pending_.size();
  std::erase_if(pending_, [&](const auto& each) {
    const Pending& request = each.second;
    const bool suspect = kindOf(request.opcode).state != Kind::State::kAnswered;
    const Clock::duration time =
        suspect && isForName(request.opcode) ? std::min(kMoment, deadline) : deadline;
    if (now - request.begun < time || lastProgress(request.node) >= now - deadline) return false;
    // Not delivered: the holder has answered it.
    if (device_.replyError(request.unique, ETIMEDOUT)) ++overdue_;
    late_.emplace(each.first, request.opcode);
    stall(kindOf(request.opcode));
    return true;
  });
  if (pending_.size() != before) changed_.notify_all();
}

std::uint64_t VolumeAnswers::take(std::uint64_t unique, int error) {
  std::uint32_t opcode = 0;
  std::uint64_t last = 0;
  if (const auto found = pending_.find(numberOf(unique)); found != pending_.end()) {
    opcode = found->second.opcode;
    last = found->second.unique;
    pending_.erase(found);
    changed_.notify_all();
  } else if (const auto late = late_.find(numberOf(unique)); late != late_.end()) {
    opcode = late->second;
    late_.erase(late);
  } else {
    return 0;
  }
  Kind& kind = kindOf(opcode);
  --kind.calls;
  if (error == ETIMEDOUT) {
    stall(kind);
  } else {
    kind.state = Kind::State::kAnswered;
  }
  return last;
}

bool VolumeAnswers::reply(std::uint64_t unique, std::span<const std::byte> body) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t last = take(unique, 0);
  return last != 0 && device_.reply(last, body);
}

bool VolumeAnswers::replyErrno(std::uint64_t unique, int error) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t last = take(unique, error);
  return last != 0 && device_.replyError(last, error);
}

void VolumeAnswers::close(std::chrono::milliseconds limit, bool leave) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, limit, [&] { return pending_.empty(); });
  closed_ = true;
  left_ = leave;
  for (const auto& [number, request] : pending_) {
    if (!leave) device_.replyError(request.unique, EIO);
  }
  pending_.clear();
  changed_.notify_all();
}

bool VolumeAnswers::left() const {
  const std::lock_guard lock(mutex_);
  return left_;
}

std::uint64_t VolumeAnswers::overdue() const {
  const std::lock_guard lock(mutex_);
  return overdue_;
}

}  // namespace hearth
