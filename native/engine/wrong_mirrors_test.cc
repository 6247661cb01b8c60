// Datasets with a lying source: the agent finds the right file, whatever fails meanwhile.
#include "engine/testing_mirrors.h"

namespace hearth::testing_cluster {
namespace {

using namespace std::chrono_literals;

constexpr auto kBusy = "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

struct WrongMirrorsTest : MirrorsTest {
  // Makes the server refuse one request once the file was wrong so often.
  void hiccup(RangeServer& server, int timesWrongThen) {
    server.refuse([this, timesWrongThen]() -> std::string {
      return timesWrong() == timesWrongThen && !hadHiccup.exchange(true) ? kBusy : "";
    });
  }
  [[nodiscard]] bool isWanted() {
    const ContentKey key = dataset->manifest->entry(*dataset->manifest->lookUp("model")).key;
    Shard& owner = agent.engine().commons().owner(key);
    return runOn(*owner.reactor, isWantedHere(owner, key));
  }
  static Task<bool> isWantedHere(Shard& owner, ContentKey key) {
    co_return owner.wanted->find(key) != nullptr;
  }
  std::atomic<bool> hadHiccup{false};
};

TEST_F(WrongMirrorsTest, TheRightSourceMayFailOnceInItsTurn) {
  serve(giving(others));
  hiccup(serve(giving(bytes)), 2);
  add(true);
  expectRightAtLast();
  EXPECT_TRUE(hadHiccup);
}

TEST_F(WrongMirrorsTest, TheFirstSourceMayFailOnceInItsTurn) {
  hiccup(serve(giving(bytes)), 1);
  serve(giving(others));
  add(true);
  expectRightAtLast();
  EXPECT_TRUE(hadHiccup);
}

TEST_F(WrongMirrorsTest, RefusesTheFileWhereAllAreWrong) {
  serve(giving(others));
  serve(giving(others));
  add(true);
  ASSERT_TRUE(eventually([&] { return read(kMirrored).code() == ErrorCode::kCorrupt; }));
  EXPECT_EQ(timesWrong(), 2) << "from both, and from the first";
  EXPECT_EQ(dataset->sources.now()->ranking.look(~SourceMask{0}, 0, Clock::now()).lied, 0U);
}

// The state of the search outlives the readers: a further reader, who begins with nothing of the
// file here, does not get the wrong bytes of the first source again.
TEST_F(WrongMirrorsTest, GoesOnAfterAllReadersGaveUp) {
  serve(giving(others));
  serve(giving(bytes)).refuse([]() -> std::string { return kBusy; });
  add(true);
  (void)read(kMirrored);
  for (int reader = 0; reader < 2; ++reader) {
    ASSERT_TRUE(eventually([&] { return timesWrong() == 2 && !isWanted(); }));
    const int requests = servers[0].requests();
    EXPECT_EQ(read().code(), ErrorCode::kUnavailable);
    EXPECT_EQ(servers[0].requests(), requests);
  }
  EXPECT_EQ(timesWrong(), 2);
}

// The first source gave all of the file wrong: it is not asked when the other one fails.
TEST_F(WrongMirrorsTest, ReadsNoWrongSourceAgainWhileTheOtherIsAway) {
  std::atomic<bool> away{false};
  serve(giving(others));
  serve(giving(bytes)).refuse([&]() -> std::string {
    away = away || timesWrong() == 2;
    return away ? kBusy : "";
  });
  add(true);
  (void)read(kMirrored);
  ASSERT_TRUE(eventually([&] { return away.load(); }));
  const int requests = servers[0].requests();
  const auto got = read();
  EXPECT_EQ(got.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(servers[0].requests(), requests);
  EXPECT_EQ(timesWrong(), 2);
}

}  // namespace
}  // namespace hearth::testing_cluster
