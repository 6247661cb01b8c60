// hearth_bench_loops: the cost of bytes from another agent by the number of event loops (shards) of
// both agents, which are in this process, on the loopback. One agent has a file in its memory tier,
// the other reads it into memory and compares checksums. Nothing touches a disk.
//
//   counter                           what `work` counts here: `instructions`, or `user-time` where
//                                     the processor does not count instructions for us
//   work FOLDER BYTES LOOPS PASSES    of both agents for each MiB that is read, by PASSES reads of
//                                     the file: instructions in user space, or microseconds there
//   calls FOLDER BYTES LOOPS PASSES   system calls of the reading agent for each chunk of 4 MiB,
//                                     with the calls by which the main thread asks and waits; as
//                                     root
//
// FOLDER: on the disk of the caches. Prints the number alone.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "bench/event_counter.h"
#include "bench/measured.h"
#include "bench/testing/agent_pair.h"

namespace hearth::bench {
namespace {

// Microseconds of this process, as the kernel divides its time by ticks.
std::uint64_t userTime() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_utime.tv_sec) * 1'000'000 +
         static_cast<std::uint64_t>(usage.ru_utime.tv_usec);
}

// Reads the file so often, and once before, so that connections are there and have grown.
double countedOf(AgentPair& pair, std::uint64_t bytes, int passes,
                 const std::function<std::uint64_t()>& counted) {
  mustRead(pair.reader().await(pair.read(0, bytes)));
  const std::uint64_t before = counted();
  for (int i = 0; i < passes; ++i) mustRead(pair.reader().await(pair.read(0, bytes)));
  const std::uint64_t after = counted();
  pair.compare();
  return static_cast<double>(after - before) / passes;
}

void printWork(std::uint64_t bytes, std::size_t loops, int passes) {
  // Before there is a thread of the agents, so that all are counted.
  const Result<EventCounter> instructions = EventCounter::instructions();
  AgentPair pair(bytes, {.loops = loops});
  const auto counted = [&] { return instructions.ok() ? instructions->count() : userTime(); };
  std::printf("%.3f\n",
              countedOf(pair, bytes, passes, counted) * (1u << 20) / static_cast<double>(bytes));
}

void printCalls(std::uint64_t bytes, std::size_t loops, int passes) {
  std::optional<Result<EventCounter>> calls;
  // When the holder's threads are there already.
  AgentPair pair(bytes,
                 {.loops = loops, .beforeReader = [&] { calls = EventCounter::systemCalls(); }});
  if (!calls->ok()) fail(calls->error().message);
  const double counted = countedOf(pair, bytes, passes, [&] { return (*calls)->count(); });
  std::printf("%.2f\n", counted * kChunkBytes / static_cast<double>(bytes));
}

int run(const std::vector<std::string>& words) {
  const std::string what = words.empty() ? "" : words[0];
  if (what == "counter" && words.size() == 1) {
    std::puts(EventCounter::instructions().ok() ? "instructions" : "user-time");
    return 0;
  }
  if ((what != "work" && what != "calls") || words.size() != 5) {
    std::fputs("usage: hearth_bench_loops counter | work|calls FOLDER BYTES LOOPS PASSES\n",
               stderr);
    return 2;
  }
  setenv("TMPDIR", words[1].c_str(), 1);  // of all that is made here
  const auto print = what == "work" ? printWork : printCalls;
  print(std::stoull(words[2]), std::stoul(words[3]), std::stoi(words[4]));
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) { return hearth::bench::run(hearth::bench::wordsOf(argc, argv)); }
