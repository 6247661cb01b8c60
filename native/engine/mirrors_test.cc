// Datasets with several sources: one of them fails, lies or has another file, and the tests look at
// what readers see. Time passes where a server says so.
#include <gmock/gmock.h>

#include "engine/testing_mirrors.h"

namespace hearth::testing_cluster {
namespace {

using namespace std::chrono_literals;

TEST_F(MirrorsTest, AllGiveTheirPart) {
  serve(giving(bytes));
  serve(giving(bytes));
  add();
  expectRight();
  EXPECT_GT(of(0).bytes, 0U);
  EXPECT_GT(of(1).bytes, 0U);
  EXPECT_EQ(of(0).bytes + of(1).bytes, kMirrored);
}

TEST_F(MirrorsTest, PutsADeadMirrorAside) {
  serve(giving(bytes));
  serve(giving(bytes)).stop();
  add();
  expectRight();
  EXPECT_NE(of(1).aside, "");
  EXPECT_EQ(of(0).bytes, kMirrored);
  EXPECT_TRUE(said("the mirror " + servers[1].url() + " is put aside"));
}

TEST_F(MirrorsTest, PutsADeadFirstSourceAside) {
  serve(giving(bytes)).stop();
  serve(giving(bytes));
  add();
  expectRight();
  EXPECT_NE(of(0).aside, "");
  EXPECT_EQ(of(1).bytes, kMirrored);
  EXPECT_TRUE(said("the first source is put aside"));
  EXPECT_FALSE(dataset->originLacksFiles.load());
}

TEST_F(MirrorsTest, AMirrorThatStopsInsideAChunkLeavesNothingOfIt) {
  serve(giving(bytes));
  serve([&](int fd, std::uint64_t first, std::uint64_t last) {
    RangeServer::send(
        fd, {others.data() + first, static_cast<std::size_t>((last - first + 1) / 2 + 1)});
  });
  add();
  // The last chunk of the range came in part, with other bytes. The chunk before it came whole,
  // from a server that has the ETag and lies; so nothing but a digest could show it.
  const auto got = read();
  ASSERT_TRUE(got.ok()) << got.error().message;
  for (std::uint64_t at = 0; at < kMirrored; at += kChunkBytes) {
    const bool right = std::memcmp(got->data() + at, bytes.data() + at, kChunkBytes) == 0;
    const bool wrong = std::memcmp(got->data() + at, others.data() + at, kChunkBytes) == 0;
    EXPECT_TRUE(right || wrong) << "two sources are mixed in the chunk at " << at;
  }
  EXPECT_GE(of(1).failures, 1U);
}

TEST_F(MirrorsTest, ReportsAMirrorWithAnotherTagOnce) {
  serve(giving(bytes));
  serve(giving(others), kOtherTag);
  add();
  expectRight();
  EXPECT_EQ(of(1).bytes, 0U);
  EXPECT_EQ(of(1).unproved, 1U);
  EXPECT_EQ(of(1).aside, "");
  EXPECT_TRUE(said("has not every file as it was listed"));
}

TEST_F(MirrorsTest, AsksForNothingThatNothingProves) {
  serve(giving(bytes));
  serve(giving(others));
  add(false, "");
  expectRight();
  EXPECT_EQ(servers[1].requests(), 0);
  EXPECT_EQ(of(1).unproved, 1U);
  EXPECT_TRUE(said("is not asked for files of which nothing can be proved"));
}

TEST_F(MirrorsTest, AsksForNothingThatOnlyItsOwnTagsProve) {
  serve(giving(bytes));
  serve(giving(others));
  sameTags = false;
  add();
  expectRight();
  EXPECT_EQ(servers[1].requests(), 0) << "it has the same ETag for other bytes";
  EXPECT_EQ(of(1).unproved, 1U);
}

TEST_F(MirrorsTest, TheDigestFindsALiar) {
  serve(giving(bytes));
  serve(giving(others), kOtherTag);
  add(true);
  expectRightAtLast();
  EXPECT_GT(servers[1].requests(), 0) << "any ETag will do where there is a digest";
  EXPECT_NE(of(1).aside, "");
  EXPECT_EQ(of(0).aside, "");
}

TEST_F(MirrorsTest, AsksForNothingByATagOfAllFiles) {
  constexpr auto kOfAll = R"("00000000000000000000000000000000-1")";
  serve(giving(bytes), kOfAll);
  serve(giving(others), kOfAll);
  add(false, std::string("etag:") + kOfAll);
  expectRight();
  EXPECT_EQ(servers[1].requests(), 0);
}

TEST_F(MirrorsTest, ALiarAmongThemDoesNotTakeTheFileFromReadersOfTheOthers) {
  serve(giving(bytes)).stop();
  serve(giving(others));
  serve(giving(bytes));
  add(true);
  expectRightAtLast();
  EXPECT_NE(of(1).aside, "");
}

TEST_F(MirrorsTest, AFirstSourceThatIsWrongLeavesTheFileToThem) {
  serve(giving(others));
  serve(giving(bytes));
  add(true);
  expectRightAtLast();
  EXPECT_EQ(dataset->sources.now()->ranking.look(~SourceMask{0}, 0, Clock::now()).lied, 0U);
}

TEST_F(MirrorsTest, PutsAMirrorWithoutLocationsAside) {
  serve(giving(bytes));
  serve(giving(bytes));
  add();
  dataset->sources.locations(1)->clear();  // the agent above gives no others
  expectRight();
  EXPECT_TRUE(askedOfMirror);
  EXPECT_NE(of(1).aside, "");
  EXPECT_EQ(of(0).bytes, kMirrored);
}

TEST_F(MirrorsTest, KeepsAMirrorThatHidesWhichFilesItHas) {
  serve(giving(bytes));
  serve(giving(bytes)).refuse([] {
    return "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  });
  add();
  expectRight();
  EXPECT_GE(servers[1].requests(), 1);
  EXPECT_EQ(of(1).unproved, 1U);
  EXPECT_EQ(of(1).aside, "");
}

TEST_F(MirrorsTest, WhenAllAreDeadTheErrorNamesEach) {
  for (int i = 0; i < 3; ++i) serve(giving(bytes)).stop();
  add();
  const auto got = read();
  ASSERT_EQ(got.code(), ErrorCode::kUnavailable);
  const std::string& message = got.error().message;
  EXPECT_THAT(message, testing::HasSubstr("the first source: "));
  EXPECT_THAT(message, testing::HasSubstr("the mirror " + servers[1].url() + ": "));
  EXPECT_THAT(message, testing::HasSubstr("the mirror " + servers[2].url() + ": "));
}

TEST_F(MirrorsTest, LeavesASourceAloneEvenIfThereIsNoOther) {
  constexpr auto kAlone = 20s;
  serve(giving(bytes));
  serve(giving(bytes)).stop();
  std::atomic<int> refused{0};
  std::atomic<Clock::time_point> first{Clock::time_point::min()};
  servers[0].refuse([&]() -> std::string {
    if (refused == 0) first = Clock::now();
    if (Clock::now() - first.load() >= kAlone) return "";
    ++refused;
    return "HTTP/1.1 503 Busy\r\nRetry-After: 20\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  });
  add();
  std::jthread passing([&](const std::stop_token& stop) {
    for (Clock::duration moved{}; moved < kAlone + 1s && !stop.stop_requested();) {
      std::this_thread::sleep_for(5ms);
      if (refused == 0) continue;
      moveClock(20ms);
      moved += 20ms;
    }
  });
  expectRight();
  EXPECT_GE(refused, 1);
  EXPECT_LE(refused, 3) << "what was under way when it said so";
  EXPECT_EQ(of(0).bytes, kMirrored);
}

TEST_F(MirrorsTest, FailsAtOnceWhenTheFirstHasChanged) {
  serve(giving(others), kOtherTag);
  serve(giving(bytes));
  add();
  const auto got = read();
  EXPECT_EQ(got.code(), ErrorCode::kOriginChanged);
  EXPECT_TRUE(dataset->originLacksFiles.load());
}

TEST_F(MirrorsTest, LeavesAHangingSourceForAnother) {
  std::atomic<bool> hangs{false};
  serve(giving(bytes));
  serve([&](int /*fd*/, std::uint64_t /*first*/, std::uint64_t /*last*/) {
    hangs = true;
    // Until the source is a straggler; requests to the other source then take their own time.
    for (int times = 0; times < 25; ++times) {
      moveClock(100ms);
      std::this_thread::sleep_for(1ms);
    }
    while (!servers[1].stopping()) std::this_thread::sleep_for(1ms);
  });
  add();
  expectRight();
  EXPECT_TRUE(hangs);
  EXPECT_NE(of(1).aside, "");
  EXPECT_EQ(of(0).bytes, kMirrored);
}

TEST_F(MirrorsTest, LeavesATricklingSourceForAnother) {
  serve(giving(bytes));
  serve([&](int fd, std::uint64_t first, std::uint64_t last) {
    constexpr std::uint64_t kPiece = 1024;
    // Too fast for a stall, and far too slow to wait for.
    for (std::uint64_t at = first; at + kPiece <= last && !servers[1].stopping(); at += kPiece) {
      if (!RangeServer::send(fd, {bytes.data() + at, kPiece})) return;
      moveClock(100ms);
      std::this_thread::sleep_for(5ms);
    }
  });
  add();
  expectRight();
  EXPECT_GT(servers[1].requests(), 0);
  EXPECT_EQ(of(0).bytes, kMirrored);
}

TEST_F(MirrorsTest, AreReplacedUnderARequestThatGoesOn) {
  serve(giving(bytes));
  serve(giving(bytes));
  add();
  // The request waits for a location of the mirror.
  dataset->sources.locations(1)->clear();
  std::thread replacing([&] {
    EXPECT_TRUE(eventually([&] { return askedOfMirror.load(); }));
    dataset->sources.setMirrors({});
  });
  expectRight();
  replacing.join();
}

TEST_F(MirrorsTest, OtherMirrorsBeginWithNothingKnown) {
  serve(giving(bytes));
  serve(giving(bytes)).stop();
  add();
  expectRight();
  dataset->sources.setMirrors({{.name = servers[1].url(), .sameTags = true}});
  EXPECT_NE(of(1).aside, "") << "the same";
  dataset->sources.setMirrors({{.name = "https://other/", .sameTags = true}});
  EXPECT_EQ(of(1).aside, "");
  EXPECT_EQ(dataset->sources.locations(2), nullptr);
}

}  // namespace
}  // namespace hearth::testing_cluster
