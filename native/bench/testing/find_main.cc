// hearth_bench_find: nanoseconds in which a thread finds a chunk in memory and lets go of it again,
// while nobody else asks for the same file: the median of eleven rounds. Prints the number alone.
#include <chrono>
#include <cstdio>

#include "bench/measured.h"
#include "fetch/loaded_chunk.h"
#include "fetch/testing_slots.h"

namespace hearth::bench {
namespace {

constexpr std::uint32_t kChunks = 8;
constexpr std::uint32_t kFinds = 1'000'000;
constexpr int kRounds = 11;

struct FileInMemory {
  FileInMemory() { reactor->runUntilComplete(fill()); }
  ~FileInMemory() { chunks.clear(); }

  Task<bool> fill() {
    for (std::uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      std::vector<ChunkBuffer> memory = co_await pool.acquire(Priority::kDemand, 1);
      chunks.put(chunk, loadInto(*reactor, std::move(memory.front()), kChunkBytes));
    }
    co_return true;
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  testing_support::OwnedSlots slots{kChunks};
  SlotStock stock{slots.all()};
  BufferPool pool{*reactor, stock, kChunks};
  LoadedChunks chunks;
};

double nanosecondsOfOne(const LoadedChunks& chunks) {
  std::uint64_t found = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint32_t i = 0; i < kFinds; ++i) found += chunks.find(i % kChunks)->bytes.size();
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  if (found != std::uint64_t{kFinds} * kChunkBytes) std::abort();
  return took.count() / kFinds;
}

}  // namespace
}  // namespace hearth::bench

int main() {
  using namespace hearth::bench;
  const FileInMemory file;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) rounds.push_back(nanosecondsOfOne(file.chunks));
  std::printf("%.1f\n", quantile(rounds, 0.5));
}
