#include "fuse/page_forgetter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/testing/eventually.h"

namespace hearth {
namespace {

TEST(PageForgetter, WaitsForTheReadsOfTheEntry) {
  std::atomic<bool> reading{true};
  std::atomic<int> early{0};
  std::atomic<int> forgotten{0};
  const auto pages = std::make_shared<PageForgetter>([&](std::uint32_t entry) {
    if (entry == 1 && reading) ++early;
    ++forgotten;
  });
  auto first = pages->reading(1);
  auto second = pages->reading(1);
  pages->add(1);
  pages->add(2);
  EXPECT_TRUE(eventually([&] { return forgotten == 1; })) << "nothing of the other is read";
  first.reset();
  reading = false;
  second.reset();
  EXPECT_TRUE(eventually([&] { return forgotten == 2; }));
  EXPECT_EQ(early, 0);
  pages->close();
}

TEST(PageForgetter, CloseDropsWhatWaitsAndWhatComes) {
  std::atomic<int> forgotten{0};
  const auto pages = std::make_shared<PageForgetter>([&](std::uint32_t) { ++forgotten; });
  const auto read = pages->reading(1);
  pages->add(1);
  pages->close();
  pages->add(2);
  pages->close();
  EXPECT_EQ(forgotten, 0);
}

TEST(PageForgetter, CloseWaitsForWhatGoesOn) {
  std::promise<void> begun;
  std::promise<void> mayEnd;
  std::atomic<bool> ended{false};
  const auto pages = std::make_shared<PageForgetter>([&](std::uint32_t) {
    begun.set_value();
    mayEnd.get_future().wait();
    ended = true;
  });
  pages->add(1);
  begun.get_future().wait();
  auto closing = std::async(std::launch::async, [&] {
    pages->close();
    return ended.load();
  });
  mayEnd.set_value();
  EXPECT_TRUE(closing.get());
}

TEST(PageForgetter, AReadMayEndAfterEverythingElse) {
  auto pages = std::make_shared<PageForgetter>([](std::uint32_t) {});
  auto read = pages->reading(1);
  pages->close();
  pages.reset();
  read.reset();
}

}  // namespace
}  // namespace hearth
