// Where answers leave from, and whose memory they hold meanwhile: slots of an arena, or copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "transport/rdma_test_pair.h"
#include "transport/staging_buffers.h"

namespace hearth {
namespace {

constexpr std::size_t kSlots = 16;  // of which a peer may hold 4, and all peers 8
constexpr std::uint64_t kSlotsOfPeer = 4;

// Lends the chunk in a slot. The token, which outlives it, counts those who hold the slot.
class LentSlot final : public LentPayload {
 public:
  LentSlot(std::span<const std::byte> bytes, const std::shared_ptr<int>& token)
      : bytes_(bytes), token_(token) {}
  Piece now() override { return {bytes_, std::make_shared<std::shared_ptr<int>>(token_)}; }
  Task<Status> load() override { co_return Error{ErrorCode::kInternal, "it is always there"}; }
  void release() override {}

 private:
  const std::span<const std::byte> bytes_;
  const std::shared_ptr<int>& token_;
};

// Agents a and c read from b, whose handler lends one slot of its arena after the other.
class RdmaAnswersTest : public RdmaPair {
 protected:
  void startHolder() {
    arena_ = *MemoryRegion::allocate(kSlots * kChunkBytes);
    for (std::size_t slot = 0; slot < kSlots; ++slot) tokens_.push_back(std::make_shared<int>());
    const auto ports = devices({{.name = "b0", .address = 2}});
    ASSERT_TRUE(arena_->registrationWith(ports.front()).ok());
    b_ = node("b", ports, {arena_});
    portsOfA_ = devices({{.name = "a0", .address = 1}});
    a_ = node("a", portsOfA_);
    portsOfC_ = devices({{.name = "c0", .address = 3}});
    c_ = node("c", portsOfC_);
    b_->setPeers({a_->identity(), c_->identity()});
    for (TestNode* const reader : {a_.get(), c_.get()}) reader->setPeers({b_->identity()});
    b_->post([this] {
      for (std::size_t slot = 0; slot < kSlots; ++slot)
        std::ranges::copy(b_->handler->chunk, slotAt(slot).begin());
      b_->handler->lend = [this] {
        const std::size_t slot = next_++ % kSlots;
        return std::make_shared<LentSlot>(slotAt(slot), tokens_[slot]);
      };
    });
    ASSERT_TRUE(connects(*a_, portsOfA_));
    ASSERT_TRUE(connects(*c_, portsOfC_));
  }
  void TearDown() override {
    fabric_.judgeBy({});
    c_.reset();
    b_.reset();
    arena_.reset();
    portsOfC_.clear();
    RdmaPair::TearDown();
  }

  std::span<std::byte> slotAt(std::size_t slot) {
    return arena_->bytes().subspan(slot * kChunkBytes, kChunkBytes);
  }
  bool connects(TestNode& reader, const std::vector<std::shared_ptr<RdmaDevice>>& ports) {
    return eventually([&] {
      readMany(reader, ports, 1, kLent);
      return ofHolder(reader).answers != 0;
    });
  }
  void readMany(TestNode& reader, const std::vector<std::shared_ptr<RdmaDevice>>& ports,
                std::size_t count, Behaviour behaviour) {
    RdmaPair::readMany(count, kChunkBytes, {&reader, ports, behaviour});
  }
  // The holder's counts of its answers to `reader`.
  RailStatistics ofHolder(TestNode& reader) {
    const PeerStatistics of = b_->statisticsOf(reader.options.node);
    return of.rdmaRails.empty() ? RailStatistics() : of.rdmaRails.front();
  }
  // Slots that somebody holds.
  [[nodiscard]] std::uint64_t held() const {
    return static_cast<std::uint64_t>(std::ranges::count_if(
        tokens_, [](const std::shared_ptr<int>& token) { return token.use_count() > 1; }));
  }

  // From now on nothing that the holder sends to `reader` arrives, and nothing fails.
  void slowDown(TestNode& reader, const std::vector<std::shared_ptr<RdmaDevice>>& ports) {
    auto pair = std::make_shared<std::atomic<std::uint32_t>>(0);
    fabric_.judgeBy([pair](std::uint32_t from, ibv_wr_opcode opcode) -> Fabric::Verdict {
      if (opcode == IBV_WR_RDMA_WRITE) *pair = from;
      return {};
    });
    EXPECT_TRUE(eventually([&] {
      readMany(reader, ports, 1, kLent);
      return *pair != 0;
    }));
    fabric_.judgeBy([slow = pair->load()](std::uint32_t from, ibv_wr_opcode) -> Fabric::Verdict {
      return {.held = from == slow};
    });
  }
  // Asks for `count` chunks of the arena for a, whose answers are held, and waits until the holder
  // has given it as much as it may hold.
  std::future<void> fillQuotaOfA(std::size_t count) {
    slowDown(*a_, portsOfA_);
    const RailStatistics before = ofHolder(*a_);
    auto reading =
        std::async(std::launch::async, [this, count] { readMany(*a_, portsOfA_, count, kLent); });
    EXPECT_TRUE(eventually([&] {
      const RailStatistics now = ofHolder(*a_);
      return now.bytesInPlace - before.bytesInPlace == kSlotsOfPeer * kChunkBytes &&
             now.bytesCopied - before.bytesCopied == StagingBuffers::kPerPeer * kChunkBytes;
    }));
    EXPECT_EQ(held(), kSlotsOfPeer);
    return reading;
  }
  // Uses the slots, which nobody holds, for something else; later answers come from other memory.
  void reuseArena() {
    b_->post([this] {
      std::ranges::fill(arena_->bytes(), std::byte{0xee});
      b_->handler->lend = [this] {
        return std::make_shared<LentSlot>(b_->handler->chunk, tokens_.front());
      };
    });
  }
  // Asks for chunks that the holder begins to send and a does not get, until the holder lets go of
  // them.
  template <class F>
  void expectReleaseAfter(F fault) {
    slowDown(*a_, portsOfA_);
    const RailStatistics before = ofHolder(*a_);
    auto reading = std::async(std::launch::async, [this] { readMany(*a_, portsOfA_, 12, kLent); });
    EXPECT_TRUE(eventually([&] { return ofHolder(*a_).bytesInPlace > before.bytesInPlace; }));
    fault();
    reading.get();
    EXPECT_TRUE(eventually([&] { return held() == 0; }));
    reuseArena();
    fabric_.judgeBy({});
    fabric_.resume();
    readMany(*a_, portsOfA_, 4, kLent);
  }

  std::shared_ptr<MemoryRegion> arena_;
  std::vector<std::shared_ptr<int>> tokens_;
  std::size_t next_ = 0;
  std::vector<std::shared_ptr<RdmaDevice>> portsOfC_;
  std::unique_ptr<TestNode> c_;
};

TEST_F(RdmaAnswersTest, LeaveFromTheArena) {
  startHolder();
  const RailStatistics before = ofHolder(*a_);
  for (int round = 0; round < 16; ++round) readMany(*a_, portsOfA_, 4, kLent);
  const RailStatistics after = ofHolder(*a_);
  EXPECT_EQ(after.bytesInPlace - before.bytesInPlace, 64 * kChunkBytes);
  EXPECT_EQ(after.bytesCopied, before.bytesCopied);
  EXPECT_TRUE(eventually([&] { return held() == 0; }));
}

TEST_F(RdmaAnswersTest, OfOtherMemoryAreCopied) {
  startHolder();
  const RailStatistics before = ofHolder(*a_);
  readMany(*a_, portsOfA_, 4, kPlain);
  const RailStatistics after = ofHolder(*a_);
  EXPECT_EQ(after.bytesCopied - before.bytesCopied, 4 * kChunkBytes);
  EXPECT_EQ(after.bytesInPlace, before.bytesInPlace);
}

TEST_F(RdmaAnswersTest, ASlowReaderHoldsItsQuotaAndOthersGoOn) {
  startHolder();
  std::future<void> reading = fillQuotaOfA(12);
  const RailStatistics ofA = ofHolder(*a_), before = ofHolder(*c_);
  for (int round = 0; round < 10; ++round) {
    readMany(*c_, portsOfC_, 2, kLent);
    readMany(*c_, portsOfC_, 2, kPlain);
  }
  const RailStatistics after = ofHolder(*c_);
  EXPECT_EQ(after.bytesInPlace - before.bytesInPlace, 20 * kChunkBytes);
  EXPECT_EQ(after.bytesCopied - before.bytesCopied, 20 * kChunkBytes);
  EXPECT_EQ(ofHolder(*a_).answers, ofA.answers) << "the rest of a's answers wait for its own";
  EXPECT_EQ(held(), kSlotsOfPeer);
  fabric_.judgeBy({});
  fabric_.resume();
  reading.get();
  EXPECT_TRUE(eventually([&] { return held() == 0; }));
}

// Both sides notice by themselves: the reader by silence, the holder by its own deadline.
class RdmaAnswersLostTest : public RdmaAnswersTest {
 protected:
  RdmaAnswersLostTest() {
    silence_ = kShortSilence;
    hold_ = 500ms;
  }
};

TEST_F(RdmaAnswersLostTest, AreReleasedWhenTheReaderTakesNothing) {
  startHolder();
  expectReleaseAfter([] {});
}

TEST_F(RdmaAnswersLostTest, AreReleasedWhenTheHoldersDeviceIsGone) {
  startHolder();
  expectReleaseAfter([this] { fabric_.remove(2); });
}

TEST_F(RdmaAnswersTest, HoldsEndWithTheQueuePair) {
  startHolder();
  std::future<void> reading = fillQuotaOfA(12);
  fabric_.setLink(1, false);
  fabric_.judgeBy({});
  fabric_.resume();
  reading.get();
  EXPECT_TRUE(eventually([&] { return held() == 0; }));
}

TEST_F(RdmaAnswersTest, HoldsEndWhenTheHolderCloses) {
  startHolder();
  slowDown(*a_, portsOfA_);
  into_ = *MemoryRegion::allocate(kChunkBytes);
  ASSERT_TRUE(into_->registrationWith(portsOfA_.front()).ok());
  auto reading = std::async(std::launch::async, [this] {
    std::vector<std::uint32_t> checksums;
    return a_->await([&] {
      return a_->transport->read("b", keyOf(kLent), 0, MemorySlice{into_, 0, kChunkBytes},
                                 checksums, Clock::now() + kHang, RequestClass::kDemand);
    });
  });
  EXPECT_TRUE(eventually([&] { return held() == 1; }));
  b_->close();
  EXPECT_EQ(held(), 0u);
  std::ranges::fill(arena_->bytes(), std::byte{0xee});
  fabric_.judgeBy({});
  fabric_.resume();
  EXPECT_FALSE(reading.get().ok());
  EXPECT_THAT(into_->bytes(), ::testing::Each(std::byte{0})) << "the slot's next bytes came";
}

}  // namespace
}  // namespace hearth
