// A process that fills, publishes, uses and frees slots is killed at any instruction, many times:
// every slot that its successor adopts has the bytes of its record.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "arena/testing/filled_arena.h"

namespace hearth {
namespace {

using testing_arena::FilledArena;

constexpr int kKills = 60;
constexpr std::size_t kSlots = 12;

// One step of a process that serves from the slots and refills them.
void step(const FilledArena& filled, std::mt19937_64& random) {
  const std::size_t slot = random() % kSlots;
  ArenaIndex& index = *filled.index;
  switch (index.state(slot)) {
    case SlotState::kFree: {
      const std::size_t size = (random() % (3 * kBlockBytes) + 8) / 8 * 8;
      filled.fill(slot, FilledArena::keyOf(random() % 100), random() % 1000, size);
      break;
    }
    case SlotState::kValid:
      if (random() % 3 == 0) {
        // A device writes into it: it may not be adopted meanwhile.
        const std::size_t at = random() % 8;
        index.noteBusy(slot);
        filled.arena->bytes(slot)[at] ^= std::byte{0xff};
        std::atomic_signal_fence(std::memory_order_seq_cst);
        filled.arena->bytes(slot)[at] ^= std::byte{0xff};
        index.noteIdle(slot);
      } else {
        index.free(slot);
      }
      break;
    default:
      index.free(slot);
  }
}

[[noreturn]] void runChild(const FilledArena& filled, std::uint64_t seed, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  std::mt19937_64 random(seed);
  for (;;) step(filled, random);
}

bool hasItsBytes(const Arena& arena, const AdoptedSlot& adopted) {
  std::vector<std::byte> wanted(adopted.contents.bytes);
  FilledArena::write(wanted, adopted.contents.key, adopted.contents.chunk);
  return std::ranges::equal(wanted, arena.bytes(adopted.slot).first(wanted.size()));
}

TEST(ArenaKill, NoSlotIsAdoptedWithOtherBytes) {
  FilledArena filled = FilledArena::create(kSlots);
  std::mt19937_64 random(20261125);
  std::size_t adoptedSlots = 0, quarantined = 0;
  for (int round = 0; round < kKills; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) runChild(filled, random(), ::getppid());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);

    auto arena = filled.adoptedArena();
    auto adopted = ArenaIndex::adopt(*arena, filled.indexFile());
    ASSERT_TRUE(adopted.ok());
    const ArenaFindings& findings = adopted->findings;
    ASSERT_EQ(findings.refused, "") << "round " << round;
    ASSERT_EQ(findings.refusedRecords, 0u) << "round " << round << ": a record that is torn";
    for (const AdoptedSlot& slot : findings.valid) {
      // Before it may be used; that it never fails says that what is published is whole.
      EXPECT_TRUE(adopted->index->verify(slot.slot, arena->bytes(slot.slot)))
          << "round " << round << ", slot " << slot.slot;
      EXPECT_TRUE(hasItsBytes(*arena, slot)) << "round " << round << ", slot " << slot.slot;
    }
    adoptedSlots += findings.valid.size();
    quarantined += findings.quarantined;
    ASSERT_EQ(adopted->index->releaseQuarantine(*arena), 0u);
    filled = FilledArena{std::move(arena), std::move(adopted->index)};
  }
  RecordProperty("adopted", static_cast<int>(adoptedSlots));
  RecordProperty("quarantined", static_cast<int>(quarantined));
  EXPECT_GT(adoptedSlots, static_cast<std::size_t>(kKills)) << "children were killed too early";
  EXPECT_GT(quarantined, 0u) << "none was killed in the middle of a fill";
}

}  // namespace
}  // namespace hearth
