#include "engine/bounded_log.h"

#include <gtest/gtest.h>

#include <thread>

namespace hearth {
namespace {

// What an agent that does not come round has yet to take.
struct BoundedLogTest : testing::Test {
  void logs(int lines) {
    for (int i = 0; i < lines; ++i) log(ask, Question::Level::kWarn, "line " + std::to_string(i));
  }
  std::vector<Question> untaken;
  Ask ask =
      withBoundedLog([this](Question question) { untaken.push_back(std::move(question)); }, 3);
};

TEST_F(BoundedLogTest, LinesBeyondTheBoundAreLeftOutAndCounted) {
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

TEST_F(BoundedLogTest, QuestionsAreNotLeftOut) {
  logs(10);
  for (int i = 0; i < 10; ++i) ask({.kind = Question::Kind::kLocations, .entries = {1}});
  EXPECT_EQ(untaken.size(), 13u);
}

TEST(BoundedLog, ManyThreadsNeverExceedIt) {
  constexpr std::size_t kMost = 50;
  std::mutex mutex;
  std::vector<Question> untaken;
  std::uint64_t told = 0, leftOut = 0;
  const auto take = [&] {
    for (const Question& question : std::exchange(untaken, {})) {
      ++told;
      const auto field = question.fields.find("lines_left_out");
      if (field != question.fields.end()) leftOut += std::stoull(field->second);
    }
  };
  const Ask ask = withBoundedLog(
      [&](Question question) {
        const std::lock_guard lock(mutex);
        untaken.push_back(std::move(question));
        EXPECT_LE(untaken.size(), kMost);
        if (untaken.size() > kMost / 2) take();
      },
      kMost);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&ask] {
      for (int line = 0; line < 2000; ++line) log(ask, Question::Level::kInfo, "line");
    });
  }
  for (std::thread& thread : threads) thread.join();
  take();
  log(ask, Question::Level::kInfo, "the last");
  take();
  EXPECT_EQ(told + leftOut, 8001u) << "each is told or counted";
}

}  // namespace
}  // namespace hearth
