#include "bench/event_counter.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace hearth::bench {
namespace {

constexpr std::uint64_t kCalls = 1000;

void call() {
  for (std::uint64_t i = 0; i < kCalls; ++i) syscall(SYS_getppid);
}

TEST(EventCounter, CountsTheThreadAndThoseThatItStartsAfterwards) {
  bool begin = false;
  std::mutex lock;
  std::condition_variable changed;
  std::thread before([&] {
    std::unique_lock held(lock);
    changed.wait(held, [&] { return begin; });
    call();
  });
  const Result<EventCounter> counter = EventCounter::systemCalls();
  if (counter.ok()) {
    const std::uint64_t first = counter->count();
    call();
    std::thread(call).join();
    const std::uint64_t counted = counter->count() - first;
    EXPECT_GE(counted, 2 * kCalls);
    EXPECT_LT(counted, 2 * kCalls + kCalls / 2);  // making a thread and waiting for it are some
  }
  {
    const std::scoped_lock held(lock);
    begin = true;
  }
  changed.notify_one();
  const std::uint64_t own = counter.ok() ? counter->count() : 0;
  before.join();
  if (!counter.ok()) GTEST_SKIP() << counter.error().message;
  EXPECT_LT(counter->count() - own, kCalls / 2) << "a thread that was there before is not counted";
}

TEST(EventCounter, SaysWhereTheProcessorDoesNotCount) {
  const Result<EventCounter> counter = EventCounter::instructions();
  if (!counter.ok()) {
    EXPECT_TRUE(counter.code() == ErrorCode::kUnsupported ||
                counter.code() == ErrorCode::kPermissionDenied)
        << counter.error().message;
    return;
  }
  const std::uint64_t first = counter->count();
  call();
  EXPECT_GT(counter->count() - first, kCalls);
}

}  // namespace
}  // namespace hearth::bench
