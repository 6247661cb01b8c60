#include "transport/rail_mover.h"

#include <algorithm>

namespace hearth {
namespace {

// Rails keep the time themselves; the mover waits no longer than this for a rail that does not.
constexpr Clock::duration kRailGrace = 4 * kReleaseGrace;

// Slices of one transfer over several fast rails: finer ones follow their bandwidths better.
constexpr std::size_t kSlicesPerFastRail = 2;

// Most fast rails that a slice tries.
constexpr std::size_t kFastTries = 3;

Clock::time_point graceAfter(Clock::time_point deadline) {
  return deadline > Clock::time_point::max() - kRailGrace ? deadline : deadline + kRailGrace;
}

}  // namespace

Task<Status> RailMover::move(RailTransfer transfer, std::vector<std::uint32_t>& checksums) {
  checksums.assign(blocksOf(transfer.memory.size()), 0);
  std::vector<Slice> slices;
  if (const auto fast = fastRails(transfer); !fast.empty()) {
    slices = cut(transfer, fast.size() == 1 ? 1 : kSlicesPerFastRail * fast.size(), checksums);
    postByBandwidth(slices, fast);
  } else {
    std::vector<std::shared_ptr<Rail>> rails = railsToUse(transfer);
    slices = cut(transfer, std::max<std::size_t>(rails.size(), 1), checksums);
    postAll(slices, std::move(rails));
  }
  if (slices.size() == 1) {
    co_await finish(slices.front());
    co_return slices.front().status;
  }
  Gate gate(reactor_);
  for (Slice& slice : slices) gate.spawn(finish(slice));
  co_await gate.close();
  for (const Slice& slice : slices) {
    if (!slice.status.ok()) co_return slice.status;
  }
  co_return Status();
}

std::vector<RailMover::Slice> RailMover::cut(const RailTransfer& transfer, std::size_t most,
                                             std::span<std::uint32_t> checksums) const {
  const std::size_t length = transfer.memory.size();
  const std::size_t count = std::clamp<std::size_t>(length / sliceBytes_, 1, most);
  const std::size_t size = (blocksOf(length) + count - 1) / count * kBlockBytes;
  std::vector<Slice> slices;
  for (std::size_t begin = 0; begin < length; begin += size) {
    const std::size_t end = std::min(begin + size, length);
    RailTransfer part = transfer;
    part.offset += begin;
    part.memory = transfer.memory.part(begin, end - begin);
    if (part.target) {
      part.target->address += begin;
      part.target->length = end - begin;
    }
    slices.push_back({.transfer = std::move(part),
                      .checksums = checksums.subspan(begin / kBlockBytes, blocksOf(end - begin)),
                      .rail = nullptr,
                      .request = nullptr,
                      .status = {},
                      .hedges = 0});
  }
  return slices;
}

std::vector<std::shared_ptr<Rail>> RailMover::fastRails(const RailTransfer& transfer) {
  std::vector<std::shared_ptr<Rail>> rails = rails_.fastRails();
  std::erase_if(rails, [&](const std::shared_ptr<Rail>& rail) {
    return rail->paused() || !rail->reaches(transfer);
  });
  return rails;
}

std::vector<std::shared_ptr<Rail>> RailMover::railsToUse(const RailTransfer& transfer) {
  std::vector<std::shared_ptr<Rail>> rails = rails_.usableRails(transfer.memory.size());
  if (rails.size() == 1) return rails;
  const auto paused = std::stable_partition(rails.begin(), rails.end(),
                                            [](const auto& rail) { return !rail->paused(); });
  if (paused != rails.begin()) rails.erase(paused, rails.end());
  return rails;
}

std::unique_ptr<RailWork> RailMover::request(Slice& slice, std::shared_ptr<Rail> rail) {
  RailRequest::Posted posted = RailRequest::create(reactor_, slice.transfer);
  slice.rail = std::move(rail);
  slice.request = std::move(posted.request);
  return std::move(posted.work);
}

void RailMover::postAll(std::vector<Slice>& slices, std::vector<std::shared_ptr<Rail>> rails) {
  std::stable_sort(rails.begin(), rails.end(),
                   [](const auto& a, const auto& b) { return a->load() < b->load(); });
  for (std::size_t first = 0; first < std::min(rails.size(), slices.size()); ++first) {
    std::vector<std::unique_ptr<RailWork>> batch;
    for (std::size_t at = first; at < slices.size(); at += rails.size())
      batch.push_back(request(slices[at], rails[first]));
    rails[first]->post(std::move(batch));
  }
}

void RailMover::postByBandwidth(std::vector<Slice>& slices,
                                const std::vector<std::shared_ptr<Rail>>& rails) {
  struct Place {
    double bytes;  // bytes that it has to move first
    double rate;
    std::vector<std::unique_ptr<RailWork>> batch = {};
  };
  std::vector<Place> places;
  double fastest = 0;
  for (const std::shared_ptr<Rail>& rail : rails) {
    places.push_back({static_cast<double>(rail->load()), rail->bytesPerSecond()});
    fastest = std::max(fastest, places.back().rate);
  }
  // Tries a rail that was not measured lately: it counts as the fastest.
  for (Place& place : places) {
    if (place.rate == 0) place.rate = fastest == 0 ? 1 : fastest;
  }
  for (Slice& slice : slices) {
    const auto size = static_cast<double>(slice.transfer.memory.size());
    const auto best = std::ranges::min_element(
        places, {}, [&](const Place& place) { return (place.bytes + size) / place.rate; });
    best->bytes += size;
    const std::shared_ptr<Rail>& rail = rails[static_cast<std::size_t>(best - places.begin())];
    slice.fast.push_back(rail);
    best->batch.push_back(request(slice, rail));
  }
  for (std::size_t at = 0; at < rails.size(); ++at)
    if (!places[at].batch.empty()) rails[at]->post(std::move(places[at].batch));
}

void RailMover::postTo(Slice& slice, std::shared_ptr<Rail> rail) {
  std::vector<std::unique_ptr<RailWork>> batch;
  batch.push_back(request(slice, std::move(rail)));
  slice.rail->post(std::move(batch));
}

std::shared_ptr<Rail> RailMover::nextFast(const Slice& slice) {
  // A slice that has left the fast rails has no time to lose on another one.
  if (!slice.isOnFast() || slice.fast.size() == kFastTries) return nullptr;
  std::shared_ptr<Rail> best;
  for (std::shared_ptr<Rail>& rail : fastRails(slice.transfer)) {
    if (std::ranges::find(slice.fast, rail) != slice.fast.end()) continue;
    if (!best || rail->load() < best->load()) best = std::move(rail);
  }
  return best;
}

Task<bool> RailMover::postOn(Slice& slice) {
  if (std::shared_ptr<Rail> fast = nextFast(slice)) {
    slice.fast.push_back(fast);
    postTo(slice, std::move(fast));
    co_return true;
  }
  const Result<std::shared_ptr<Rail>> picked =
      co_await rails_.rail(slice.rail, slice.transfer.timeouts);
  if (!picked.ok()) {
    if (slice.status.ok()) slice.status = picked.error();
    co_return false;
  }
  postTo(slice, *picked);
  co_return true;
}

Task<void> RailMover::finish(Slice& slice) {
  bool again = slice.request == nullptr;
  for (int tries = 0; tries < 2 + slice.hedges;) {
    if (again) {
      const bool posted = co_await postOn(slice);
      if (!posted) co_return;
    }
    const bool isFast = slice.isOnFast();
    again = co_await failedOnRail(slice);
    if (!again) co_return;
    tries += isFast ? 0 : 1;
  }
}

bool RailMover::hedges(Slice& slice) {
  if (slice.hedges == kHedgesPerSlice) return false;
  std::vector<std::shared_ptr<Rail>> others = rails_.usableRails(slice.transfer.memory.size());
  std::erase(others, slice.rail);
  if (others.empty() || !slice.rail->paused()) return false;
  if (std::ranges::all_of(others, [](const auto& rail) { return rail->paused(); })) return false;
  ++slice.hedges;
  rails_.countHedged();
  return true;
}

Task<bool> RailMover::failedOnRail(Slice& slice) {
  RailRequest& request = *slice.request;
  const Clock::time_point deadline = graceAfter(slice.transfer.timeouts.deadline);
  for (;;) {
    co_await request.awaitSettled(std::min(deadline, Clock::now() + lookEvery_));
    if (request.settled()) break;
    const bool late = Clock::now() >= deadline;
    if (!late && !hedges(slice)) continue;
    request.cancel();
    slice.status = Error{ErrorCode::kDeadlineExceeded, "the other side did not answer in time"};
    if (late) co_return false;
    co_return co_await request.awaitReleased(deadline);
  }
  const Outcome& outcome = request.outcome();
  slice.status = outcome.status;
  if (outcome.status.ok()) {
    std::copy(request.checksums().begin(), request.checksums().end(), slice.checksums.begin());
    co_return false;
  }
  slice.status = outcome.status.error().within(rails_.peer());
  if (!outcome.retryable()) co_return false;
  co_return co_await request.awaitReleased(deadline);
}

}  // namespace hearth
