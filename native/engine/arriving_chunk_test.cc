// One agent reads a chunk from another one while that gets it from the origin.
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "engine/loopback_server.h"
#include "engine/testing_cluster.h"
#include "memory/memory_vector.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::size_t kFirst = kChunkBytes / 4;  // bytes that its origin gives before it stops

// Stops after the first bytes of a chunk until it is told how to go on.
class StoppingOrigin {
 public:
  [[nodiscard]] const RangeServer& server() const { return server_; }
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(bytes_));
  }
  void goOn(bool withAll) {
    const std::lock_guard lock(mutex_);
    goesOn_ = true;
    withAll_ = withAll;
    changed_.notify_all();
  }
  // After one failure the server gives whole ranges.
  void give(int fd, std::uint64_t first, std::uint64_t last) {
    const std::string_view range(bytes_.data() + first, last - first + 1);
    RangeServer::send(fd, range.substr(0, kFirst));
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return goesOn_; });
    if (std::exchange(withAll_, true)) RangeServer::send(fd, range.substr(kFirst));
  }

 private:
  const std::vector<char> bytes_ = pattern(kChunkBytes, 1);
  std::mutex mutex_;
  std::condition_variable changed_;
  bool goesOn_ = false, withAll_ = true;
  const RangeServer server_{kChunkBytes, [this](int fd, std::uint64_t first, std::uint64_t last) {
                              give(fd, first, last);
                            }};
};

struct ArrivingChunk : testing::Test {
  void SetUp() override {
    connect({&fetching, &asking});
    dataset = add(fetching);
    key = dataset->manifest->entry(filesOf(*dataset->manifest).front()).key;
    fetching.beginWarm(dataset, Verification::kNone);
    // The first bytes have come when the server was asked and this much was read.
    ASSERT_EQ(read(0, kFirst).code(), ErrorCode::kOk);
  }
  void TearDown() override {
    origin.goOn(true);
    asking.stop();
    fetching.stop();
  }
  std::shared_ptr<Dataset> add(Agent& agent) {
    const auto added = agent.await(agent.engine().manifests().add(origin.server().manifest()));
    EXPECT_TRUE(added.ok());
    (*added)->locations.setBase(origin.server().location());
    return *added;
  }
  Task<Status> ask(std::uint64_t offset) {
    Shard& shard = asking.engine().commons().owner(key);
    co_await shard.reactor->enter();
    Status status;
    // The transfer may not have begun, or may stand still for long on a busy machine.
    do {
      std::vector<std::uint32_t> checksums;
      Task<Status> reading = shard.transport->read(
          "fetching", key, offset, MemorySlice::of(memory, nullptr), checksums,
          RequestTimeouts(Clock::now() + kHang), RequestClass::kDemand);
      status = co_await reading;
    } while (status.code() == ErrorCode::kTryElsewhere);
    co_await asking.engine().home().enter();
    co_return status;
  }
  // Reads from the agent that fetches, into `got`.
  Status read(std::uint64_t offset, std::size_t size) {
    got.assign(size, std::byte{0});
    memory = got;
    return asking.await(ask(offset));
  }
  [[nodiscard]] bool isRight(std::uint64_t offset) const {
    return std::ranges::equal(got, origin.bytes().subspan(offset, got.size()));
  }

  StoppingOrigin origin;
  Agent fetching{"fetching"}, asking{"asking"};
  std::shared_ptr<Dataset> dataset;
  ContentKey key;
  std::vector<std::byte> got;
  std::span<std::byte> memory;
};

TEST_F(ArrivingChunk, GivesItsFirstBytesBeforeTheLastOnesAreThere) {
  EXPECT_TRUE(isRight(0)) << "while its origin gives no more";
  EXPECT_EQ(read(2 * kBlockBytes, kBlockBytes).code(), ErrorCode::kOk);
  EXPECT_TRUE(isRight(2 * kBlockBytes));
  EXPECT_EQ(fetching.engine().findJob("warm")->progress().originBytes, kFirst);
}

TEST_F(ArrivingChunk, GivesTheRestWhenThatComes) {
  auto rest = std::async(std::launch::async, [this] { return read(kFirst, kChunkBytes - kFirst); });
  origin.goOn(true);
  EXPECT_EQ(rest.get().code(), ErrorCode::kOk);
  EXPECT_TRUE(isRight(kFirst));
  EXPECT_EQ(fetching.awaitWarm().state, WarmState::kSucceeded);
}

// The origin's transfer is tried again where it broke off, so its readers need not know of it.
TEST_F(ArrivingChunk, GivesTheRestThatComesOnASecondTry) {
  auto rest = std::async(std::launch::async, [this] { return read(kFirst, kChunkBytes - kFirst); });
  origin.goOn(false);
  EXPECT_EQ(rest.get().code(), ErrorCode::kOk);
  EXPECT_TRUE(isRight(kFirst));
  EXPECT_GE(origin.server().requests(), 2);
}

TEST_F(ArrivingChunk, SendsItsReadersAwayWhenItsJobEnds) {
  auto rest = std::async(std::launch::async, [this] { return read(kFirst, kChunkBytes - kFirst); });
  fetching.engine().findJob("warm")->cancel();
  fetching.stop();
  EXPECT_NE(rest.get().code(), ErrorCode::kOk);
}

// Both agents want the file: it leaves the origin once, and comes to the second one from the first.
TEST_F(ArrivingChunk, IsReadByAnAgentThatWantsIt) {
  const std::uint64_t before = fetching.engine().commons().counters.servedBytes;
  asking.beginWarm(add(asking), Verification::kNone);
  EXPECT_TRUE(eventually([&] {
    return fetching.engine().commons().counters.servedBytes >= before + kFirst;
  })) << "what has come goes on";
  origin.goOn(true);
  const WarmProgress progress = asking.awaitWarm();
  ASSERT_EQ(progress.state, WarmState::kSucceeded);
  EXPECT_EQ(progress.peerBytes, kChunkBytes);
  EXPECT_EQ(progress.originBytes, 0u);
  EXPECT_EQ(origin.server().requests(), 1);
}

}  // namespace
}  // namespace hearth::testing_cluster
