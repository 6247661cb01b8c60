#include "engine/bounded_log.h"

#include <gtest/gtest.h>

#include <thread>

namespace hearth {
namespace {

// The lines that a busy agent has yet to take.
struct BoundedLogTest : testing::Test {
  void logs(int lines) {
    for (int i = 0; i < lines; ++i)
      log(events, EngineEvent::Level::kWarn, "line " + std::to_string(i));
  }
  std::vector<EngineEvent> untaken;
  EventSink events =
      withBoundedLog([this](EngineEvent event) { untaken.push_back(std::move(event)); }, 3);
};

TEST_F(BoundedLogTest, DropsAndCountsLinesBeyondTheBound) {
  logs(10);
  ASSERT_EQ(untaken.size(), 3u);
  EXPECT_EQ(untaken.back().message, "line 2");
  untaken.erase(untaken.begin());
  logs(2);
  ASSERT_EQ(untaken.size(), 3u);
  EXPECT_EQ(untaken.back().message, "line 0");
  EXPECT_EQ(untaken.back().fields.at("lines_left_out"), "7");
  untaken.clear();
  logs(3);
  EXPECT_EQ(untaken.front().fields.at("lines_left_out"), "1");
  EXPECT_FALSE(untaken.back().fields.contains("lines_left_out"));
}

TEST_F(BoundedLogTest, DropsNoOtherEvents) {
  logs(10);
  for (int i = 0; i < 10; ++i) events({.kind = EngineEvent::Kind::kLocations, .entries = {1}});
  EXPECT_EQ(untaken.size(), 13u);
}

TEST(BoundedLog, ManyThreadsNeverExceedIt) {
  constexpr std::size_t kMax = 50;
  std::mutex mutex;
  std::vector<EngineEvent> untaken;
  std::uint64_t logged = 0, leftOut = 0;
  const auto take = [&] {
    for (const EngineEvent& event : std::exchange(untaken, {})) {
      ++logged;
      const auto field = event.fields.find("lines_left_out");
      if (field != event.fields.end()) leftOut += std::stoull(field->second);
    }
  };
  const EventSink events = withBoundedLog(
      [&](EngineEvent event) {
        const std::lock_guard lock(mutex);
        untaken.push_back(std::move(event));
        EXPECT_LE(untaken.size(), kMax);
        if (untaken.size() > kMax / 2) take();
      },
      kMax);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&events] {
      for (int line = 0; line < 2000; ++line) log(events, EngineEvent::Level::kInfo, "line");
    });
  }
  for (std::thread& thread : threads) thread.join();
  take();
  log(events, EngineEvent::Level::kInfo, "the last");
  take();
  EXPECT_EQ(logged + leftOut, 8001u) << "each is logged or counted";
}

}  // namespace
}  // namespace hearth
