// Moves with slots that each break one rule, by public calls only: tests of memory are to find
// every one of them. For tests.
#pragma once

#include <vector>

#include "fetch/testing_slot_moves.h"

namespace hearth::testing_support {

// A reader reads on after its reference is gone.
struct ReferenceDroppedEarly final : SlotMoves {
  HeldBytes hold(std::shared_ptr<LoadedChunk> found) override { return {found->bytes, nullptr}; }
};

// A dropped chunk's slot is free at once, and not when its last reader has let go.
struct SlotReturnedEarly final : SlotMoves {
  void letGo(LoadedChunk& loaded) override {
    const ChunkBuffer returned = std::move(loaded.buffer);
  }
};

// Readers find a chunk whose bytes are still to come.
struct LandedBeforeFilled final : SlotMoves {
  void beforeLanding(const LoadedChunk& /*loaded*/, const Tag& /*tag*/,
                     std::size_t /*stride*/) override {}
  void afterLanding(const LoadedChunk& loaded, const Tag& tag, std::size_t stride) override {
    writeTags(loaded.bytes, tag, stride);
  }
};

// Peers are answered from a part of a chunk whose bytes are still to come.
struct AnsweredBeforeFilled final : SlotMoves {
  void beforeAnswers(std::span<std::byte> /*part*/, const Tag& /*tag*/,
                     std::size_t /*stride*/) override {}
  void afterAnswers(std::span<std::byte> part, const Tag& tag, std::size_t stride) override {
    writeTags(part, tag, stride);
  }
};

// A chunk that its file dropped on the way to the disk is found again when it is written.
struct KeptAfterDrop final : SlotMoves {
  void settle(MemoryTier& tier, const std::shared_ptr<KeyFetch>& file, std::uint32_t chunk,
              const std::shared_ptr<LoadedChunk>& loaded) override {
    tier.keep(file, chunk, loaded);
  }
};

// The last reader leaves its chunk where the shard looks before it asks for a slot; a shard that
// waits already hears nothing.
struct NoWakeUp final : SlotMoves {
  std::shared_ptr<LoadedChunk> load(Reactor& reactor, ChunkBuffer memory) override {
    return {new LoadedChunk(std::move(memory), kChunkBytes), [this, &reactor](LoadedChunk* chunk) {
              std::unique_ptr<LoadedChunk> last(chunk);
              if (!reactor.onThisThread()) left_.push_back(std::move(last));
            }};
  }
  void look() override { left_.clear(); }

 private:
  std::vector<std::unique_ptr<LoadedChunk>> left_;
};

// A shard that finds nothing to evict, as readers hold it all, does not look again.
struct NoSecondLook final : SlotMoves {
  void attach(SlotStock& stock, MemoryTier& tier) override {
    stock.setReclaim([&tier] { return tier.yieldTo({Clock::time_point::max(), true}); });
  }
};

// Another shard was asked for slots, and its answer never comes.
struct NoAnswer final : SlotMoves {
  void attach(SlotStock& stock, MemoryTier& /*tier*/) override {
    stock.setMore([] { return true; }, stock.reach());
  }
};

}  // namespace hearth::testing_support
