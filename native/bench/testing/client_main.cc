// hearth_bench_client: reads of a file through libgd2fs from an agent of the same process over the
// loopback, one in flight, into registered memory. The agent holds the file. Beside the rows of
// hearth_bench_raw_tcp, which does the same without agents.
//
//   BYTES COUNT IO_THREADS...  for each number of threads:
//                              BYTES IO_THREADS MEDIAN_US P99_US GIB_PER_SECOND CPU_SECONDS_PER_GIB
#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
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

void measure(const std::string& address, std::span<std::byte> memory, std::size_t count,
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
  std::vector<double> microseconds;
  const double before = processorSeconds();
  for (std::size_t i = 0; i < count + 1; ++i) {
    const Clock::time_point began = Clock::now();
    xfer_gd2fs_completion done{};
    if (xfer_gd2fs_preadv(ctx, nullptr, "/dataset/bench/file", 0, &sge, 1, 0) != 0 ||
        xfer_gd2fs_wait(ctx, &done, 1, -1) != 1 || done.status != 0 || done.value != memory.size())
      fail("a read failed");
    // The first one connects.
    if (i != 0) microseconds.push_back(secondsOf(Clock::now() - began) * 1e6);
  }
  const double gib = static_cast<double>(memory.size()) / (1u << 30);
  const double cpu = (processorSeconds() - before) / (gib * static_cast<double>(count + 1));
  const double median = quantile(microseconds, 0.5);
  std::printf("%zu %u %.1f %.1f %.3f %.3f\n", memory.size(), threads, median,
              quantile(microseconds, 0.99), gib / (median / 1e6), cpu);
  std::fflush(stdout);
  xfer_gd2fs_close(ctx);
}

int run(const std::vector<std::string>& words) {
  if (words.size() < 3) fail("usage: hearth_bench_client BYTES COUNT IO_THREADS...");
  const std::size_t bytes = std::stoull(words[0]);
  Origin origin;
  origin.add("file", bytes);
  Agent agent("agent");
  const auto dataset = agent.add(origin);
  agent.beginWarm(dataset);
  if (agent.awaitWarm().state != WarmState::kSucceeded) fail("the agent does not hold the file");
  agent.engine().nameDatasets({{"bench", dataset}});
  useToken();
  const PeerAddress at = agent.engine().addresses().front();
  const std::string address = "gd2fs://" + at.host + ":" + std::to_string(at.port);
  HugeMemory memory(bytes);
  for (std::size_t i = 2; i < words.size(); ++i)
    measure(address, memory.bytes().first(bytes), std::stoull(words[1]),
            static_cast<unsigned>(std::stoul(words[i])));
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) { return hearth::bench::run(hearth::bench::wordsOf(argc, argv)); }
