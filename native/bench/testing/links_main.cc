// hearth_bench_links: what two agents make of the links between them. Each is in a network
// namespace of its own, and has an address on each link; what one holds in its memory tier the
// other reads into memory. Both are in this process.
//
//   read FOLDER HOLDER READER BYTES     in reads of 4 MiB, 16 at a time: GIB_PER_SECOND, and the
//                                       longest that no read has ended, LONGEST_MS
//   cut FOLDER HOLDER READER BYTES COMMAND
//                                       the same; when half has come, COMMAND is run by the shell
//   loaded FOLDER HOLDER READER BYTES COUNT
//                                       reads of 4 KiB one after the other: P50_US P99_US of COUNT
//                                       while nothing else is done, and of as many as there are
//                                       while the reader keeps BYTES of the holder's as a warm job,
//                                       and how many these are
//
// HOLDER, READER: NETNS,ADDRESS,... FOLDER: on the disk of the caches.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>

#include "base/clock.h"
#include "bench/measured.h"
#include "bench/testing/agent_pair.h"

namespace hearth::bench {
namespace {

constexpr std::uint64_t kLatencyBytes = 64u << 20;
constexpr std::uint64_t kSmallRead = 4096;
constexpr int kReaders = 16;

AgentPlace placeOf(const std::string& words) {
  AgentPlace place{.netns = "", .addresses = {}};
  std::istringstream parts(words);
  std::getline(parts, place.netns, ',');
  for (std::string address; std::getline(parts, address, ',');)
    place.addresses.push_back(std::move(address));
  return place;
}

// Readers of one file, who take its chunks in order.
struct Readers {
  AgentPair& pair;
  const std::uint64_t bytes;
  const std::function<void()> half;  // called once, when half of the bytes have come
  std::uint64_t next = 0, come = 0;
  std::vector<Clock::time_point> ended;

  Task<void> readEach() {
    while (next < bytes) {
      const std::uint64_t offset = next;
      const std::uint64_t size = std::min<std::uint64_t>(kChunkBytes, bytes - offset);
      next += size;
      Task<Status> reading = pair.read(offset, size);
      mustRead(co_await reading);
      ended.push_back(Clock::now());
      const bool before = come < bytes / 2;
      come += size;
      if (before && come >= bytes / 2 && half) half();
    }
  }
  Task<bool> run() {
    Gate all(pair.reader().engine().home());
    for (int i = 0; i < kReaders; ++i) all.spawn(readEach());
    co_await all.close();
    co_return true;
  }
};

void readBytes(const AgentPlace& holder, const AgentPlace& reader, std::uint64_t bytes,
               const std::string& command) {
  AgentPair pair(bytes, {.holder = holder, .reader = reader});
  // Windows of connections have grown then.
  Readers first{pair, bytes / 4, {}};
  pair.reader().await(first.run());
  std::thread cutting;
  const auto cut = [&] {
    if (command.empty()) return;
    cutting = std::thread([&command] {
      if (std::system(command.c_str()) != 0) fail(command + " has failed");
    });
  };
  Readers all{pair, bytes, cut};
  Clock::time_point before = Clock::now();
  const Clock::time_point began = before;
  pair.reader().await(all.run());
  const double took = std::chrono::duration<double>(Clock::now() - began).count();
  if (cutting.joinable()) cutting.join();
  pair.compare();
  double longest = 0;
  for (const Clock::time_point each : all.ended) {
    longest = std::max(longest, std::chrono::duration<double, std::milli>(each - before).count());
    before = each;
  }
  std::printf("%.4f %.1f\n", static_cast<double>(bytes) / (1u << 30) / took, longest);
}

// Microseconds of each, until `enough` says so. On the shard's thread, so that no other one has to
// be woken for it.
Task<std::vector<double>> readSmall(AgentPair& pair, std::function<bool(std::size_t)> enough) {
  std::mt19937_64 random(2);
  std::vector<double> times;
  while (!enough(times.size())) {
    const std::uint64_t offset = random() % (kLatencyBytes / kSmallRead) * kSmallRead;
    const auto before = Clock::now();
    Task<Status> reading = pair.read(offset, kSmallRead);
    mustRead(co_await reading);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - before).count());
  }
  co_return times;
}

void readLoaded(const AgentPlace& holder, const AgentPlace& reader, std::uint64_t load,
                std::size_t count) {
  AgentPair pair(kLatencyBytes, {.holder = holder, .reader = reader, .load = load});
  mustRead(pair.reader().await(pair.read(0, kLatencyBytes)));
  const auto idle =
      pair.reader().await(readSmall(pair, [count](std::size_t done) { return done == count; }));
  pair.beginLoad();
  const auto loaded =
      pair.reader().await(readSmall(pair, [&pair](std::size_t) { return !pair.loading(); }));
  pair.compare();
  if (loaded.empty()) fail("the job ended before anything was read beside it");
  std::printf("%.1f %.1f %.1f %.1f %zu\n", quantile(idle, 0.5), quantile(idle, 0.99),
              quantile(loaded, 0.5), quantile(loaded, 0.99), loaded.size());
}

int run(const std::vector<std::string>& words) {
  const std::string what = words.empty() ? "" : words[0];
  const bool right = (what == "read" && words.size() == 5) ||
                     ((what == "cut" || what == "loaded") && words.size() == 6);
  if (!right) {
    std::fputs(
        "usage: hearth_bench_links read FOLDER HOLDER READER BYTES |\n"
        "                          cut FOLDER HOLDER READER BYTES COMMAND |\n"
        "                          loaded FOLDER HOLDER READER BYTES COUNT\n",
        stderr);
    return 2;
  }
  setenv("TMPDIR", words[1].c_str(), 1);  // of all that is made here
  const AgentPlace holder = placeOf(words[2]), reader = placeOf(words[3]);
  const std::uint64_t bytes = std::stoull(words[4]);
  if (what == "loaded") {
    readLoaded(holder, reader, bytes, std::stoul(words[5]));
  } else {
    readBytes(holder, reader, bytes, what == "cut" ? words[5] : "");
  }
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) { return hearth::bench::run(hearth::bench::wordsOf(argc, argv)); }
