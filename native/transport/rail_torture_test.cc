// 10,000 schedules of faults a seed: reads over rails that delay, reorder, refuse, fail in the
// middle, corrupt, drop, stall and end. Every read ends once, with the right bytes or an error;
// memory has one writer at a time, and is given back. RAIL_TORTURE_SEED chooses another seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "transport/rail_reader.h"
#include "transport/testing/faulty_rail.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using namespace testing_rails;

constexpr int kSchedules = 10'000;
constexpr int kAtOnce = 100;

struct Tally {
  int reads = 0;
  std::map<ErrorCode, int> ended;
  std::size_t posted = 0, lateWrites = 0;
};

struct TortureRead {
  std::shared_ptr<std::vector<std::byte>> memory;
  ContentKey key;
  std::uint64_t offset = 0;
  Status status;
  int ended = 0;
};

// In up to four pieces, which are regions of their own.
MemoryVector piecesOf(const std::shared_ptr<std::vector<std::byte>>& memory,
                      std::mt19937_64& random) {
  std::vector<MemorySlice> slices;
  std::span<std::byte> rest = *memory;
  for (std::uint64_t cuts = random() % 4; cuts > 0; --cuts) {
    const std::size_t size = random() % (rest.size() + 1);
    slices.push_back(MemorySlice::of(rest.first(size), memory));
    rest = rest.subspan(size);
  }
  slices.push_back(MemorySlice::of(rest, memory));
  return MemoryVector(std::move(slices));
}

Task<void> readOne(RailReader& reader, TortureRead& read, MemoryVector into) {
  std::vector<std::uint32_t> checksums;
  RailRead what{.key = read.key,
                .offset = read.offset,
                .into = std::move(into),
                .patience = Clock::now() + 1h};
  read.status = co_await reader.read(std::move(what), checksums);
  ++read.ended;
  if (!read.status.ok()) co_return;
  EXPECT_TRUE(same(read.key, read.offset, *read.memory));
  EXPECT_EQ(checksums, checksumsOf(read.key, read.offset, read.memory->size()));
}

// What is dropped or stalls comes to an end with its rail.
Task<void> endRails(Reactor& reactor, FaultyRails& rails, std::size_t count,
                    const std::vector<TortureRead>& reads, std::mt19937_64& random) {
  const auto under = [&] {
    return std::ranges::any_of(reads, [](const TortureRead& read) { return read.ended == 0; });
  };
  for (int turn = 1; under(); ++turn) {
    co_await reactor.sleep(Clock::duration::zero());
    if (turn % 32 != 0) continue;
    static_cast<void>(rails.usableRails());
    rails.at(random() % count).end();
  }
}

Task<void> runSchedule(Reactor& reactor, std::uint64_t seed, Tally& tally) {
  std::mt19937_64 random(seed);
  const auto upTo = [&random](unsigned most) {
    return static_cast<unsigned>(random() % (most + 1));
  };
  const Faults faults{.refused = upTo(10),
                      .failed = upTo(20),
                      .corrupt = upTo(10),
                      .dropped = upTo(10),
                      .stalled = upTo(20),
                      .ended = upTo(10),
                      .latestTurn = upTo(12)};
  const std::size_t count = 1 + random() % 4;
  FaultyRails rails(reactor, count, faults, random());
  RailReader reader(reactor, rails, kBlockBytes);
  std::vector<TortureRead> reads(1 + random() % 3);
  {
    Gate gate(reactor);
    for (TortureRead& read : reads) {
      read.key.bytes[0] = static_cast<std::uint8_t>(random());
      read.offset = random() % 8 * kBlockBytes;
      const std::size_t size = random() % 3 * kBlockBytes + 1 + random() % 1000;
      read.memory = std::make_shared<std::vector<std::byte>>(size);
      gate.spawn(readOne(reader, read, piecesOf(read.memory, random)));
    }
    co_await endRails(reactor, rails, count, reads, random);
    co_await gate.close();
  }
  for (std::size_t i = 0; i < count; ++i) rails.at(i).end();
  co_await rails.close();
  for (const TortureRead& read : reads) {
    ++tally.reads;
    ++tally.ended[read.status.code()];
    EXPECT_EQ(read.ended, 1) << "schedule " << seed;
    EXPECT_EQ(read.memory.use_count(), 1) << "schedule " << seed << ": memory is not given back";
    // Also now, when all that was late has come.
    if (read.status.ok()) {
      EXPECT_TRUE(same(read.key, read.offset, *read.memory))
          << "schedule " << seed << ": written after it was given back";
    }
  }
  tally.posted += rails.counts().posted;
  tally.lateWrites += rails.counts().lateWrites;
}

Task<bool> runSchedules(Reactor& reactor, std::uint64_t first, int count, Tally& tally) {
  Gate gate(reactor);
  for (int i = 0; i < count; ++i)
    gate.spawn(runSchedule(reactor, first + static_cast<std::uint64_t>(i), tally));
  co_await gate.close();
  co_return true;
}

TEST(RailTorture, TenThousandSchedulesLoseDoubleAndMixNothing) {
  const char* const chosen = std::getenv("RAIL_TORTURE_SEED");
  const std::uint64_t seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 20261122;
  const std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  Tally tally;
  for (int done = 0; done < kSchedules && !HasFailure(); done += kAtOnce) {
    const std::uint64_t first = seed * kSchedules + static_cast<std::uint64_t>(done);
    reactor->runUntilComplete(runSchedules(*reactor, first, kAtOnce, tally));
  }
  std::printf("seed %llu: %d reads, %zu slices posted, %zu late writes;",
              static_cast<unsigned long long>(seed), tally.reads, tally.posted, tally.lateWrites);
  for (const auto& [code, times] : tally.ended)
    std::printf(" %s %d", std::string(errorName(code)).c_str(), times);
  std::printf("\n");
  // The faults were met, and most reads came through all the same.
  EXPECT_GT(tally.lateWrites, 100u);
  EXPECT_GT(tally.ended[ErrorCode::kOk], tally.reads / 2);
}

}  // namespace
}  // namespace hearth
