// hearth_bench_client: reads of a whole file through libgd2fs from an agent of the same process,
// one in flight, into registered memory. The agent holds the file.
//
//   network BYTES COUNT IO_THREADS...  over the loopback, as hearth_bench_raw_tcp does without
//   agents local BYTES COUNT IO_THREADS...    by the descriptor that the agent passes native BYTES
//   COUNT THREADS...      the same file of the agent's cache by pread(2), each thread a
//                                      part of it
//
// For each number of threads: BYTES THREADS MEDIAN_US P99_US GIB_PER_SECOND CPU_SECONDS_PER_GIB.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "base/clock.h"
#include "base/owned_fd.h"
#include "bench/huge_memory.h"
#include "bench/measured.h"
#include "client/include/xfer/gd2fs.h"
#include "engine/testing_cluster.h"
#include "wire/capability.h"

namespace hearth::bench {
namespace {

using testing_cluster::Agent;
using testing_cluster::Origin;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

double secondsOf(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

void useToken() {
  const Capability capability{.cluster = "test",
                              .node = "",
                              .expiresAtMs = ~std::uint64_t{0},
                              .rights = static_cast<std::uint32_t>(CapabilityRight::kRead),
                              .datasets = {std::string(kAnyDataset)}};
  const std::vector<std::byte> secret(32, std::byte{7});  // as Agent has it
  const Result<CapabilityToken> token = signCapability(capability, secret);
  if (!token.ok()) fail("no token");
  setenv("HEARTH_TOKEN", textOf(*token).c_str(), 1);
}

// One read of everything, in one way.
using Read = std::function<void()>;

void measure(const Read& read, std::size_t bytes, std::size_t count, unsigned threads) {
  read();  // connects, and grows what grows
  std::vector<double> microseconds;
  const double before = processorSeconds();
  for (std::size_t i = 0; i < count; ++i) {
    const Clock::time_point began = Clock::now();
    read();
    microseconds.push_back(secondsOf(Clock::now() - began) * 1e6);
  }
  const double gib = static_cast<double>(bytes) / (1u << 30);
  const double cpu = (processorSeconds() - before) / (gib * static_cast<double>(count));
  const double median = quantile(microseconds, 0.5);
  std::printf("%zu %u %.1f %.1f %.3f %.3f\n", bytes, threads, median, quantile(microseconds, 0.99),
              gib / (median / 1e6), cpu);
  std::fflush(stdout);
}

// By the library.
void measureClient(const std::string& address, std::span<std::byte> memory, std::size_t count,
                   unsigned threads) {
  xfer_gd2fs_options options{};
  options.cp_address = address.c_str();
  options.cluster_id = "test";
  options.iothread_count = threads;
  options.log_level = "error";
  xfer_gd2fs_ctx* const ctx = xfer_gd2fs_connect(&options);
  if (ctx == nullptr) fail("connect failed");
  const xfer_gd2fs_sge sge{memory.data(), memory.size(),
                           xfer_gd2fs_reg_iomem(ctx, memory.data(), memory.size(), nullptr)};
  const auto read = [&] {
    xfer_gd2fs_completion done{};
    if (xfer_gd2fs_preadv(ctx, nullptr, "/dataset/bench/file", 0, &sge, 1, 0) != 0 ||
        xfer_gd2fs_wait(ctx, &done, 1, -1) != 1 || done.status != 0 || done.value != memory.size())
      fail("a read failed");
  };
  measure(read, memory.size(), count, threads);
  xfer_gd2fs_close(ctx);
}

// [from, from + its size) of the file.
void readNative(int file, std::size_t from, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = pread(file, into.data(), into.size(), static_cast<off_t>(from));
    if (got <= 0) fail("pread failed");
    from += static_cast<std::size_t>(got);
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

void measureNative(const std::string& path, std::span<std::byte> memory, std::size_t count,
                   unsigned threads) {
  const OwnedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail("the cache file cannot be opened");
  // The calling thread has the first part, others theirs.
  const auto read = [&] {
    std::vector<std::thread> others;
    const std::size_t part = memory.size() / threads;
    for (unsigned i = 1; i < threads; ++i) {
      const std::size_t end = i + 1 == threads ? memory.size() : (i + 1) * part;
      others.emplace_back([&, i, end] {
        readNative(file.get(), i * part, memory.subspan(i * part, end - i * part));
      });
    }
    readNative(file.get(), 0, memory.first(threads == 1 ? memory.size() : part));
    for (std::thread& other : others) other.join();
  };
  measure(read, memory.size(), count, threads);
}

// The only file of a cache that has so many bytes.
std::string cacheFileOf(const std::string& cache, std::size_t bytes) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cache))
    if (entry.is_regular_file() && entry.file_size() == bytes) return entry.path();
  fail("the cache has no such file");
}

int run(const std::vector<std::string>& words) {
  const std::string way = words.empty() ? "" : words[0];
  if (words.size() < 4 || (way != "network" && way != "local" && way != "native"))
    fail("usage: hearth_bench_client network|local|native BYTES COUNT THREADS...");
  const std::size_t bytes = std::stoull(words[1]);
  const testing_cluster::TemporaryFolder cache, socket;
  Origin origin;
  origin.add("file", bytes);
  Agent agent(
      "agent", 4 * bytes + (1u << 30), [](EngineEvent) {}, cache.path(),
      [&](EngineOptions& options) { options.clientSocket = socket.path("agent.sock"); });
  const auto dataset = agent.add(origin);
  agent.beginWarm(dataset);
  if (agent.awaitWarm().state != WarmState::kSucceeded) fail("the agent does not hold the file");
  agent.engine().nameDatasets({{"bench", dataset}});
  useToken();
  setenv("HEARTH_CLIENTS_SOCKET", way == "local" ? socket.path("agent.sock").c_str() : "", 1);
  const PeerAddress at = agent.engine().addresses().front();
  const std::string address = "gd2fs://" + at.host + ":" + std::to_string(at.port);
  HugeMemory memory(bytes);
  const std::size_t count = std::stoull(words[2]);
  for (std::size_t i = 3; i < words.size(); ++i) {
    const auto threads = static_cast<unsigned>(std::stoul(words[i]));
    if (way == "native") {
      measureNative(cacheFileOf(cache.path(), bytes), memory.bytes().first(bytes), count, threads);
    } else {
      measureClient(address, memory.bytes().first(bytes), count, threads);
    }
  }
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) { return hearth::bench::run(hearth::bench::wordsOf(argc, argv)); }
