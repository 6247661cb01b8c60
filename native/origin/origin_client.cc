#include "origin/origin_client.h"

#include <algorithm>

#include "origin/directory_read.h"
#include "origin/git_blob.h"
#include "origin/http_origin.h"
#include "origin/tag_of_bytes.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

class RoutingOriginClient final : public OriginClient {
 public:
  explicit RoutingOriginClient(Reactor& reactor)
      : reactor_(reactor), closing_(reactor), empty_(reactor) {
    empty_.set();
  }

  Status open(OriginOptions options) {
    directories_ = std::move(options.directories);
    if (directories_ == nullptr) {
      directories_ =
          std::make_shared<DirectoryCalls>(kernelOriginFiles(), DirectoryCalls::Limits{});
    }
    gitBlobs_.emplace(reactor_, closing_, options.attempts, options.firstBackOff);
    auto http = HttpOrigin::create(reactor_, std::move(options), statistics_);
    if (!http.ok()) return http.error();
    http_ = std::move(*http);
    return {};
  }

  Task<Status> fetch(Location location, OriginExpectation expectation, std::uint64_t offset,
                     std::vector<std::span<std::byte>> into,
                     std::function<void(std::size_t)> filled,
                     std::function<bool()> memoryWanted) override {
    if (closing_.isSet()) co_return Error{ErrorCode::kCancelled, "the origin client is closed"};
    ++inside_;
    empty_.reset();
    Status status = co_await route(std::move(location), std::move(expectation), offset,
                                   std::move(into), std::move(filled), std::move(memoryWanted));
    if (!status.ok() && status.code() != ErrorCode::kCancelled) ++statistics_.failures;
    if (--inside_ == 0) empty_.set();
    co_return std::move(status);
  }

  Task<Status> stream(Location location, OriginExpectation expectation, PieceSink& sink,
                      std::function<bool()> memoryWanted) override {
    if (closing_.isSet()) co_return Error{ErrorCode::kCancelled, "the origin client is closed"};
    if (location.url.empty() || !location.path.empty() || location.elsewhere) {
      co_return Error{ErrorCode::kUnsupported, "only objects of one HTTP server are streamed"};
    }
    ++inside_;
    empty_.reset();
    Status status =
        co_await http_->fetch(std::move(location), std::move(expectation), 0, sink, memoryWanted);
    if (--inside_ == 0) empty_.set();
    co_return std::move(status);
  }

  Task<void> close() override {
    if (!closing_.isSet()) {
      closing_.set();
      http_->cancelAll();
    }
    co_await empty_.wait();
    co_await http_->close();
  }

  OriginStatistics statistics() const override {
    OriginStatistics statistics = statistics_;
    statistics.hosts = http_->hosts();
    return statistics;
  }

 private:
  Task<Status> route(Location location, OriginExpectation expectation, std::uint64_t offset,
                     std::vector<std::span<std::byte>> into,
                     std::function<void(std::size_t)> filled, std::function<bool()> memoryWanted) {
    if (location.url.empty() == location.path.empty()) {
      co_return Error{ErrorCode::kInvalidArgument, "a location needs either a URL or a path"};
    }
    std::uint64_t length = 0;
    for (const std::span<std::byte> piece : into) length += piece.size();
    constexpr std::uint64_t kLargest = (std::uint64_t{1} << 63) - 1;
    if (offset > kLargest || length > kLargest - offset) {
      co_return Error{ErrorCode::kInvalidArgument, "the range ends beyond 8 EiB"};
    }
    if (expectation.objectSize != 0 &&
        (offset > expectation.objectSize || length > expectation.objectSize - offset)) {
      co_return Error{ErrorCode::kInvalidArgument, "the range ends behind the object"};
    }
    if (isGitBlobId(expectation.validator)) {
      GitBlobReader::Fetch whole = [this, &memoryWanted](Location from, OriginExpectation size,
                                                         std::vector<std::span<std::byte>> pieces) {
        return readRange(
            std::move(from), std::move(size), 0, std::move(pieces), [](std::size_t) {},
            memoryWanted);
      };
      auto run = gitBlobs_->read(std::move(whole), std::move(location), std::move(expectation),
                                 offset, std::move(into), std::move(filled));
      Status status = co_await run;
      co_return std::move(status);
    }
    auto run = readRange(std::move(location), std::move(expectation), offset, std::move(into),
                         std::move(filled), memoryWanted);
    Status status = co_await run;
    co_return std::move(status);
  }

  // `memoryWanted` must remain live while the task runs.
  Task<Status> readRange(Location location, OriginExpectation expectation, std::uint64_t offset,
                         std::vector<std::span<std::byte>> into,
                         std::function<void(std::size_t)> filled,
                         const std::function<bool()>& memoryWanted) {
    if (!location.path.empty()) {
      auto run =
          readDirectoryFile(reactor_, *directories_, closing_, statistics_, std::move(location),
                            std::move(expectation), offset, std::move(into), std::move(filled));
      Status status = co_await run;
      co_return std::move(status);
    }
    PieceSink sink(std::move(into), std::move(filled));
    Status status = co_await http_->fetch(std::move(location), std::move(expectation), offset, sink,
                                          memoryWanted);
    co_return std::move(status);
  }

  Reactor& reactor_;
  std::shared_ptr<DirectoryCalls> directories_;
  Event closing_;
  Event empty_;
  std::size_t inside_ = 0;
  OriginStatistics statistics_;
  std::optional<GitBlobReader> gitBlobs_;
  std::unique_ptr<HttpOrigin> http_;
};

}  // namespace

void OriginStatistics::add(const OriginStatistics& other) {
  bytes += other.bytes;
  requests += other.requests;
  retries += other.retries;
  failures += other.failures;
  hedgedBytes += other.hedgedBytes;
  hedgedRequests += other.hedgedRequests;
  hedgesWon += other.hedgesWon;
  for (const OriginHostStatistics& added : other.hosts) {
    const auto same =
        std::ranges::find(hosts, added.host, [](const auto& each) { return each.host; });
    if (same == hosts.end()) {
      hosts.push_back(added);
    } else {
      same->parallelism += added.parallelism;
    }
  }
}

Result<std::unique_ptr<OriginClient>> OriginClient::create(Reactor& reactor,
                                                           OriginOptions options) {
  auto client = std::make_unique<RoutingOriginClient>(reactor);
  if (Status opened = client->open(std::move(options)); !opened.ok()) return opened.error();
  return std::unique_ptr<OriginClient>(std::move(client));
}

}  // namespace hearth
