// Other threads take chunks out of the memory tier while its own thread lets chunks in, replaces
// them and evicts them. A chunk's bytes must be those of its file, index and one generation for as
// long as somebody holds the chunk, because its slot may be filled again only after the last holder
// let go.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "fetch/testing_slot_moves.h"
#include "fetch/testing_slots.h"

namespace hearth {
namespace {

using testing_support::HeldBytes;
using testing_support::SlotMoves;
using testing_support::Tag;
using testing_support::tagAt;

constexpr std::size_t kSlots = 8;
constexpr std::uint8_t kFiles = 4;
constexpr std::uint32_t kChunks = 3;  // of each file, so that all files together need 12 slots
constexpr int kReaders = 3;
constexpr std::uint64_t kSteps = 20'000;
constexpr std::size_t kStride = 4096;
// A reader lingers over one chunk of so many, for so many steps of the shard: most chunks have been
// replaced or evicted by then.
constexpr std::uint32_t kLingerEvery = 4;
constexpr std::uint64_t kLingerSteps = 64;
// At one landing of so many the shard waits until all readers linger.
constexpr std::uint32_t kPaceEvery = 512;

std::shared_ptr<KeyFetch> fileOf(std::uint8_t number) {
  ContentKey key;
  key.bytes[0] = number;
  return std::make_shared<KeyFetch>(key, kChunks * kChunkBytes, nullptr,
                                    std::make_shared<LoadedChunks>());
}

class Torture {
 public:
  // `moves` must remain live while this object is used.
  explicit Torture(SlotMoves& moves) : moves_(moves) {
    for (std::uint8_t file = 0; file < kFiles; ++file) files_.at(file) = fileOf(file);
  }

  // Ends at the first torn chunk.
  void run() {
    std::vector<std::thread> readers;
    for (int seed = 0; seed < kReaders; ++seed) readers.emplace_back([this, seed] { read(seed); });
    reactor_->runUntilComplete(turnOver());
    stopped_ = true;
    for (std::thread& reader : readers) reader.join();
    tier_.clear();
    reactor_->runUntilComplete(slotsAreBack());
  }

  [[nodiscard]] bool allWhole() const { return torn_ == 0; }
  [[nodiscard]] std::uint64_t found() const { return found_; }
  [[nodiscard]] std::uint64_t evicted() const { return tier_.evictedFiles(); }

 private:
  void read(int seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    while (!stopped_) {
      const std::uint32_t file = random() % kFiles, chunk = random() % kChunks;
      std::shared_ptr<LoadedChunk> loaded = files_.at(file)->memory->find(chunk);
      if (loaded == nullptr) continue;
      const HeldBytes held = moves_.hold(std::move(loaded));
      const Tag tag = tagAt(held.bytes, 0);
      const bool right = tag.file == file && tag.chunk == chunk;
      if (random() % kLingerEvery == 0) {
        linger();
      } else {
        std::this_thread::yield();
      }
      if (!right || !allTagged(held.bytes, tag, kStride)) ++torn_;
      ++found_;
    }
  }

  // Relaxed, here and in pace(): nothing but the chunk store orders the shard's writes and a
  // reader's reads.
  void linger() {
    const std::uint64_t until = steps_.load(std::memory_order_relaxed) + kLingerSteps;
    lingering_.fetch_add(1, std::memory_order_relaxed);
    while (!stopped_.load(std::memory_order_relaxed) &&
           steps_.load(std::memory_order_relaxed) < until)
      std::this_thread::yield();
    lingering_.fetch_sub(1, std::memory_order_relaxed);
  }

  // Keeps a shard that has a processor for itself from ending before readers have begun.
  void pace() const {
    while (lingering_.load(std::memory_order_relaxed) < kReaders) std::this_thread::yield();
  }

  Task<bool> turnOver() {
    std::mt19937 random(kReaders);
    for (std::uint64_t step = 1; step <= kSteps && torn_ == 0; ++step) {
      const std::uint32_t file = random() % kFiles, chunk = random() % kChunks;
      const std::shared_ptr<KeyFetch>& fetch = files_.at(file);
      if (random() % 32 == 0) drop(*fetch);
      std::vector<ChunkBuffer> memory = co_await pool_.acquire(Priority::kDemand, 1);
      const auto loaded = moves_.load(*reactor_, std::move(memory.front()));
      const Tag tag{file, chunk, step};
      moves_.beforeLanding(*loaded, tag, kStride);
      fetch->loaded.put(chunk, loaded);
      if (random() % kPaceEvery == 0) pace();
      moves_.afterLanding(*loaded, tag, kStride);
      moves_.settle(tier_, fetch, chunk, loaded);
      steps_.store(step, std::memory_order_relaxed);
    }
    co_return true;
  }

  void drop(const KeyFetch& fetch) {
    for (const auto& [chunk, loaded] : fetch.loaded.all()) moves_.letGo(*loaded);
    tier_.forget(fetch.key);
  }

  // Readers post the chunks that they held last to this thread.
  Task<bool> slotsAreBack() {
    while (stock_.free() != kSlots) co_await reactor_->sleep(std::chrono::milliseconds(1));
    co_return true;
  }

  SlotMoves& moves_;
  std::unique_ptr<Reactor> reactor_ = std::move(*Reactor::create());
  testing_support::OwnedSlots slots_{kSlots};
  SlotStock stock_{slots_.all()};
  BufferPool pool_{*reactor_, stock_, kSlots};
  MemoryTier tier_{*reactor_, stock_};
  std::array<std::shared_ptr<KeyFetch>, kFiles> files_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> torn_{0}, found_{0}, steps_{0};
  std::atomic<int> lingering_{0};
};

TEST(MemoryTierTorture, AHeldChunkKeepsItsBytes) {
  SlotMoves moves;
  Torture torture(moves);
  torture.run();
  EXPECT_TRUE(torture.allWhole());
  EXPECT_GT(torture.found(), 0u);
  EXPECT_GT(torture.evicted(), 0u);
}

}  // namespace
}  // namespace hearth
