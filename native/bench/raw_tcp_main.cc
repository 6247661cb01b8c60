// hearth_bench_raw_tcp: the speed of TCP on the loopback for a program that does nothing else, for
// rows of `make bench` in which agents do the same. Bytes lie in huge pages at both ends, no two of
// them at one place, and the receiver compares the CRC32C of each block of 64 KiB with the one that
// the sender computed. Each stream has a thread at either end.
//
//   stream BYTES STREAMS...  for each number of streams: GIB_PER_SECOND CPU_SECONDS_PER_GIB STREAMS
//   pingpong SIZE COUNT      one after the other: MEDIAN_US P99_US
//
// The kind of pages comes last on each line.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/generated/constants.h"
#include "bench/huge_memory.h"
#include "bench/measured.h"

namespace hearth::bench {
namespace {

constexpr std::size_t kSendBytes = kChunkBytes;
// Little enough to be in the processor's cache still when it is checked.
constexpr std::size_t kReceiveBytes = 4 * kBlockBytes;
constexpr int kPasses = 3;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {
    if (fd < 0) fail("socket");
  }
  ~Socket() { close(fd_); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;

  void sendAll(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent =
          send(fd_, bytes.data(), std::min(bytes.size(), kSendBytes), MSG_NOSIGNAL);
      if (sent <= 0) fail("send");
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
  }
  void receiveAll(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t got =
          recv(fd_, bytes.data(), std::min(bytes.size(), kReceiveBytes), MSG_WAITALL);
      if (got <= 0) fail("recv");
      bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

struct Connection {
  Socket sender, receiver;
};

std::vector<Connection> connections(int count) {
  const Socket listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  if (bind(listener.fd(), any, size) != 0 || listen(listener.fd(), count) != 0 ||
      getsockname(listener.fd(), any, &size) != 0) {
    fail("listen");
  }
  std::vector<Connection> made;
  for (int i = 0; i < count; ++i) {
    Socket receiver(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(receiver.fd(), any, size) != 0) fail("connect");
    Socket sender(accept(listener.fd(), nullptr, nullptr));
    const int on = 1;
    for (const int fd : {receiver.fd(), sender.fd()})
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    made.push_back({std::move(sender), std::move(receiver)});
  }
  return made;
}

// Bytes that are sent, their checksums, and where they come to.
struct Data {
  explicit Data(std::size_t bytes) : source(bytes), target(bytes) {
    fillRandom(source.bytes());
    checksums = crc32cOfBlocks(source.bytes(), kBlockBytes);
  }
  void compare(std::size_t at, std::span<const std::byte> received) const {
    for (; !received.empty(); at += kBlockBytes) {
      const std::size_t size = std::min<std::size_t>(kBlockBytes, received.size());
      if (crc32c(received.first(size)) != checksums[at / kBlockBytes]) {
        std::fputs("a block has come with other bytes\n", stderr);
        std::exit(1);
      }
      received = received.subspan(size);
    }
  }

  HugeMemory source, target;
  std::vector<std::uint32_t> checksums;
};

// [at, at + size), checked as it comes.
void receiveChecked(const Socket& from, const Data& data, std::size_t at, std::size_t size) {
  for (const std::size_t end = at + size; at < end;) {
    const auto piece = data.target.bytes().subspan(at, std::min(kReceiveBytes, end - at));
    from.receiveAll(piece);
    data.compare(at, piece);
    at += piece.size();
  }
}

// All bytes once. Seconds from when all threads are there to the last check.
double pass(const Data& data, const std::vector<Connection>& streams) {
  const std::size_t blocks = data.checksums.size(), size = data.source.bytes().size();
  const auto edge = [&](std::size_t i) {
    return std::min(size, blocks * i / streams.size() * kBlockBytes);
  };
  std::barrier begin(static_cast<std::ptrdiff_t>(2 * streams.size() + 1));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const std::size_t from = edge(i), count = edge(i + 1) - from;
    threads.emplace_back([&, i, from, count] {
      begin.arrive_and_wait();
      streams[i].sender.sendAll(data.source.bytes().subspan(from, count));
    });
    threads.emplace_back([&, i, from, count] {
      begin.arrive_and_wait();
      receiveChecked(streams[i].receiver, data, from, count);
    });
  }
  const auto before = Clock::now();
  begin.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  return std::chrono::duration<double>(Clock::now() - before).count();
}

void stream(const Data& data, int count) {
  const std::vector<Connection> streams = connections(count);
  const double gib = static_cast<double>(data.source.bytes().size()) / (1u << 30);
  pass(data, streams);  // windows grow
  std::vector<double> rates, processor;
  for (int i = 0; i < kPasses; ++i) {
    const double cpu = processorSeconds();
    rates.push_back(gib / pass(data, streams));
    processor.push_back((processorSeconds() - cpu) / gib);
  }
  std::printf("%.3f %.3f %d %s\n", quantile(rates, 0.5), quantile(processor, 0.5), count,
              data.source.pages());
}

// A request of as many bytes as a frame's header names a place; its answer is what is there.
void pingPong(const Data& data, std::size_t size, int count) {
  struct Request {
    std::uint64_t at;
    std::array<std::byte, 24> rest;
  };
  const std::vector<Connection> streams = connections(1);
  const auto& [sender, receiver] = streams.front();
  std::thread answering([&] {
    for (int i = 0; i < count; ++i) {
      Request request{};
      sender.receiveAll(std::as_writable_bytes(std::span(&request, 1)));
      sender.sendAll(data.source.bytes().subspan(request.at, size));
    }
  });
  std::mt19937_64 random(2);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const Request request{.at = random() % data.checksums.size() * kBlockBytes, .rest = {}};
    const auto into = data.target.bytes().subspan(request.at, size);
    const auto before = Clock::now();
    receiver.sendAll(std::as_bytes(std::span(&request, 1)));
    receiver.receiveAll(into);
    const std::uint32_t checksum = crc32c(into);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
    if (checksum != crc32c(data.source.bytes().subspan(request.at, size))) fail("other bytes");
  }
  answering.join();
  std::printf("%.2f %.2f %s\n", quantile(times, 0.5), quantile(times, 0.99), data.source.pages());
}

int usage() {
  std::fputs("usage: hearth_bench_raw_tcp stream BYTES STREAMS... | pingpong SIZE COUNT\n", stderr);
  return 2;
}

int run(const std::vector<std::string>& words) {
  if (words.size() < 3) return usage();
  if (words[0] == "stream") {
    const Data data(std::stoull(words[1]));
    for (std::size_t i = 2; i < words.size(); ++i) stream(data, std::stoi(words[i]));
  } else if (words[0] == "pingpong") {
    const Data data(64u << 20);
    pingPong(data, std::stoull(words[1]), std::stoi(words[2]));
  } else {
    return usage();
  }
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) { return hearth::bench::run(hearth::bench::wordsOf(argc, argv)); }
