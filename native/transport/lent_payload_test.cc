// Payloads whose owner needs the memory for something else before they are sent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "transport/limits.h"
#include "transport/raw_peer.h"
#include "transport/test_node.h"

namespace hearth {
namespace {

// A chunk in memory that can be reclaimed, and then comes from "the disk".
class TestPayload final : public LentPayload {
 public:
  // `disk`: when that is set, the disk answers.
  explicit TestPayload(std::shared_ptr<const std::vector<std::byte>> bytes, bool lost = false,
                       Event* disk = nullptr)
      : bytes_(bytes),
        memory_(std::make_shared<std::vector<std::byte>>(*bytes)),
        lost_(lost),
        disk_(disk) {}

  Piece now() override {
    const std::lock_guard lock(mutex_);
    if (memory_ && left_-- > 0) return {*memory_, memory_};
    if (loaded_) return {*bytes_, bytes_};
    return {};
  }
  Task<Status> load() override {
    loads_ = true;
    if (disk_ != nullptr) co_await disk_->wait();
    if (lost_) co_return Error{ErrorCode::kCorrupt, "a block was bad"};
    const std::lock_guard lock(mutex_);
    if (comesBack_) {
      memory_ = std::make_shared<std::vector<std::byte>>(*bytes_);
    } else {
      loaded_ = true;
    }
    co_return Status();
  }
  void release() override {
    const std::lock_guard lock(mutex_);
    memory_.reset();
  }
  // Takes the memory back once it has been looked at so often.
  void releaseAfter(int looks) { left_ = looks; }
  // A loaded payload is in reclaimable memory again, and not on the disk alone.
  void comesBack() { comesBack_ = true; }
  // Expired: the memory can be used for something else.
  [[nodiscard]] std::weak_ptr<std::vector<std::byte>> memory() {
    const std::lock_guard lock(mutex_);
    return memory_;
  }
  // Waits for it.
  [[nodiscard]] bool loads() const {
    return eventually([&] { return loads_.load(); });
  }

 private:
  std::mutex mutex_;
  const std::shared_ptr<const std::vector<std::byte>> bytes_;
  std::shared_ptr<std::vector<std::byte>> memory_;
  int left_ = 1 << 30;
  bool loaded_ = false;
  bool comesBack_ = false;
  const bool lost_;
  Event* const disk_;
  std::atomic<bool> loads_ = false;
};

class LentPayloadTest : public testing::TestWithParam<Reactor::Backend> {
 protected:
  void start(bool lost = false) {
    node = std::make_unique<TestNode>(TestNode::optionsOf("asked"), GetParam());
    lend([this, lost] { return std::make_shared<TestPayload>(chunk, lost); });
  }
  void lend(std::function<std::shared_ptr<TestPayload>()> make) {
    node->post([&] {
      node->handler->lend = [this, make] {
        const std::lock_guard lock(mutex);
        payloads.push_back(make());
        return payloads.back();
      };
    });
  }
  void ask(RawPeer& peer, std::uint64_t id) {
    ASSERT_TRUE(peer.send(encodeFrame(ReadRequest{keyOf(kLent), 0, kChunkBytes, 600'000}, id)));
  }
  // Asks for as many answers as fill every buffer between, so that one is half sent and others have
  // not begun.
  static constexpr int kMany = 8;
  void askForMoreThanFits(RawPeer& peer) {
    for (std::uint64_t id = 1; id <= kMany; ++id) ask(peer, id);
    ASSERT_NE(payload(kMany - 1), nullptr);
  }
  std::shared_ptr<TestPayload> payload(std::size_t at) {
    std::shared_ptr<TestPayload> found;
    eventually([&] {
      const std::lock_guard lock(mutex);
      if (payloads.size() > at) found = payloads[at];
      return found != nullptr;
    });
    return found;
  }
  // Waits for it.
  static bool freed(const std::weak_ptr<std::vector<std::byte>>& memory) {
    return eventually([&] { return memory.expired(); });
  }
  // Takes one frame, an answer or a part of one. Returns its kind; nothing at the end of the
  // stream.
  std::optional<FrameType> take(RawPeer& peer) {
    const std::optional<RawPeer::Got> got = peer.frame();
    if (!got) return std::nullopt;
    if (got->header.type != FrameType::kReadAnswer) return got->header.type;
    const Result<ReadAnswer> answer = decodeBody<ReadAnswer>(got->body);
    if (!answer.ok()) return std::nullopt;
    const AnswerPart part = answer->part.value_or(AnswerPart{0, true});
    const std::vector<std::byte> bytes = peer.receive(answer->payloadLength);
    if (bytes.size() < answer->payloadLength) return std::nullopt;
    if (answer->code != ErrorCode::kOk) {  // instead of all parts, or of those that are left
      EXPECT_TRUE(answer->code == ErrorCode::kTryElsewhere ||
                  answer->code == ErrorCode::kCancelled);
      ++refused;
      ++answered;
      return FrameType::kReadAnswer;
    }
    EXPECT_EQ(answer->blockChecksums, crc32cOfBlocks(bytes, kBlockBytes));
    std::vector<std::byte>& whole = received[got->header.requestId];
    EXPECT_EQ(whole.size(), part.offset) << "parts come in order";
    whole.insert(whole.end(), bytes.begin(), bytes.end());
    if (!part.last) return FrameType::kReadAnswer;
    EXPECT_EQ(whole, *chunk);
    ++answered;
    return FrameType::kReadAnswer;
  }
  void expectAnswers(RawPeer& peer, int count) {
    while (answered < count) ASSERT_EQ(take(peer), FrameType::kReadAnswer);
  }

  const std::shared_ptr<const std::vector<std::byte>> chunk =
      std::make_shared<std::vector<std::byte>>(patternBytes(kChunkBytes));
  std::mutex mutex;
  std::vector<std::shared_ptr<TestPayload>> payloads;
  // Bytes that the peer got: in all, as an error, and so far of each request.
  int answered = 0, refused = 0;
  std::map<std::uint64_t, std::vector<std::byte>> received;
  std::unique_ptr<TestNode> node;  // ends before the objects that its thread uses
};

INSTANTIATE_TEST_SUITE_P(Backends, LentPayloadTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         [](const auto& backend) {
                           return backend.param == Reactor::Backend::kEpoll ? "epoll" : "io_uring";
                         });

TEST_P(LentPayloadTest, SendsAPayloadWholeFromItsMemory) {
  start();
  RawPeer peer(node->listeners[0]->address());
  ASSERT_TRUE(peer.join());
  for (std::uint64_t id = 1; id <= 3; ++id) ask(peer, id);
  expectAnswers(peer, 3);
  EXPECT_FALSE(payload(0)->memory().expired()) << "it was not taken";
}

TEST_P(LentPayloadTest, GivesMemoryBackInTheMiddleOfAnAnswer) {
  start();
  RawPeer peer(node->listeners[0]->address());
  ASSERT_TRUE(peer.join());
  ASSERT_NO_FATAL_FAILURE(askForMoreThanFits(peer));
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const std::weak_ptr<std::vector<std::byte>> memory = payload(i)->memory();
    payload(i)->release();
    EXPECT_TRUE(freed(memory)) << i;
  }
  expectAnswers(peer, kMany);
}

TEST_P(LentPayloadTest, OneConnectionKeepsALimitedNumberOfBytes) {
  start();
  RawPeer peer(node->listeners[0]->address());
  ASSERT_TRUE(peer.join());
  constexpr int kAnswers = 12;
  for (std::uint64_t id = 1; id <= kAnswers; ++id) ask(peer, id);
  ASSERT_NE(payload(kAnswers - 1), nullptr);
  const auto kept = [&] {
    std::size_t bytes = 0;
    for (std::uint64_t i = 0; i < kAnswers; ++i) {
      if (!payload(i)->memory().expired()) bytes += kChunkBytes;
    }
    return bytes;
  };
  // Bytes in the kernel leave the count, and stay in the test's memory.
  constexpr std::size_t kOfKernel = 16 << 20;
  EXPECT_TRUE(eventually([&] { return kept() <= kLentBytesPerConnection + kOfKernel; }));
  expectAnswers(peer, kAnswers);
}

// All waiting payloads load at once, as none of them is here. A slow peer then keeps no more of
// them than of payloads that never left their memory.
TEST_P(LentPayloadTest, LimitsLoadedPayloadsInMemoryToo) {
  start();
  Event disk(*node->reactor);
  lend([this, &disk] {
    const auto payload = std::make_shared<TestPayload>(chunk, false, &disk);
    payload->comesBack();
    payload->release();
    return payload;
  });
  RawPeer peer(node->listeners[0]->address());
  ASSERT_TRUE(peer.join());
  constexpr std::size_t kAnswers = 14;
  for (std::uint64_t id = 1; id <= kAnswers; ++id) ask(peer, id);
  for (std::size_t i = 0; i < kAnswers; ++i) {
    ASSERT_NE(payload(i), nullptr);
    ASSERT_TRUE(payload(i)->loads());
  }
  node->post([&] { disk.set(); });
  ASSERT_EQ(take(peer), FrameType::kReadAnswer) << "all have been brought";
  std::size_t kept = 0;
  for (std::size_t i = 0; i < kAnswers; ++i) {
    if (!payload(i)->memory().expired()) kept += kChunkBytes;
  }
  EXPECT_LE(kept, kLentBytesPerConnection);
  expectAnswers(peer, kAnswers);
}

TEST_P(LentPayloadTest, AnswersAnErrorForAPayloadLostBeforeItsAnswer) {
  start(true);
  lend([this] {
    const auto payload = std::make_shared<TestPayload>(chunk, true);
    payload->release();
    return payload;
  });
  RawPeer peer(node->listeners[0]->address());
  ASSERT_TRUE(peer.join());
  ask(peer, 1);
  const std::optional<ReadAnswer> answer = peer.expect<ReadAnswer>();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->code, ErrorCode::kTryElsewhere);
}

// Otherwise an agent with a slow disk would be taken for one that is gone.
TEST_P(LentPayloadTest, OtherFramesDoNotWaitForTheDisk) {
  start();
  Event disk(*node->reactor);
  lend([this, &disk] {
    const auto payload = std::make_shared<TestPayload>(chunk, false, &disk);
    payload->release();
    return payload;
  });
  RawPeer peer(node->listeners[0]->address());
  ASSERT_TRUE(peer.join());
  ask(peer, 1);
  EXPECT_TRUE(payload(0)->loads());
  EXPECT_TRUE(peer.send(encodeEmptyFrame(FrameType::kPing, 0)));
  const std::optional<RawPeer::Got> pong = peer.frame();
  EXPECT_TRUE(pong && pong->header.type == FrameType::kPong);
  node->post([&] { disk.set(); });
  expectAnswers(peer, 1);
}

// A frame that has begun cannot be interrupted, so it must not wait for the disk.
TEST_P(LentPayloadTest, OtherFramesDoNotWaitForTheDiskInTheMiddleOfAnAnswer) {
  start();
  Event disk(*node->reactor);
  lend([this, &disk] { return std::make_shared<TestPayload>(chunk, false, &disk); });
  RawPeer peer(node->listeners[0]->address());
  ASSERT_TRUE(peer.join());
  ASSERT_NO_FATAL_FAILURE(askForMoreThanFits(peer));
  for (int i = 0; i < kMany; ++i) payload(i)->release();
  EXPECT_TRUE(peer.send(encodeEmptyFrame(FrameType::kPing, 0)));
  std::optional<FrameType> frame = take(peer);
  while (frame == FrameType::kReadAnswer) frame = take(peer);
  EXPECT_EQ(frame, FrameType::kPong);
  node->post([&] { disk.set(); });
  if (frame) expectAnswers(peer, kMany);
}

TEST_P(LentPayloadTest, AnAskerWithAShortSilenceTimeoutWaitsForTheDisk) {
  start();
  Event disk(*node->reactor);
  lend([this, &disk] {
    const auto payload = std::make_shared<TestPayload>(chunk, false, &disk);
    payload->releaseAfter(2);
    return payload;
  });
  TestNode asker(TestNode::optionsOf("asker"), GetParam());
  asker.setPeers({node->identity()});
  std::thread slow([&] {
    EXPECT_TRUE(payload(0) != nullptr && payload(0)->loads());
    std::this_thread::sleep_for(4s);
    node->post([&] { disk.set(); });
  });
  std::vector<std::byte> bytes(kChunkBytes);
  std::vector<std::uint32_t> checksums;
  const Status status = asker.await([&] {
    return asker.transport->read("asked", keyOf(kLent), 0, MemorySlice::of(bytes), checksums,
                                 RequestTimeouts(Clock::now() + kHang, 3s), RequestClass::kDemand);
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(bytes, *chunk);
  slow.join();
}

TEST_P(LentPayloadTest, APayloadLostInTheMiddleCostsNoConnection) {
  start(true);
  RawPeer peer(node->listeners[0]->address());
  ASSERT_TRUE(peer.join());
  ASSERT_NO_FATAL_FAILURE(askForMoreThanFits(peer));
  for (int i = 0; i < kMany; ++i) payload(i)->release();
  expectAnswers(peer, kMany);
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(peer.send(encodeEmptyFrame(FrameType::kPing, 0)));
  EXPECT_EQ(take(peer), FrameType::kPong);
}

// A peer that gave up gets no more of the answer, even when it has begun.
TEST_P(LentPayloadTest, ACancelledAnswerNeedsNoDisk) {
  start();
  Event disk(*node->reactor);
  lend([this, &disk] { return std::make_shared<TestPayload>(chunk, false, &disk); });
  RawPeer peer(node->listeners[0]->address());
  ASSERT_TRUE(peer.join());
  ASSERT_NO_FATAL_FAILURE(askForMoreThanFits(peer));
  for (int i = 0; i < kMany; ++i) payload(i)->release();
  for (std::uint64_t id = 1; id <= kMany; ++id)
    ASSERT_TRUE(peer.send(encodeEmptyFrame(FrameType::kCancel, id)));
  while (answered < kMany) ASSERT_EQ(take(peer), FrameType::kReadAnswer);
  EXPECT_GT(refused, 0);
  node->post([&] { disk.set(); });
}

// The first of several payloads, whether given up or not, waits for a disk that hangs.
TEST_P(LentPayloadTest, ALoadThatHangsHoldsNoOtherAnswer) {
  start();
  Event disk(*node->reactor);
  lend([this, &disk] {
    const bool hangs = payloads.size() < 2;
    const auto payload = std::make_shared<TestPayload>(chunk, false, hangs ? &disk : nullptr);
    if (payloads.size() != 3) payload->release();
    return payload;
  });
  RawPeer peer(node->listeners[0]->address());
  ASSERT_TRUE(peer.join());
  for (std::uint64_t id = 1; id <= 2; ++id) {
    ask(peer, id);
    ASSERT_NE(payload(id - 1), nullptr);
    EXPECT_TRUE(payload(id - 1)->loads());
  }
  // The agent reports that at once, which gives the asker its credit back.
  ASSERT_TRUE(peer.send(encodeEmptyFrame(FrameType::kCancel, 1)));
  const std::optional<ReadAnswer> withdrawn = peer.expect<ReadAnswer>();
  EXPECT_TRUE(withdrawn && withdrawn->code == ErrorCode::kCancelled);
  ask(peer, 3);  // comes from the disk
  ask(peer, 4);  // is in memory
  expectAnswers(peer, 2);
  EXPECT_EQ(received[3].size(), kChunkBytes);
  EXPECT_EQ(received[4].size(), kChunkBytes);
  node->post([&] { disk.set(); });
  if (!HasFailure()) expectAnswers(peer, 3);
}

TEST_P(LentPayloadTest, OneConnectionHasALimitedNumberOfLoads) {
  start();
  Event disk(*node->reactor);
  std::atomic<bool> hangs{true};
  lend([this, &disk, &hangs] {
    const auto payload = std::make_shared<TestPayload>(chunk, false, hangs ? &disk : nullptr);
    payload->release();
    return payload;
  });
  RawPeer peer(node->listeners[0]->address());
  ASSERT_TRUE(peer.join());
  for (std::uint64_t id = 1; id <= kLoadsPerConnection; ++id) {
    ask(peer, id);
    ASSERT_NE(payload(id - 1), nullptr);
    EXPECT_TRUE(payload(id - 1)->loads());
    ASSERT_TRUE(peer.send(encodeEmptyFrame(FrameType::kCancel, id)));
    ASSERT_EQ(take(peer), FrameType::kReadAnswer);
  }
  hangs = false;
  ask(peer, kLoadsPerConnection + 1);
  ASSERT_TRUE(peer.send(encodeEmptyFrame(FrameType::kPing, 0)));
  EXPECT_EQ(take(peer), FrameType::kPong) << "other frames pass";
  node->post([&] { disk.set(); });
  expectAnswers(peer, kLoadsPerConnection + 1);
}

}  // namespace
}  // namespace hearth
