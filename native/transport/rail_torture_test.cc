// 10,000 schedules of faults a seed: reads and writes over rails that delay, reorder, refuse, fail
// in the middle, corrupt, drop, stall, pause and end. Each ends once, with the right bytes or an
// error; memory has one writer at a time, and is given back; each block ends with the newest write
// that was taken. RAIL_TORTURE_SEED chooses another seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "transport/rail_mover.h"
#include "transport/testing/schedule.h"
#include "transport/testing/shelf.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using namespace testing_rails;

constexpr int kSchedules = 10'000;
constexpr int kAtOnce = 100;

struct Tally {
  int reads = 0, writes = 0;
  std::map<ErrorCode, int> ended;
  std::size_t posted = 0, lateWrites = 0, losses = 0, hedged = 0;
};

// The last block of the shelf is shorter than the others.
constexpr std::size_t kShelfBytes = 6 * kBlockBytes - 777;

struct TortureTransfer {
  std::shared_ptr<std::vector<std::byte>> memory;
  ContentKey key;
  std::uint64_t offset = 0;
  Status status;
  int ended = 0;
  // Number of a write; its bytes are those of a key of this number.
  std::uint64_t generation = 0;
};

Task<void> readOne(RailMover& mover, TortureTransfer& read, MemoryVector into) {
  std::vector<std::uint32_t> checksums;
  RailTransfer what{.key = read.key,
                    .offset = read.offset,
                    .memory = std::move(into),
                    .timeouts = Clock::now() + 1h};
  read.status = co_await mover.move(std::move(what), checksums);
  ++read.ended;
  if (!read.status.ok()) co_return;
  EXPECT_TRUE(same(read.key, read.offset, *read.memory));
  EXPECT_EQ(checksums, checksumsOf(read.key, read.offset, read.memory->size()));
}

// A writer of newer and newer bytes.
Task<void> writeAll(RailMover& mover, std::span<TortureTransfer> writes, std::mt19937_64& random) {
  for (TortureTransfer& write : writes) {
    std::vector<std::uint32_t> checksums;
    RailTransfer what{.key = {},
                      .offset = write.offset,
                      .memory = piecesOf(write.memory, random),
                      .timeouts = Clock::now() + 60s,
                      .direction = Direction::kWrite,
                      .generation = write.generation};
    write.status = co_await mover.move(std::move(what), checksums);
    ++write.ended;
    if (!write.status.ok()) continue;
    EXPECT_EQ(checksums, checksumsOf(write.key, write.offset, write.memory->size()));
  }
}

std::vector<TortureTransfer> someWrites(std::mt19937_64& random) {
  std::vector<TortureTransfer> writes(random() % 5);
  std::uint64_t generation = 0;
  for (TortureTransfer& write : writes) {
    write.generation = ++generation;
    write.key.bytes[0] = static_cast<std::uint8_t>(generation);
    write.offset = random() % blocksOf(kShelfBytes) * kBlockBytes;
    const std::size_t size =
        std::min<std::size_t>((1 + random() % 3) * kBlockBytes, kShelfBytes - write.offset);
    const auto bytes = bytesOf(write.key, write.offset, size);
    write.memory = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  }
  return writes;
}

// If the newest write that wanted a block was taken, the block has its bytes.
void expectNewest(const Shelf& shelf, std::span<const TortureTransfer> writes, std::uint64_t seed) {
  for (std::size_t block = 0; block < blocksOf(kShelfBytes); ++block) {
    const std::size_t at = block * kBlockBytes;
    const TortureTransfer* newest = nullptr;
    for (const TortureTransfer& write : writes) {
      if (write.offset <= at && at < write.offset + write.memory->size()) newest = &write;
    }
    if (newest == nullptr || !newest->status.ok()) continue;
    EXPECT_EQ(shelf.generation(block), newest->generation) << "schedule " << seed;
    const std::size_t size = std::min(kBlockBytes, kShelfBytes - at);
    EXPECT_TRUE(same(newest->key, at, shelf.bytes().subspan(at, size)))
        << "schedule " << seed << ": block " << block << " is not of generation "
        << newest->generation;
  }
}

// Dropped and stalled requests end with their rail.
Task<void> endRails(Reactor& reactor, FaultyRails& rails, std::size_t count,
                    const std::vector<TortureTransfer>& reads,
                    const std::vector<TortureTransfer>& writes, std::mt19937_64& random) {
  const auto open = [](const TortureTransfer& each) { return each.ended == 0; };
  const auto under = [&] {
    return std::ranges::any_of(reads, open) || std::ranges::any_of(writes, open);
  };
  for (int turn = 1; under(); ++turn) {
    co_await reactor.sleep(Clock::duration::zero());
    if (turn % 32 != 0) continue;
    static_cast<void>(rails.usableRails(kBlockBytes));
    rails.at(random() % count).end();
  }
}

void expectOnce(const TortureTransfer& each, Tally& tally, std::uint64_t seed) {
  ++tally.ended[each.status.code()];
  EXPECT_EQ(each.ended, 1) << "schedule " << seed;
  EXPECT_EQ(each.memory.use_count(), 1) << "schedule " << seed << ": memory is not given back";
  // Checks again, when all late bytes have come.
  if (each.status.ok()) {
    EXPECT_TRUE(same(each.key, each.offset, *each.memory))
        << "schedule " << seed << ": written after it was given back";
  }
}

Task<void> runSchedule(Reactor& reactor, std::uint64_t seed, Tally& tally) {
  std::mt19937_64 random(seed);
  const Faults faults = someFaults(random);
  const std::size_t count = 1 + random() % 4;
  Shelf shelf(reactor, kShelfBytes);
  FaultyRails rails(reactor, count, faults, random(), givePattern, "faulty", shelf.take());
  RailMover mover(reactor, rails, kBlockBytes, std::chrono::microseconds(1));
  std::vector<TortureTransfer> reads(1 + random() % 3);
  std::vector<TortureTransfer> writes = someWrites(random);
  {
    Gate gate(reactor);
    // Two writers race, each with its part of them.
    const std::size_t first = writes.empty() ? 0 : random() % writes.size();
    gate.spawn(writeAll(mover, std::span(writes).first(first), random));
    gate.spawn(writeAll(mover, std::span(writes).subspan(first), random));
    for (TortureTransfer& read : reads) {
      read.key.bytes[0] = static_cast<std::uint8_t>(random());
      read.offset = random() % 8 * kBlockBytes;
      const std::size_t size = random() % 3 * kBlockBytes + 1 + random() % 1000;
      read.memory = std::make_shared<std::vector<std::byte>>(size);
      gate.spawn(readOne(mover, read, piecesOf(read.memory, random)));
    }
    co_await endRails(reactor, rails, count, reads, writes, random);
    co_await gate.close();
  }
  for (std::size_t i = 0; i < count; ++i) rails.at(i).end();
  co_await rails.close();
  for (const TortureTransfer& read : reads) expectOnce(read, tally, seed);
  for (const TortureTransfer& write : writes) expectOnce(write, tally, seed);
  expectNewest(shelf, writes, seed);
  tally.reads += static_cast<int>(reads.size());
  tally.writes += static_cast<int>(writes.size());
  tally.losses += shelf.losses();
  tally.hedged += rails.hedged();
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
  std::printf(
      "seed %llu: %d reads, %d writes, %zu slices posted, %zu late payloads, %zu places lost, "
      "%zu hedged;",
      static_cast<unsigned long long>(seed), tally.reads, tally.writes, tally.posted,
      tally.lateWrites, tally.losses, tally.hedged);
  for (const auto& [code, times] : tally.ended)
    std::printf(" %s %d", std::string(errorName(code)).c_str(), times);
  std::printf("\n");
  // The faults were met, and most came through all the same.
  EXPECT_GT(tally.lateWrites, 100u);
  EXPECT_GT(tally.losses, 100u);
  EXPECT_GT(tally.hedged, 100u);
  EXPECT_GT(tally.ended[ErrorCode::kOk], (tally.reads + tally.writes) / 2);
}

}  // namespace
}  // namespace hearth
