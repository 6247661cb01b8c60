#include "gpu/lane.h"

#include "base/clock.h"

namespace hearth {
namespace {

constexpr const char* kIdle = "nothing";

std::uint64_t alignedDown(std::uint64_t value) { return value - value % kDirectAlignment; }
std::uint64_t alignedUp(std::uint64_t value) { return alignedDown(value + kDirectAlignment - 1); }

}  // namespace

Result<std::unique_ptr<Lane>> Lane::make(std::shared_ptr<LaneTerms> terms) {
  std::unique_ptr<Lane> lane(new Lane(std::move(terms)));
  Device& device = *lane->terms_->device;
  if (device.isHost()) return lane;
  const std::size_t bytes = lane->terms_->options.sliceBytes;
  Result<std::unique_ptr<PinnedMemory>> pinned = device.pin(2 * bytes);
  if (!pinned.ok()) return pinned.error();
  Result<std::unique_ptr<CopyStream>> stream = device.stream();
  if (!stream.ok()) return stream.error();
  lane->pinned_ = std::move(*pinned);
  lane->stream_ = std::move(*stream);
  lane->slots_[0].buffer = lane->pinned_->bytes().first(bytes);
  lane->slots_[1].buffer = lane->pinned_->bytes().subspan(bytes, bytes);
  return lane;
}

void Lane::run(LanePort& port) {
  for (;;) {
    const std::optional<LaneWork> work = port.take(!isPending());
    if (work.has_value()) {
      move(port, *work);
    } else if (isPending()) {
      settle(port, turn_);
      settle(port, turn_ ^ 1U);
    } else {
      return;
    }
    enter(kIdle);
  }
}

void Lane::move(LanePort& port, const LaneWork& work) {
  if (terms_->device->isHost()) {
    port.explain(work, "the memory is the host's", false);
    port.finish(work, TransferPath::kHost, moveOnHost(work));
    return;
  }
  const std::string why = obstacle(work);
  if (!why.empty() && terms_->options.choice == DeviceFiles::Choice::kDirect) {
    port.finish(work, TransferPath::kDirect, Error{ErrorCode::kInvalidArgument, why});
    return;
  }
  if (!why.empty()) {
    port.explain(work, why, false);
  } else if (const std::string better = preference(work); !better.empty()) {
    port.explain(work, better, true);
  } else if (moveDirect(port, work)) {
    return;
  }
  const auto start = Clock::now();
  bounce(port, work);
  if (terms_->direct) {
    terms_->choice.record(work.transfer->use, TransferPath::kBounced, work.slice.size,
                          Clock::now() - start);
  }
}

Status Lane::moveOnHost(const LaneWork& work) {
  const TransferSlice& slice = work.slice;
  const std::span<std::byte> memory =
      slice.piece->memory.region->bytes().subspan(slice.inRegion, slice.size);
  if (work.transfer->use == FileUse::kWrite) {
    enter("writing a file");
    return slice.piece->file->write(memory, slice.offset, terms_->options.throughPageCache);
  }
  enter("reading a file");
  return slice.piece->file->read(memory, slice.offset, memory.size(),
                                 terms_->options.throughPageCache);
}

std::string Lane::obstacle(const LaneWork& work) const {
  const TransferSlice& slice = work.slice;
  if (!terms_->direct) return terms_->whyNoDirect;
  const bool isAligned = (slice.offset | slice.address()) % kDirectAlignment == 0 &&
                         (slice.size % kDirectAlignment == 0 ||
                          (slice.endsFile && work.transfer->use == FileUse::kRead));
  if (!isAligned) {
    return "bytes " + std::to_string(slice.offset) + " to " +
           std::to_string(slice.offset + slice.size) + " of " + slice.piece->file->path() +
           " or their memory do not lie at multiples of 4096";
  }
  if (terms_->options.choice != DeviceFiles::Choice::kDirect &&
      terms_->directFailures >= LaneTerms::kMaxDirectFailures) {
    return "the direct path failed " + std::to_string(LaneTerms::kMaxDirectFailures) +
           " times in a row";
  }
  return "";
}

std::string Lane::preference(const LaneWork& work) {
  const TransferSlice& slice = work.slice;
  if (terms_->options.choice == DeviceFiles::Choice::kDirect) return "";
  if (terms_->choice.next(work.transfer->use, slice.size) == TransferPath::kDirect) return "";
  const std::string measured = terms_->choice.reason(work.transfer->use, slice.size);
  return measured.empty() ? "both paths are still being measured" : measured;
}

bool Lane::moveDirect(LanePort& port, const LaneWork& work) {
  const auto start = Clock::now();
  const Status moved = callDirect(work);
  const bool mustBeDirect = terms_->options.choice == DeviceFiles::Choice::kDirect;
  if (moved.ok()) {
    terms_->directFailures = 0;
    terms_->choice.record(work.transfer->use, TransferPath::kDirect, work.slice.size,
                          Clock::now() - start);
  } else if (!mustBeDirect) {
    ++terms_->directFailures;
    port.explain(work, moved.error().message, false);
    return false;
  }
  port.finish(work, TransferPath::kDirect, moved);
  return true;
}

Status Lane::callDirect(const LaneWork& work) {
  const TransferSlice& slice = work.slice;
  enter("registering a file");
  Result<std::shared_ptr<DirectFile>> file = slice.piece->file->directFile(*terms_->direct);
  if (!file.ok()) return file.error();
  const bool isRead = work.transfer->use == FileUse::kRead;
  enter(isRead ? "a direct read" : "a direct write");
  // A direct read of the file's last bytes takes whole pages; the memory need not have them.
  for (std::size_t done = 0; done < slice.size;) {
    const std::size_t left = slice.size - done;
    const Result<std::size_t> moved =
        isRead ? (*file)->read(slice.offset + done, slice.piece->memory.region,
                               slice.inRegion + done, left)
               : (*file)->write(slice.offset + done, slice.piece->memory.region,
                                slice.inRegion + done, left);
    if (!moved.ok()) return moved.error();
    if (*moved == 0 || *moved > left || (*moved < left && *moved % kDirectAlignment != 0)) {
      return Error{ErrorCode::kIoError, "a direct transfer of " + std::to_string(left) +
                                            " bytes of " + slice.piece->file->path() + " moved " +
                                            std::to_string(*moved)};
    }
    done += *moved;
  }
  return {};
}

void Lane::bounce(LanePort& port, const LaneWork& work) {
  const unsigned slot = turn_;
  turn_ ^= 1U;
  settle(port, slot);
  const Status begun = begin(slot, work);
  if (begun.ok()) {
    slots_[slot].pending = work;
  } else {
    port.finish(work, TransferPath::kBounced, begun);
  }
}

Status Lane::begin(unsigned slot, const LaneWork& work) {
  const TransferSlice& slice = work.slice;
  const std::span<std::byte> buffer = slots_[slot].buffer;
  Status status;
  if (work.transfer->use == FileUse::kRead) {
    enter("reading a file");
    const std::uint64_t start = alignedDown(slice.offset);
    const std::uint64_t end = alignedUp(slice.offset + slice.size);
    const std::size_t before = slice.offset - start;
    status = slice.piece->file->read(buffer.first(end - start), start, before + slice.size,
                                     terms_->options.throughPageCache);
    if (!status.ok()) return status;
    enter("beginning a copy to the GPU");
    status = stream_->copyIn(slice.address(), buffer.subspan(before, slice.size));
  } else {
    enter("beginning a copy from the GPU");
    status = stream_->copyOut(buffer.first(slice.size), slice.address());
  }
  if (!status.ok()) return status;
  return stream_->mark(slot);
}

void Lane::settle(LanePort& port, unsigned slot) {
  if (!slots_[slot].pending) return;
  const LaneWork work = std::move(*slots_[slot].pending);
  slots_[slot].pending.reset();
  enter("a copy of the GPU");
  Status status = stream_->wait(slot);
  if (status.ok() && work.transfer->use == FileUse::kWrite) {
    enter("writing a file");
    status = work.slice.piece->file->write(slots_[slot].buffer.first(work.slice.size),
                                           work.slice.offset, terms_->options.throughPageCache);
  }
  port.finish(work, TransferPath::kBounced, status);
}

}  // namespace hearth
