#include "fuse/fuse_reads.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "fuse/fuse_errno.h"

namespace hearth {
namespace {

// Longer than the kernel takes to ask again.
constexpr auto kRefusedFor = std::chrono::milliseconds(500);

}  // namespace

bool FuseReads::begin(std::uint64_t unique, std::uint64_t node, Clock::time_point now) {
  limited_ = true;
  {
    const std::lock_guard lock(mutex_);
    const auto late = lateNodes_.find(node);
    if (late == lateNodes_.end() || now >= late->second) {
      begun_[unique] = {node, now};
      return true;
    }
  }
  ++overdue_;
  device_.replyError(unique, ETIMEDOUT);
  return false;
}

bool FuseReads::take(std::uint64_t unique) {
  if (!limited_) return true;
  const std::lock_guard lock(mutex_);
  return begun_.erase(unique) != 0;
}

void FuseReads::endOverdue(Clock::time_point limit, Clock::time_point now) {
  std::vector<std::uint64_t> ended;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(lateNodes_, [now](const auto& each) { return now >= each.second; });
    std::erase_if(begun_, [&](const auto& each) {
      if (each.second.at >= limit) return false;
      ended.push_back(each.first);
      lateNodes_[each.second.node] = now + kRefusedFor;
      return true;
    });
  }
  for (const std::uint64_t unique : ended) {
    const bool parked = parked_.interrupt(unique);
    ++counters_.failedReads;
    // Not delivered: the holder has answered it.
    if (device_.replyError(unique, ETIMEDOUT)) ++overdue_;
    if (parked) parked_.answered();
  }
}

void FuseReads::read(const Request& request, const std::shared_ptr<FuseReading>& reading) {
  if (request.offset >= reading->size || request.length == 0) {
    if (take(request.unique)) device_.reply(request.unique, {});
    return;
  }
  Request within = request;
  within.length = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(request.length, reading->size - request.offset));
  ReadAhead::Wanted wanted;
  {
    const std::lock_guard lock(reading->mutex);
    wanted = reading->readAhead.observe(within.offset, within.length, reading->size, readAhead_);
  }
  const auto resident = reading->file->tryRead(within.offset, within.length);
  if (resident) {
    answer(within, resident);
  } else {
    readWhenThere(within, reading->file);
  }
  // After the answer: no reader waits for a hint.
  if (wanted.fetch) reading->file->willNeed(wanted.fetch->offset, wanted.fetch->length);
  if (wanted.load) reading->file->loadAhead(wanted.load->offset, wanted.load->length);
}

void FuseReads::readWhenThere(const Request& request, std::shared_ptr<MountSource::OpenFile> file) {
  const auto answered = [this, request](Result<MappedBytes> bytes) {
    const auto owner = request.owner.lock();
    if (owner == nullptr) return;
    if (parked_.take(request.unique)) {
      answer(request, bytes);
      parked_.answered();
    }
    parked_.askQueued();
  };
  const auto wanted = [this, owner = request.owner, unique = request.unique] {
    const auto kept = owner.lock();
    return kept != nullptr && parked_.waits(unique);
  };
  const ParkedReads::Ask ask = [file = std::move(file), offset = request.offset,
                                length = request.length, answered,
                                wanted] { file->read(offset, length, answered, wanted); };
  switch (parked_.park(request.unique, ask)) {
    case ParkedReads::Parked::kInterrupted:
      if (!take(request.unique)) return;
      ++counters_.interruptedReads;
      device_.replyError(request.unique, EINTR);
      return;
    case ParkedReads::Parked::kClosed:
      if (take(request.unique) && !leavesLate_) device_.replyError(request.unique, EIO);
      return;
    case ParkedReads::Parked::kTooMany:
      fail(request, Error{ErrorCode::kUnavailable,
                          "too many reads of the mount wait for their origin already; read again "
                          "when it answers"});
      return;
    case ParkedReads::Parked::kQueued:
      ++counters_.parkedReads;
      return;
    case ParkedReads::Parked::kAsk:
      ++counters_.parkedReads;
      ask();
  }
}

void FuseReads::answer(const Request& request, const Result<MappedBytes>& bytes) {
  if (!bytes) return fail(request, bytes.error());
  if (!take(request.unique)) return;
  // Counted before the answer, so that whoever got it finds it counted.
  ++counters_.reads;
  counters_.bytes += bytes->size();
  device_.reply(request.unique, bytes->bytes, bytes->rest);
}

void FuseReads::reply(const Request& request, std::span<const std::byte> bytes) {
  if (!take(request.unique)) return;
  ++counters_.reads;
  counters_.bytes += bytes.size();
  device_.reply(request.unique, bytes);
}

void FuseReads::fail(const Request& request, const Error& reason) {
  if (!take(request.unique)) return;
  ++counters_.failedReads;
  request.failed(reason);
  device_.replyError(request.unique, readErrno(reason.code));
}

bool FuseReads::interrupt(std::uint64_t unique) {
  if (!parked_.interrupt(unique)) return false;
  if (take(unique)) {
    ++counters_.interruptedReads;
    device_.replyError(unique, EINTR);
  }
  parked_.answered();
  return true;
}

void FuseReads::close(std::chrono::milliseconds limit, bool resent) {
  for (const std::uint64_t unique : parked_.close(limit)) {
    if (take(unique) && !resent) device_.replyError(unique, EIO);
  }
}

}  // namespace hearth
