#include "transport/rail_mover.h"

#include <gtest/gtest.h>

#include "base/testing/eventually.h"
#include "transport/testing/faulty_rail.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using namespace testing_rails;

struct RailMoverTest : testing::Test {
  void start(std::size_t count, Faults faults = {}) {
    rails = std::make_unique<FaultyRails>(*reactor, count, faults, 7);
  }
  ~RailMoverTest() override {
    if (rails) reactor->runUntilComplete(closed(*rails));
  }
  static Task<bool> closed(FaultyRails& rails) {
    co_await rails.close();
    co_return true;
  }
  RailTransfer slice(std::size_t size, Clock::duration timeout = kHang) {
    memory = std::make_shared<std::vector<std::byte>>(size);
    return {.key = {},
            .offset = 0,
            .memory = MemorySlice::of(*memory, memory),
            .timeouts = Clock::now() + timeout};
  }
  Status read(std::size_t size, Clock::duration timeout = kHang) {
    RailMover mover(*reactor, *rails);
    const Status status = reactor->runUntilComplete(mover.move(slice(size, timeout), checksums));
    if (status.ok()) {
      EXPECT_TRUE(std::ranges::equal(*memory, bytesOf({}, 0, size)));
      EXPECT_EQ(checksums, crc32cOfBlocks(*memory, kBlockBytes));
    }
    return status;
  }
  // Posts the transfer to the first rail, without a mover.
  std::shared_ptr<RailRequest> post(RailTransfer read) {
    RailRequest::Posted posted = RailRequest::create(*reactor, std::move(read));
    std::vector<std::unique_ptr<RailWork>> batch;
    batch.push_back(std::move(posted.work));
    static_cast<void>(rails->usableRails(kBlockBytes));
    rails->at(0).post(std::move(batch));
    return posted.request;
  }
  static Task<bool> turns(Reactor& reactor, int count) {
    for (int i = 0; i < count; ++i) co_await reactor.sleep(Clock::duration::zero());
    co_return true;
  }
  void turn(int count) { reactor->runUntilComplete(turns(*reactor, count)); }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  std::unique_ptr<FaultyRails> rails;
  std::shared_ptr<std::vector<std::byte>> memory;
  std::vector<std::uint32_t> checksums;
};

TEST_F(RailMoverTest, CutsALargeReadForTheRailsThereAre) {
  start(3);
  EXPECT_TRUE(read(kPatternBytes - 12345).ok());
  EXPECT_EQ(rails->counts().posted, 1u) << "slices have a MiB at least";
  start(3);
  RailMover small(*reactor, *rails, kBlockBytes);
  EXPECT_TRUE(reactor->runUntilComplete(small.move(slice(8 * kBlockBytes), checksums)).ok());
  EXPECT_TRUE(std::ranges::equal(*memory, bytesOf({}, 0, 8 * kBlockBytes)));
  EXPECT_EQ(rails->counts().posted, 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(rails->at(i).counts().posted, 1u);
}

TEST_F(RailMoverTest, DoesNotRetryARefusal) {
  start(2, {.refused = 100});
  EXPECT_EQ(read(kBlockBytes).code(), ErrorCode::kTryElsewhere);
  EXPECT_EQ(rails->counts().posted, 1u);
}

TEST_F(RailMoverTest, TriesAFailedSliceOnAnotherRailOnce) {
  start(2, {.failed = 100});
  const Status status = read(kBlockBytes);
  EXPECT_EQ(status.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(status.error().message, "faulty: broke off");
  EXPECT_EQ(rails->at(0).counts().posted, 1u);
  EXPECT_EQ(rails->at(1).counts().posted, 1u);
}

TEST_F(RailMoverTest, EndsAtTheDeadlineAndLeavesTheMemoryToTheRail) {
  start(1, {.stalled = 100});
  EXPECT_EQ(read(kBlockBytes, 20ms).code(), ErrorCode::kDeadlineExceeded);
  const std::weak_ptr<std::vector<std::byte>> watched = std::exchange(memory, nullptr);
  turn(64);
  EXPECT_TRUE(watched.expired()) << "nothing holds it any more";
  EXPECT_EQ(rails->counts().lateWrites, 1u);
}

// The paused rail writes on after the cancel: the read goes to the other rail when that is over.
TEST_F(RailMoverTest, MovesASliceThatWaitsOnAPausedRail) {
  start(2);
  static_cast<void>(rails->usableRails(kBlockBytes));
  rails->at(0).setFaults({.stalled = 100, .paused = 100});
  EXPECT_TRUE(read(kBlockBytes).ok());
  EXPECT_EQ(rails->at(0).counts().posted, 1u);
  EXPECT_EQ(rails->counts().lateWrites, 1u);
  EXPECT_EQ(rails->at(1).counts().posted, 1u);
  EXPECT_EQ(rails->hedged(), 1u);
}

TEST_F(RailMoverTest, GivesAPausedRailNothingUntilItComesBack) {
  start(2);
  static_cast<void>(rails->usableRails(kBlockBytes));
  rails->at(0).setFaults({.dropped = 100, .paused = 100});
  const std::shared_ptr<RailRequest> waits = post(slice(kBlockBytes));
  turn(32);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(read(8 * kBlockBytes).ok());
  EXPECT_EQ(rails->at(0).counts().posted, 1u);
  EXPECT_EQ(rails->hedged(), 0u);
  rails->at(0).setFaults({});
  waits->cancel();
  turn(32);
  EXPECT_TRUE(read(kBlockBytes).ok());
  EXPECT_EQ(rails->at(0).counts().posted, 2u);
}

TEST_F(RailMoverTest, WaitsForTheFirstOfPausedRails) {
  start(2);
  static_cast<void>(rails->usableRails(kBlockBytes));
  for (std::size_t i = 0; i < 2; ++i) rails->at(i).setFaults({.dropped = 100, .paused = 100});
  const std::shared_ptr<RailRequest> waits = post(slice(kBlockBytes));
  turn(32);
  EXPECT_EQ(read(kBlockBytes, 300ms).code(), ErrorCode::kDeadlineExceeded);
  EXPECT_EQ(rails->at(1).counts().posted, 1u);
  EXPECT_EQ(rails->at(0).counts().posted, 1u);
  waits->cancel();
}

TEST_F(RailMoverTest, ACancelSaysWhetherTheMemoryIsFree) {
  start(1, {.stalled = 100});
  const std::shared_ptr<RailRequest> request = post(slice(kBlockBytes));
  turn(32);
  EXPECT_FALSE(request->cancel()) << "it was writing";
  EXPECT_TRUE(request->settled());
  EXPECT_EQ(request->outcome().status.code(), ErrorCode::kCancelled);
  EXPECT_TRUE(reactor->runUntilComplete(request->awaitReleased(Clock::now() + kHang)));
  EXPECT_TRUE(request->cancel());
  EXPECT_EQ(request->outcome().status.code(), ErrorCode::kCancelled);
}

TEST_F(RailMoverTest, SettlesDroppedWork) {
  RailRequest::Posted posted = RailRequest::create(*reactor, slice(kBlockBytes));
  posted.work.reset();
  EXPECT_TRUE(posted.request->settled());
  EXPECT_TRUE(posted.request->released());
  EXPECT_EQ(posted.request->outcome().status.code(), ErrorCode::kUnavailable);
}

TEST_F(RailMoverTest, AnAnswerAfterACancelChangesNothing) {
  RailRequest::Posted posted = RailRequest::create(*reactor, slice(kBlockBytes));
  bool heard = false;
  posted.work->onCancel([&] { heard = true; });
  EXPECT_FALSE(posted.request->cancel());
  EXPECT_TRUE(heard);
  posted.work->settle({Status(), true});
  EXPECT_EQ(posted.request->outcome().status.code(), ErrorCode::kCancelled);
  EXPECT_FALSE(posted.request->released());
  posted.work.reset();
  EXPECT_TRUE(posted.request->released());
}

// Makes regions of their own.
MemoryVector inPieces(const std::shared_ptr<std::vector<std::byte>>& memory, std::size_t size) {
  std::vector<MemorySlice> slices;
  for (std::size_t at = 0; at < memory->size(); at += size) {
    const auto rest = std::span(*memory).subspan(at);
    slices.push_back(MemorySlice::of(rest.first(std::min(size, rest.size())), memory));
  }
  return MemoryVector(std::move(slices));
}

TEST_F(RailMoverTest, FillsScatteredPieces) {
  start(3);
  RailMover mover(*reactor, *rails, kBlockBytes);
  RailTransfer what = slice(8 * kBlockBytes - 5);
  what.memory = inPieces(memory, 10'007);
  EXPECT_TRUE(reactor->runUntilComplete(mover.move(std::move(what), checksums)).ok());
  EXPECT_TRUE(std::ranges::equal(*memory, bytesOf({}, 0, memory->size())));
  EXPECT_EQ(checksums, crc32cOfBlocks(*memory, kBlockBytes));
}

TEST_F(RailMoverTest, ADeviceRegistersARegionOnce) {
  start(2);
  RailMover mover(*reactor, *rails, kBlockBytes);
  const RailTransfer what = slice(4 * kBlockBytes);
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(reactor->runUntilComplete(mover.move(what, checksums)).ok());
  EXPECT_EQ(rails->counts().posted, 10u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(rails->device(i).enrolled, 1) << i;
}

TEST_F(RailMoverTest, UsesAnotherDeviceForMemoryOutOfReach) {
  start(2);
  rails->device(0).failures = 1;
  EXPECT_TRUE(read(kBlockBytes).ok());
  EXPECT_EQ(rails->device(1).enrolled, 1);
}

TEST_F(RailMoverTest, RefusesMemoryThatNothingReaches) {
  start(2);
  RailMover mover(*reactor, *rails);
  RailTransfer what = slice(kBlockBytes);
  what.memory = MemorySlice{MemoryRegion::gpu(4096, kBlockBytes, nullptr), 0, kBlockBytes};
  const Status status = reactor->runUntilComplete(mover.move(std::move(what), checksums));
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
}

// Answers reads at once, or says that it does not reach them, and has the bandwidth given to it.
struct FastRail final : Rail {
  explicit FastRail(double bytesPerSecond, std::optional<Error> error = std::nullopt)
      : rate(bytesPerSecond), refusal(std::move(error)) {}
  void post(std::vector<std::unique_ptr<RailWork>> batch) override {
    for (const std::unique_ptr<RailWork>& work : batch) {
      ++posted;
      const RailTransfer& read = work->transfer();
      if (refusal) {
        work->settle({*refusal, false});
        continue;
      }
      copyInto(read.memory, 0, bytesOf(read.key, read.offset, read.memory.size()));
      std::ranges::copy(checksumsOf(read.key, read.offset, read.memory.size()),
                        work->checksums().begin());
      work->settle({Status(), true});
    }
  }
  [[nodiscard]] bool usable() const override { return true; }
  [[nodiscard]] bool paused() override { return false; }
  [[nodiscard]] std::uint64_t load() const override { return 0; }
  [[nodiscard]] double bytesPerSecond() const override { return rate; }

  const double rate;
  const std::optional<Error> refusal;
  int posted = 0;
};

// Fast rails beside others.
struct FastRails final : RailSource {
  explicit FastRails(FaultyRails& rails) : others(rails) {}
  [[nodiscard]] const std::string& peer() const override { return others.peer(); }
  [[nodiscard]] Task<Result<std::shared_ptr<Rail>>> rail(std::shared_ptr<Rail> avoid,
                                                         RequestTimeouts timeouts) override {
    return others.rail(std::move(avoid), timeouts);
  }
  [[nodiscard]] std::vector<std::shared_ptr<Rail>> usableRails(std::size_t bytes) override {
    return others.usableRails(bytes);
  }
  [[nodiscard]] std::vector<std::shared_ptr<Rail>> fastRails() override {
    return {fast.begin(), fast.end()};
  }
  void countHedged() override { others.countHedged(); }

  FaultyRails& others;
  std::vector<std::shared_ptr<FastRail>> fast;
};

TEST_F(RailMoverTest, AWrongGuessOfAFastRailUsesUpNoTry) {
  start(2);
  static_cast<void>(rails->usableRails(kBlockBytes));
  rails->at(0).setFaults({.failed = 100});
  FastRails source(*rails);
  const Error unsupported{ErrorCode::kUnsupported, "not this memory"};
  for (int at = 0; at < 2; ++at) source.fast.push_back(std::make_shared<FastRail>(0, unsupported));
  RailMover mover(*reactor, source);
  EXPECT_TRUE(reactor->runUntilComplete(mover.move(slice(kBlockBytes), checksums)).ok());
  EXPECT_TRUE(std::ranges::equal(*memory, bytesOf({}, 0, kBlockBytes)));
  for (const auto& rail : source.fast) EXPECT_EQ(rail->posted, 1);
  EXPECT_EQ(rails->at(0).counts().posted, 1u) << "which fails";
  EXPECT_EQ(rails->at(1).counts().posted, 1u);
}

TEST_F(RailMoverTest, FastRailsShareATransferByTheirBandwidth) {
  start(1);
  FastRails source(*rails);
  for (const double rate : {1e9, 3e9}) source.fast.push_back(std::make_shared<FastRail>(rate));
  RailMover mover(*reactor, source, kBlockBytes);
  EXPECT_TRUE(reactor->runUntilComplete(mover.move(slice(8 * kBlockBytes), checksums)).ok());
  EXPECT_TRUE(std::ranges::equal(*memory, bytesOf({}, 0, 8 * kBlockBytes)));
  EXPECT_EQ(source.fast[0]->posted, 1);
  EXPECT_EQ(source.fast[1]->posted, 3);
  EXPECT_EQ(rails->counts().posted, 0u);
}

TEST_F(RailMoverTest, AFastRailThatWasNotMeasuredIsTried) {
  start(1);
  FastRails source(*rails);
  for (const double rate : {0.0, 3e9}) source.fast.push_back(std::make_shared<FastRail>(rate));
  RailMover mover(*reactor, source, kBlockBytes);
  EXPECT_TRUE(reactor->runUntilComplete(mover.move(slice(8 * kBlockBytes), checksums)).ok());
  for (const auto& rail : source.fast) EXPECT_EQ(rail->posted, 2);
}

}  // namespace
}  // namespace hearth
