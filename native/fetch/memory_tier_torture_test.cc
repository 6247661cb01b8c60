// Other threads take chunks out of the memory tier while its own thread lets chunks in, replaces
// them and evicts them. A chunk's bytes must be those of its file, index and one generation for as
// long as somebody holds the chunk, because its slot may be filled again only after the last holder
// let go.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "fetch/memory_tier.h"
#include "fetch/testing_slots.h"

namespace hearth {
namespace {

constexpr std::size_t kSlots = 8;
constexpr std::uint8_t kFiles = 4;
constexpr std::uint32_t kChunks = 3;  // of each file, so that all files together need 12 slots
constexpr int kReaders = 3;
constexpr int kSteps = 20'000;
constexpr std::size_t kStride = 4096;

struct Tag {
  std::uint32_t file, chunk;
  std::uint64_t generation;
  bool operator==(const Tag&) const = default;
};

Tag tagAt(const LoadedChunk& loaded, std::size_t offset) {
  Tag tag{};
  std::memcpy(&tag, loaded.bytes.data() + offset, sizeof(tag));
  return tag;
}

void write(const LoadedChunk& loaded, const Tag& tag) {
  for (std::size_t offset = 0; offset < loaded.bytes.size(); offset += kStride)
    std::memcpy(loaded.bytes.data() + offset, &tag, sizeof(tag));
}

bool isWhole(const LoadedChunk& loaded, const Tag& tag) {
  for (std::size_t offset = 0; offset < loaded.bytes.size(); offset += kStride) {
    if (tagAt(loaded, offset) != tag) return false;
  }
  return true;
}

std::shared_ptr<KeyFetch> fileOf(std::uint8_t number) {
  ContentKey key;
  key.bytes[0] = number;
  return std::make_shared<KeyFetch>(key, kChunks * kChunkBytes, nullptr,
                                    std::make_shared<LoadedChunks>());
}

class Torture {
 public:
  Torture() {
    for (std::uint8_t file = 0; file < kFiles; ++file) files_.at(file) = fileOf(file);
  }

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
      const std::shared_ptr<LoadedChunk> loaded = files_.at(file)->memory->find(chunk);
      if (loaded == nullptr) continue;
      const Tag tag = tagAt(*loaded, 0);
      const bool right = tag.file == file && tag.chunk == chunk;
      std::this_thread::yield();
      if (!right || !isWhole(*loaded, tag)) ++torn_;
      ++found_;
    }
  }

  Task<bool> turnOver() {
    std::mt19937 random(kReaders);
    for (std::uint64_t step = 1; step <= kSteps; ++step) {
      const std::uint32_t file = random() % kFiles, chunk = random() % kChunks;
      const std::shared_ptr<KeyFetch>& fetch = files_.at(file);
      if (random() % 32 == 0) tier_.forget(fetch->key);
      std::vector<ChunkBuffer> memory = co_await pool_.acquire(Priority::kDemand, 1);
      const auto loaded = loadInto(*reactor_, std::move(memory.front()), kChunkBytes);
      write(*loaded, {file, chunk, step});
      tier_.keep(fetch, chunk, loaded);
    }
    co_return true;
  }

  // Readers post the chunks that they held last to this thread.
  Task<bool> slotsAreBack() {
    while (stock_.free() != kSlots) co_await reactor_->sleep(std::chrono::milliseconds(1));
    co_return true;
  }

  std::unique_ptr<Reactor> reactor_ = std::move(*Reactor::create());
  testing_support::OwnedSlots slots_{kSlots};
  SlotStock stock_{slots_.all()};
  BufferPool pool_{*reactor_, stock_, kSlots};
  MemoryTier tier_{*reactor_, stock_};
  std::array<std::shared_ptr<KeyFetch>, kFiles> files_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> torn_{0}, found_{0};
};

TEST(MemoryTierTorture, AChunkKeepsItsBytesWhileAnyoneHoldsIt) {
  Torture torture;
  torture.run();
  EXPECT_TRUE(torture.allWhole());
  EXPECT_GT(torture.found(), 0u);
  EXPECT_GT(torture.evicted(), 0u);
}

}  // namespace
}  // namespace hearth
