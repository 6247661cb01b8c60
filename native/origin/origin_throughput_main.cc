// hearth_origin_throughput URL OBJECT_BYTES REQUEST_BYTES PARALLEL [TOTAL_BYTES]
// Reads an object again and again by ranged requests and prints GiB/s and CPU seconds a GiB, to be
// compared with `curl -r ... -o /dev/null` on the same server.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "base/processor_time.h"
#include "origin/origin_client.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

struct Run {
  OriginClient& client;
  Location location;
  std::uint64_t objectBytes, requestBytes, left;
  std::uint64_t next = 0;
  Status failure;
  std::vector<std::vector<std::byte>> memory;  // one a worker, touched before the measurement
};

Task<void> worker(Run& run, std::vector<std::byte>& memory) {
  constexpr std::size_t kPiece = 4 << 20;
  while (run.left > 0 && run.failure.ok()) {
    run.left -= std::min(run.left, run.requestBytes);
    const std::uint64_t offset = run.next;
    run.next = run.next + 2 * run.requestBytes <= run.objectBytes ? run.next + run.requestBytes : 0;
    std::vector<std::span<std::byte>> into;
    for (std::size_t at = 0; at < memory.size(); at += kPiece) {
      into.push_back(std::span(memory).subspan(at, std::min(kPiece, memory.size() - at)));
    }
    const OriginExpectation expectation{.objectSize = run.objectBytes};
    std::function<void(std::size_t)> filled = [](std::size_t) {};
    auto fetch =
        run.client.fetch(run.location, expectation, offset, std::move(into), std::move(filled));
    const Status status = co_await fetch;
    if (!status.ok()) run.failure = status;
  }
}

Task<void> workers(Run& run, Reactor& reactor) {
  Gate gate(reactor);
  for (std::vector<std::byte>& memory : run.memory) gate.spawn(worker(run, memory));
  co_await gate.close();
  co_await run.client.close();
}

int measure(int count, char** arguments) {
  if (count < 5) {
    std::fprintf(stderr, "usage: %s URL OBJECT_BYTES REQUEST_BYTES PARALLEL [TOTAL_BYTES]\n",
                 arguments[0]);
    return 2;
  }
  const auto number = [arguments](int i) { return std::strtoull(arguments[i], nullptr, 10); };
  const char* const backend = std::getenv("HEARTH_REACTOR");
  const bool epoll = backend != nullptr && std::string_view(backend) == "epoll";
  auto reactor = Reactor::create(epoll ? Reactor::Backend::kEpoll : Reactor::Backend::kAutomatic);
  if (!reactor.ok()) return 1;
  OriginOptions options;
  options.connections = number(4);
  auto client = OriginClient::create(**reactor, options);
  if (!client.ok()) return 1;
  const std::uint64_t total = count > 5 ? number(5) : number(2);
  Run run{.client = **client, .objectBytes = number(2), .requestBytes = number(3), .left = total};
  run.memory.resize(number(4), std::vector<std::byte>(number(3)));
  const std::string source = arguments[1];
  if (source.starts_with("/")) {
    run.location.path = source;
    run.location.below = std::filesystem::path(source).parent_path();
  } else {
    run.location.url = source;
  }
  const auto begin = Clock::now();
  const double cpuBefore = processorSeconds();
  (*reactor)->runUntilComplete(workers(run, **reactor));
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const OriginStatistics statistics = (*client)->statistics();
  const double gib = static_cast<double>(statistics.bytes) / (1 << 30);
  if (!run.failure.ok()) std::fprintf(stderr, "%s\n", run.failure.error().message.c_str());
  std::printf("%-8s %3llu MiB x %2llu: %.2f GiB/s, %.2f CPU s/GiB", (*reactor)->backendName(),
              number(3) >> 20, number(4), gib / seconds, (processorSeconds() - cpuBefore) / gib);
  for (const OriginHostStatistics& host : statistics.hosts) {
    std::printf("; at most %zu at a time", host.parallelism);
  }
  std::printf("; %llu hedges, %llu won\n",
              static_cast<unsigned long long>(statistics.hedgedRequests),
              static_cast<unsigned long long>(statistics.hedgesWon));
  return run.failure.ok() ? 0 : 1;
}

}  // namespace
}  // namespace hearth

int main(int count, char** arguments) {
  std::signal(SIGPIPE, SIG_IGN);
  return hearth::measure(count, arguments);
}
