// For `make bench`: one stream on the loopback, chunks of 4 MiB in memory, checksums compared,
// against raw TCP. `hearth_transport_throughput raw|io_uring|epoll` prints GiB/s.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "transport/socket.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

constexpr int kChunks = 128;
constexpr int kInFlight = 4;

double gibPerSecond(Clock::duration time) {
  const double bytes = static_cast<double>(kChunks) * kChunkBytes;
  return bytes / (1u << 30) / std::chrono::duration<double>(time).count();
}

// Blocking send and recv of the same chunks, one thread each.
std::optional<double> rawRun(const std::vector<std::byte>& chunk, std::vector<std::byte>& into) {
  const SocketAddress any = *socketAddress({"127.0.0.1", 0});
  Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(listener.fd(), any.get(), any.size) != 0 || listen(listener.fd(), 1) != 0)
    return std::nullopt;
  const SocketAddress address = *socketAddress(localAddress(listener.fd()));
  std::thread sender([&] {
    const Socket out(accept(listener.fd(), nullptr, nullptr));
    for (int i = 0; i < kChunks; ++i) {
      std::span<const std::byte> rest(chunk);
      while (!rest.empty()) {
        const ssize_t sent = send(out.fd(), rest.data(), rest.size(), MSG_NOSIGNAL);
        if (sent <= 0) return;
        rest = rest.subspan(static_cast<std::size_t>(sent));
      }
    }
  });
  const Socket in(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(in.fd(), address.get(), address.size) != 0) std::abort();  // a thread waits for it
  const auto before = Clock::now();
  std::size_t received = 0;
  while (received < kChunks * kChunkBytes) {
    const std::size_t at = received % (kInFlight * kChunkBytes);
    const ssize_t got = recv(in.fd(), into.data() + at,
                             std::min<std::size_t>(into.size() - at, 262144), MSG_WAITALL);
    if (got <= 0) break;
    received += static_cast<std::size_t>(got);
  }
  const auto time = Clock::now() - before;
  sender.join();
  if (received < kChunks * kChunkBytes) return std::nullopt;
  return gibPerSecond(time);
}

Task<void> readEvery(TestNode& asker, int first, std::span<std::byte> into, bool& ok) {
  std::vector<std::uint32_t> checksums;
  for (int i = first; i < kChunks; i += kInFlight) {
    Task<Status> reading =
        asker.transport->read("asked", keyOf(kPlain), 0, MemorySlice::of(into), checksums,
                              Clock::now() + kHang, RequestClass::kDemand);
    const Status status = co_await reading;
    ok = ok && status.ok();
  }
}
Task<bool> readAll(TestNode& asker, std::vector<std::byte>& into) {
  bool ok = true;
  Gate gate(*asker.reactor);
  for (int i = 0; i < kInFlight; ++i) {
    const auto part =
        std::span(into).subspan(static_cast<std::size_t>(i) * kChunkBytes, kChunkBytes);
    gate.spawn(readEvery(asker, i, part, ok));
  }
  co_await gate.close();
  co_return ok;
}

// Nothing when a read failed.
std::optional<double> transportRun(Reactor::Backend backend, std::vector<std::byte>& into) {
  TestNode asked(TestNode::optionsOf("asked"), backend);
  TestNode asker(TestNode::optionsOf("asker"), backend);
  asker.setPeers({asked.identity()});
  if (!asker.read("asked", kPlain, 0, std::span(into).first(kBlockBytes)).ok()) return std::nullopt;
  const auto before = Clock::now();
  if (!asker.await([&] { return readAll(asker, into); })) return std::nullopt;
  return gibPerSecond(Clock::now() - before);
}

}  // namespace
}  // namespace hearth

int main(int count, char** arguments) {
  const std::string_view what = count == 2 ? arguments[1] : "";
  if (what != "raw" && what != "io_uring" && what != "epoll") {
    std::fprintf(stderr, "usage: hearth_transport_throughput raw|io_uring|epoll\n");
    return 2;
  }
  std::vector<std::byte> into(hearth::kInFlight * hearth::kChunkBytes);
  std::optional<double> speed;
  if (what == "raw") {
    speed = hearth::rawRun(hearth::patternBytes(hearth::kChunkBytes), into);
  } else {
    speed = hearth::transportRun(
        what == "epoll" ? hearth::Reactor::Backend::kEpoll : hearth::Reactor::Backend::kIoUring,
        into);
  }
  if (!speed) {
    std::fprintf(stderr, "a read failed\n");
    return 1;
  }
  std::printf("%.3f\n", *speed);
}
