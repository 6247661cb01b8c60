// An origin that is away for a while: reads and warm jobs wait for it, and are told apart from
// those of an origin that has said its last word.
#include <gmock/gmock.h>

#include <future>

#include "engine/testing_mirrors.h"
#include "mount/dataset_source.h"

namespace hearth::testing_cluster {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kServerBusy = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
constexpr auto kMissing = "HTTP/1.1 404 Missing\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

// One server, which gives `refusal` instead of bytes as long as there is one.
struct OriginAway : MirrorsTest {
  void SetUp() override {
    originWait = 5min;
    serve(giving(bytes)).refuse([this] { return std::string(refusal.load()); });
    add();
  }
  [[nodiscard]] auto readAside() {
    return std::async(std::launch::async, [this] { return read(); });
  }
  [[nodiscard]] bool isAwaited() const { return !dataset->absence.words().empty(); }
  void warm(bool hasDeadline) {
    WarmOptions options;
    options.job = "warm";
    options.entries = filesOf(*dataset->manifest);
    options.dataset = dataset;
    options.verify = Verification::kNone;
    options.hasDeadline = hasDeadline;
    ASSERT_TRUE(agent.engine().warm(std::move(options)).ok());
  }
  std::atomic<const char*> refusal{kServerBusy};
};

TEST_F(OriginAway, AReadWaitsUntilItIsBack) {
  auto reading = readAside();
  ASSERT_TRUE(eventually([&] { return isAwaited(); }));
  EXPECT_THAT(dataset->absence.words(), HasSubstr("each for up to 300 s: model: "));
  EXPECT_THAT(dataset->absence.words(), HasSubstr("503"));
  EXPECT_TRUE(said("reads wait for the origin"));
  refusal = "";
  const auto got = reading.get();
  ASSERT_TRUE(got.ok()) << got.error().message;
  EXPECT_EQ(std::memcmp(got->data(), bytes.data(), bytes.size()), 0);
  EXPECT_TRUE(eventually([&] { return said("no read waits for the origin any more"); }));
  EXPECT_FALSE(isAwaited());
}

TEST_F(OriginAway, AReadGivesUpAtTheBound) {
  auto reading = readAside();
  ASSERT_TRUE(eventually([&] { return isAwaited(); }));
  moveClock(6min);
  EXPECT_EQ(reading.get().code(), ErrorCode::kUnavailable);
  EXPECT_TRUE(eventually([&] { return !isAwaited(); }));
}

TEST_F(OriginAway, NoReadWaitsForAFinalAnswer) {
  refusal = kMissing;
  EXPECT_EQ(read().code(), ErrorCode::kNotFound);
  refusal = "HTTP/1.1 412 Changed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(read().code(), ErrorCode::kOriginChanged);
  EXPECT_FALSE(said("reads wait for the origin"));
}

TEST_F(OriginAway, AReadEndsWhenItsReaderHasGone) {
  DatasetSource source(*agent.engine().commons().mounting, dataset, "test", false);
  const auto opened = *source.openFile(*dataset->manifest->lookUp("model"));
  std::promise<ErrorCode> answered;
  std::atomic<bool> wanted{true};
  opened->read(
      0, 4096, [&](const Result<MappedBytes>& answer) { answered.set_value(answer.code()); },
      [&] { return wanted.load(); });
  ASSERT_TRUE(eventually([&] { return isAwaited(); }));
  wanted = false;
  EXPECT_EQ(answered.get_future().get(), ErrorCode::kUnavailable);
}

TEST_F(OriginAway, AWarmJobWaitsUntilItIsBack) {
  warm(false);
  ASSERT_TRUE(eventually([&] { return isAwaited(); }));
  const WarmProgress waiting = agent.engine().findJob("warm")->progress();
  EXPECT_EQ(waiting.state, WarmState::kRunning);
  EXPECT_THAT(waiting.waitingFor, HasSubstr("503"));
  refusal = "";
  const WarmProgress ended = agent.awaitWarm();
  EXPECT_EQ(ended.state, WarmState::kSucceeded);
  EXPECT_EQ(ended.waitingFor, "");
  expectRight();
}

TEST_F(OriginAway, AWarmJobGivesUpAtTheBoundOfReads) {
  warm(false);
  ASSERT_TRUE(eventually([&] { return isAwaited(); }));
  moveClock(6min);
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kFailed);
}

TEST_F(OriginAway, AWarmJobWithADeadlineWaitsUntilItIsCancelled) {
  warm(true);
  ASSERT_TRUE(eventually([&] { return isAwaited(); }));
  moveClock(1h);
  const int requests = servers[0].requests();
  ASSERT_TRUE(eventually([&] { return servers[0].requests() > requests + 1; }));
  const auto job = agent.engine().findJob("warm");
  ASSERT_EQ(job->progress().state, WarmState::kRunning);
  job->cancel();
  EXPECT_TRUE(eventually([&] { return job->progress().state == WarmState::kCancelled; }));
}

TEST_F(OriginAway, AWarmJobThatFailsWaitsForNoOtherFile) {
  warm(true);
  ASSERT_TRUE(eventually([&] { return isAwaited(); }));
  refusal = kMissing;
  EXPECT_EQ(agent.awaitWarm().state, WarmState::kFailed);
}

}  // namespace
}  // namespace hearth::testing_cluster
