#include "reactor/uring_backend.h"

#include <gtest/gtest.h>

#include <thread>

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr int kPosts = 50;

Task<int> waitForPosts(Reactor& reactor) {
  int posted = 0;
  std::thread poster([&] {
    for (int i = 0; i < kPosts; ++i) {
      std::this_thread::sleep_for(1ms);
      reactor.post([&posted] { ++posted; });
    }
  });
  while (posted < kPosts) co_await reactor.sleep(5ms);
  poster.join();
  co_return posted;
}

class UringBackendTest : public testing::TestWithParam<UringReactor::Kernel> {};

TEST_P(UringBackendTest, WakesUpWhenItIsWokenAndSleepsOtherwise) {
  auto created = UringReactor::create(GetParam());
  if (!created.ok()) GTEST_SKIP() << created.error().message;
  UringReactor& reactor = **created;
  const bool older = GetParam() == UringReactor::Kernel::kOlderThan513;
  EXPECT_FALSE(older && reactor.pollStays());
  EXPECT_EQ(reactor.runUntilComplete(waitForPosts(reactor)), kPosts);
  // Each post wakes it once at most, as do its start and its end.
  EXPECT_GT(reactor.wakeups(), 0u);
  EXPECT_LE(reactor.wakeups(), static_cast<std::uint64_t>(kPosts) + 2);
}

// The kernel does the work of a poll in the thread that submitted it, and ends it with that.
TEST_P(UringBackendTest, OwesNothingToTheThreadThatMadeIt) {
  std::unique_ptr<UringReactor> reactor;
  std::thread maker([&] {
    auto created = UringReactor::create(GetParam());
    if (created.ok()) reactor = std::move(*created);
  });
  maker.join();
  if (reactor == nullptr) GTEST_SKIP() << "no io_uring here";
  const bool stays = reactor->pollStays();
  EXPECT_EQ(reactor->runUntilComplete(waitForPosts(*reactor)), kPosts);
  EXPECT_EQ(reactor->pollStays(), stays);
}

INSTANTIATE_TEST_SUITE_P(Kernels, UringBackendTest,
                         testing::Values(UringReactor::Kernel::kThis,
                                         UringReactor::Kernel::kOlderThan513),
                         [](const auto& test) {
                           return test.param == UringReactor::Kernel::kThis ? "This"
                                                                            : "OlderThan513";
                         });

}  // namespace
}  // namespace hearth
