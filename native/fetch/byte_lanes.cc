#include "fetch/byte_lanes.h"

#include <atomic>
#include <memory>
#include <utility>

#include "base/crc32c.h"
#include "fetch/file_fetch.h"
#include "origin/piece_sink.h"

namespace hearth {
namespace {

// Somewhat longer than transfers let pass between two looks (OriginOptions::floorTimeout).
constexpr auto kLongestAge = std::chrono::seconds(15);

// Lets another thread ask a query that only the thread of `there` can answer. The other thread does
// not wait: it gets the previous answer, so a slow transfer that keeps asking is one answer late.
// An answer older than kLongestAge counts as no.
std::function<bool()> askedElsewhere(Reactor& there, std::function<bool()> query) {
  struct Asked {
    std::function<bool()> query;
    std::atomic<Clock::time_point> yesAt{Clock::time_point::min()};
    std::atomic<bool> underWay{false};
  };
  const auto asked = std::make_shared<Asked>();
  asked->query = std::move(query);
  return [&there, asked] {
    if (!asked->underWay.exchange(true)) {
      there.post([asked] {
        asked->yesAt.store(asked->query() ? Clock::now() : Clock::time_point::min());
        asked->underWay.store(false);
      });
    }
    const Clock::time_point yesAt = asked->yesAt.load();
    return yesAt != Clock::time_point::min() && Clock::now() - yesAt < kLongestAge;
  };
}

}  // namespace

const ByteLane& ByteLanes::laneFor(std::uint64_t chunk, std::size_t bytes) const {
  if (bytes < kFromBytes) return own();
  return laneOf(chunk / kRunChunks);
}

void ByteLanes::askFrom(const ByteLane& lane, std::function<bool()>& query) const {
  if (query && &lane != &own()) query = askedElsewhere(own().reactor, std::move(query));
}

Task<Status> ByteLanes::fetch(std::uint32_t chunk, OriginRange range, Filled filled,
                              std::function<bool()> memoryWanted) const {
  std::size_t bytes = 0;
  for (const std::span<std::byte> piece : range.into) bytes += piece.size();
  const ByteLane& lane = laneFor(chunk, bytes);
  const bool here = &lane == &own();
  const std::vector<std::span<std::byte>> pieces = range.into;
  // In order: what is posted to the shard's reactor before the return to it runs before that.
  std::function<void(std::size_t)> checked = [&](std::size_t piece) {
    std::vector<std::uint32_t> checksums = crc32cOfBlocks(pieces[piece], kBlockBytes);
    if (here) return filled(piece, std::move(checksums));
    own().reactor.post(
        [&filled, piece, checksums = std::move(checksums)] { filled(piece, checksums); });
  };
  askFrom(lane, memoryWanted);
  askFrom(lane, range.location.unwanted);
  co_await lane.reactor.enter();
  const Status status = co_await lane.origin.fetch(
      std::move(range.location), std::move(range.expectation), range.offset, std::move(range.into),
      std::move(checked), std::move(memoryWanted));
  co_await own().reactor.enter();
  co_return status;
}

Task<Status> ByteLanes::stream(std::size_t number, Location location, OriginExpectation expectation,
                               PieceSink& sink, std::function<bool()> memoryWanted) const {
  const ByteLane& lane = laneOf(number);
  askFrom(lane, memoryWanted);
  askFrom(lane, location.unwanted);
  co_await lane.reactor.enter();
  const Status status = co_await lane.origin.stream(std::move(location), std::move(expectation),
                                                    sink, std::move(memoryWanted));
  sink.end();  // what is added from now on has come too late
  co_await own().reactor.enter();
  co_return status;
}

Task<Status> ByteLanes::read(std::uint32_t chunk, PeerRange range,
                             std::vector<std::uint32_t>& blockChecksums) {
  const std::string node = range.node;
  const auto found = silent_.find(node);
  const bool silent = found != silent_.end();
  const ByteLane* lane = silent ? found->second : &laneFor(chunk, range.into.size());
  co_await lane->reactor.enter();
  if (!silent && lane != &own() && !lane->transport.reaches(node)) {
    lane = &own();
    co_await lane->reactor.enter();
  }
  Status status;
  {
    // On that thread goes what it has not passed on to a rail.
    Task<Status> reading =
        lane->transport.read(std::move(range.node), range.key, range.offset, std::move(range.into),
                             blockChecksums, range.timeouts, range.requestClass);
    status = co_await reading;
  }
  co_await own().reactor.enter();
  if (status.code() == ErrorCode::kDeadlineExceeded) {
    silent_[node] = lane;
  } else {
    silent_.erase(node);
  }
  co_return status;
}

}  // namespace hearth
