#include "origin/directory_read.h"

#include <algorithm>

#include "origin/directory_transfer.h"

namespace hearth {
namespace {

// How soon a read that is cancelled, or hangs, is noticed.
constexpr auto kLookAgain = std::chrono::milliseconds(100);

Result<DirectoryTransfer::Source> sourceOf(const Location& location) {
  const std::string& below = location.below;
  const std::string folder = below == "/" ? "/" : below + "/";
  if (below.empty() || !location.path.starts_with(folder) ||
      location.path.size() == folder.size()) {
    return Error{ErrorCode::kInvalidArgument, location.path +
                                                  ": it does not lie below the directory '" +
                                                  below + "', which its location must name"};
  }
  return DirectoryTransfer::Source{below, location.path.substr(folder.size()), {}, 0};
}

Error slow(const std::string& path) {
  return {ErrorCode::kUnavailable, path + ": so slow that another source is asked"};
}

Error hanging(const std::string& path, Clock::duration stall) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(stall).count();
  return {ErrorCode::kUnavailable, path + ": its file system gave no byte for " +
                                       std::to_string(seconds) +
                                       " s; look after the mount, or the server, that it is on"};
}

}  // namespace

Task<Status> readDirectoryFile(Reactor& reactor, DirectoryCalls& calls, const Event& cancelled,
                               OriginStatistics& statistics, Location location,
                               OriginExpectation expectation, std::uint64_t offset,
                               std::vector<std::span<std::byte>> into,
                               std::function<void(std::size_t)> filled) {
  if (!expectation.validator.empty() && !expectation.validator.starts_with("stat:")) {
    co_return Error{
        ErrorCode::kInvalidArgument,
        location.path + ": the validator is not one of a file (stat:...); list the origin again"};
  }
  Result<DirectoryTransfer::Source> source = sourceOf(location);
  if (!source.ok()) co_return source.error();
  source->expectation = std::move(expectation);
  source->offset = offset;
  const std::size_t pieces = into.size();
  Clock::duration stall = calls.limits().stall;
  if (location.elsewhere && location.elsewhere->impatient) {
    stall = std::min<Clock::duration>(stall, OriginElsewhere::kTimeout);
  }
  const Clock::time_point begun = Clock::now();
  const Clock::duration left =
      location.elsewhere ? location.elsewhere->left : Clock::duration::max();
  Event changed(reactor);
  const auto transfer =
      std::make_shared<DirectoryTransfer>(reactor, changed, std::move(*source), std::move(into));
  Status status = transfer->start(calls);
  if (!status.ok()) {
    transfer->leave();
    co_return status.error().within(location.path);
  }
  for (std::size_t piece = 0; piece < pieces && status.ok();) {
    transfer->share(calls);
    if (cancelled.isSet() || (location.unwanted && location.unwanted())) {
      status = Error{ErrorCode::kCancelled, location.path + ": the read was cancelled"};
    } else if (transfer->ended(piece)) {
      filled(piece++);
    } else if (const Status failed = transfer->failure(); !failed.ok()) {
      status = failed;
    } else if (Clock::now() - transfer->progressAt() > stall) {
      status = hanging(location.path, stall);
    } else if (Clock::now() - begun > left) {
      status = slow(location.path);
    } else {
      changed.reset();
      // Pieces that ended between the look and the reset.
      if (transfer->ended(piece) || !transfer->failure().ok()) continue;
      [[maybe_unused]] const bool inTime = co_await changed.waitUntil(Clock::now() + kLookAgain);
    }
  }
  // The memory belongs to the caller again.
  transfer->leave();
  const DirectoryTransfer::Counts counts = transfer->counts();
  if (location.elsewhere) location.elsewhere->left -= Clock::now() - begun;
  statistics.bytes += counts.bytes;
  statistics.requests += counts.requests;
  co_return status;
}

}  // namespace hearth
