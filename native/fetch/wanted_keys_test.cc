#include "fetch/wanted_keys.h"

#include <gtest/gtest.h>

#include "files/crash_file_system.h"

namespace hearth {
namespace {

class WantedKeysTest : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = reactor->runUntilComplete(
        ContentCache::open({{"/cache", std::uint64_t{1} << 30, 0}}, {{*reactor, files}}));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    cache = std::move(*opened);
    keys = std::make_unique<WantedKeys>(*cache);
  }
  void TearDown() override {
    const auto close = [this]() -> Task<bool> {
      co_await cache->close();
      co_return true;
    };
    reactor->runUntilComplete(close());
  }
  CopyState state() { return keys->report(key).copy.value_or(CopyState()); }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
  std::unique_ptr<ContentCache> cache;
  std::unique_ptr<WantedKeys> keys;
  const ContentKey key{};
};

TEST_F(WantedKeysTest, ReportsTheHomeAskedForLeaveUntilTheRequestEnds) {
  EXPECT_EQ(state().asked, "");
  keys->beginRelease(key, "home", 7);
  EXPECT_EQ(state().asked, "home");
  EXPECT_EQ(state().request, 7u);
  keys->endRelease(key, 7);
  EXPECT_EQ(state().asked, "");
}

// The end of a request may come late, behind the next question.
TEST_F(WantedKeysTest, TheEndOfAnEarlierRequestEndsNoLaterRequest) {
  keys->beginRelease(key, "home", 7);
  keys->beginRelease(key, "other", 8);
  keys->endRelease(key, 7);
  EXPECT_EQ(state().asked, "other");
  EXPECT_EQ(state().request, 8u);
  keys->endRelease(key, 0);
  EXPECT_EQ(state().asked, "other") << "0 is of no question";
  keys->endRelease(key, 8);
  EXPECT_EQ(state().asked, "");
}

}  // namespace
}  // namespace hearth
