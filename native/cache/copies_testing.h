// Other agents as a test has them answer. For tests of one cache with one shard.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "base/testing/moved_clock.h"
#include "cache/cache_testing.h"
#include "cache/cluster_copies.h"
#include "files/crash_file_system.h"

namespace hearth::testing_support {

// Says what the test has it say.
class Others final : public ClusterCopies {
 public:
  [[nodiscard]] bool others() const override { return present; }
  [[nodiscard]] Task<std::vector<Answer>> ask(std::vector<Copy> copies, Reactor& back) override {
    ++requests;
    std::vector<Answer> answers;
    for (const Copy& copy : copies) {
      asked.push_back(numberOf(copy.key));
      open[++last_] = asked.back();
      const auto known = verdicts.find(asked.back());
      answers.push_back({known == verdicts.end() ? fallback : known->second, last_});
    }
    if (whileAsked) whileAsked();
    // Others of this thread go on meanwhile.
    for (int turns = 0; turns == 0 || (turns < 200 && waits && waits()); ++turns)
      co_await back.sleep(Clock::duration::zero());
    moveClock(takes);
    if (whenAnswered) whenAnswered();
    co_return answers;
  }
  void evicted(std::vector<Copy> copies) override {
    for (const Copy& copy : copies) {
      gone.push_back(numberOf(copy.key));
      end(copy);
      if (whenGone) whenGone(copy.key);
    }
  }
  void kept(std::vector<Copy> copies) override {
    for (const Copy& copy : copies) end(copy);
  }

  bool present = true;
  CopyVerdict fallback = CopyVerdict::kLast;
  std::map<std::uint64_t, CopyVerdict> verdicts;
  Clock::duration takes{};      // each question
  std::function<bool()> waits;  // the answer does while this holds, for a while
  std::function<void()> whileAsked, whenAnswered;
  std::function<void(const ContentKey&)> whenGone;
  std::size_t requests = 0;
  std::vector<std::uint64_t> asked, gone;
  std::map<std::uint64_t, std::uint64_t> open;  // questions whose end was not reported, and files

 private:
  std::uint64_t numberOf(const ContentKey& key) {
    for (;;) {
      const auto known = numbers_.find(key);
      if (known != numbers_.end()) return known->second;
      numbers_.emplace(keyOf(numbers_.size()), numbers_.size());
    }
  }
  void end(const Copy& copy) {
    if (copy.request == 0) return;
    EXPECT_EQ(open[copy.request], numberOf(copy.key)) << "of another question";
    open.erase(copy.request);
  }

  std::uint64_t last_ = 0;
  std::unordered_map<ContentKey, std::uint64_t, ContentKeyHash> numbers_;
};

// A cache on a disk in memory, whose evictions ask them. When a test ends they have heard what
// became of all that they were asked for.
class CopiesTestBase : public testing::Test {
 protected:
  void open(std::uint64_t budget) {
    auto opened = run(openContentCache({{"/cache", budget, 0}}, {{*reactor, files}}, {}));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    cache = std::move(*opened);
    cache->setClusterCopies(&others);
  }
  void TearDown() override {
    EXPECT_TRUE(others.open.empty());
    run(cache->close());
  }
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
  Others others;
  std::unique_ptr<ContentCache> cache;
};

}  // namespace hearth::testing_support
