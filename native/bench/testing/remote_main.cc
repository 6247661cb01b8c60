// hearth_bench_remote: one agent's bytes into the memory of another agent, by the engine's own path
// for readers of memory (Fetcher::readInto), on the loopback: both engines are in this process. The
// holder has the bytes in its memory tier, which is large enough for that, but for `disk`. Nothing
// is kept by the agent that reads.
//
//   read FOLDER BYTES             one read of a file of so many: GIB_PER_SECOND CPU_SECONDS_PER_GIB
//   disk FOLDER BYTES             the same from the holder's disk, with nothing in the page cache;
//                                 as root
//   latency FOLDER SIZE COUNT     reads one after the other at random multiples of 4 KiB: MEDIAN_US
//                                 P99_US
//
// FOLDER: on the disk of the caches. CPU seconds are of both agents; what the reader's pages are
// comes last.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "bench/measured.h"
#include "bench/testing/agent_pair.h"

namespace hearth::bench {
namespace {

constexpr int kPasses = 3;
constexpr std::uint64_t kLatencyBytes = 64u << 20;
constexpr std::uint64_t kReadUnit = 4096;

// Of the whole machine.
void dropPageCache() {
  sync();
  std::ofstream knob("/proc/sys/vm/drop_caches");
  knob << 1 << std::flush;
  if (!knob) fail("the page cache cannot be dropped: root may");
}

void readWhole(std::uint64_t bytes, HeldIn held) {
  AgentPair pair(bytes, {.held = held});
  const double gib = static_cast<double>(bytes) / (1u << 30);
  mustRead(pair.reader().await(pair.read(0, bytes)));
  std::vector<double> rates, processor;
  for (int i = 0; i < kPasses; ++i) {
    std::memset(pair.memory().bytes().data(), 0, bytes);
    if (held == HeldIn::kDisk) dropPageCache();
    const double cpu = processorSeconds();
    const auto before = Clock::now();
    mustRead(pair.reader().await(pair.read(0, bytes)));
    rates.push_back(gib / std::chrono::duration<double>(Clock::now() - before).count());
    processor.push_back((processorSeconds() - cpu) / gib);
    pair.compare();
  }
  const EngineStatistics after = pair.reader().await(pair.reader().engine().statistics());
  if (after.origin.requests != 0) fail("the file came from its origin");
  std::printf("%.3f %.3f %s\n", quantile(rates, 0.5), quantile(processor, 0.5),
              pair.memory().pages());
}

// Microseconds of each. On the shard's thread, so that no other one has to be woken for it.
Task<std::vector<double>> readEach(AgentPair& pair, std::uint64_t size, int count) {
  std::mt19937_64 random(2);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t places = (kLatencyBytes - size) / kReadUnit + 1;
    const std::uint64_t offset = random() % places * kReadUnit;
    const auto before = Clock::now();
    Task<Status> reading = pair.read(offset, size);
    mustRead(co_await reading);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
  }
  co_return times;
}

void readLatency(std::uint64_t size, int count) {
  AgentPair pair(kLatencyBytes);
  mustRead(pair.reader().await(pair.read(0, kLatencyBytes)));
  const auto times = pair.reader().await(readEach(pair, size, count));
  pair.compare();
  std::printf("%.2f %.2f %s\n", quantile(times, 0.5), quantile(times, 0.99), pair.memory().pages());
}

int run(const std::vector<std::string>& words) {
  const bool latency = words.size() == 4 && words[0] == "latency";
  const bool disk = words.size() == 3 && words[0] == "disk";
  const bool memory = words.size() == 3 && words[0] == "read";
  if (!latency && !disk && !memory) {
    std::fputs("usage: hearth_bench_remote read|disk FOLDER BYTES | latency FOLDER SIZE COUNT\n",
               stderr);
    return 2;
  }
  setenv("TMPDIR", words[1].c_str(), 1);  // of all that is made here
  if (latency) {
    readLatency(std::stoull(words[2]), std::stoi(words[3]));
  } else {
    readWhole(std::stoull(words[2]), disk ? HeldIn::kDisk : HeldIn::kMemory);
  }
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) { return hearth::bench::run(hearth::bench::wordsOf(argc, argv)); }
