#include "reactor/task.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hearth {
namespace {

constexpr int kLength = 37;  // longer than a string keeps inside of itself

// Counts the copies of itself: one that is destroyed twice or never leaves the count unequal.
struct Operand {
  static inline int live = 0;

  explicit Operand(int length = kLength) : text(static_cast<std::size_t>(length), 'x') { ++live; }
  Operand(const Operand& other) : text(other.text) { ++live; }
  Operand(Operand&& other) noexcept : text(std::move(other.text)) { ++live; }
  Operand& operator=(const Operand&) = default;
  Operand& operator=(Operand&&) = default;
  ~Operand() { --live; }
  int length() const { return static_cast<int>(text.size()); }

  std::string text;
};

struct Options {
  bool quiet = false;
  Operand name;
};

Task<int> byValue(Operand operand) { co_return operand.length(); }
Task<int> byReference(const Operand& operand) { co_return operand.length(); }
Task<int> byOptions(Options options) { co_return options.name.length(); }
Task<int> byOptionsReference(const Options& options) { co_return options.name.length(); }
Task<int> byFunction(std::function<int()> function) { co_return function(); }
template <class F>
Task<int> byLambda(F function) {
  co_return function();
}
Task<int> byList(std::vector<Operand> operands) {
  int sum = 0;
  for (const Operand& operand : operands) sum += operand.length();
  co_return sum;
}
Task<std::string> byString(std::string text) { co_return text; }
Task<std::unique_ptr<Operand>> owned(Operand operand) {
  co_return std::make_unique<Operand>(std::move(operand));
}

// The result of `form`, which awaits in one expression with temporaries.
int resultOf(Task<int> (*form)()) {
  struct Run {
    static Task<void> into(Task<int> task, int& result) { result = co_await task; }
  };
  int result = -1;
  spawn(Run::into(form(), result));
  return result;
}

void expectWhole(Task<int> (*form)()) {
  EXPECT_EQ(resultOf(form), kLength);
  EXPECT_EQ(Operand::live, 0);
}

// Every form stands in the engine, or may. The older compilers that destroyed temporaries twice, or
// took another branch, did so in aggregates, lambdas, conditions and ?:.
TEST(TaskTest, AwaitsWhatIsMadeOnTheSpot) {
  expectWhole([]() -> Task<int> { co_return co_await byValue(Operand()); });
  expectWhole([]() -> Task<int> { co_return co_await byReference(Operand()); });
  expectWhole([]() -> Task<int> {
    const std::string text = co_await byString("a string that is " + std::string(20, 'x'));
    co_return static_cast<int>(text.size());
  });
  expectWhole([]() -> Task<int> { co_return (co_await owned(Operand()))->length(); });
}

TEST(TaskTest, AwaitsWithAggregates) {
  expectWhole(
      []() -> Task<int> { co_return co_await byOptions({.quiet = true, .name = Operand()}); });
  expectWhole([]() -> Task<int> {
    const int length = co_await byOptionsReference(Options{.quiet = true, .name = Operand()});
    co_return length;
  });
  expectWhole([]() -> Task<int> { co_return co_await byList({Operand(30), Operand(7)}); });
}

TEST(TaskTest, AwaitsWithLambdasThatOwnWhatTheyCapture) {
  expectWhole([]() -> Task<int> {
    const Operand operand;
    co_return co_await byFunction([operand] { return operand.length(); });
  });
  expectWhole([]() -> Task<int> {
    const Operand operand;
    co_return co_await byLambda([operand] { return operand.length(); });
  });
}

TEST(TaskTest, AwaitsOneOfTwoTasks) {
  expectWhole([]() -> Task<int> {
    const bool first = Operand::live == 0;
    co_return co_await (first ? byValue(Operand()) : byReference(Operand(1)));
  });
  expectWhole([]() -> Task<int> {
    const bool first = Operand::live == 0;
    co_return first ? co_await byValue(Operand()) : co_await byReference(Operand(1));
  });
}

TEST(TaskTest, AwaitsInConditions) {
  expectWhole([]() -> Task<int> {
    if (co_await byValue(Operand()) == kLength && co_await byReference(Operand(1)) == 1) {
      co_return kLength;
    }
    co_return 0;
  });
  expectWhole([]() -> Task<int> {
    switch (co_await byValue(Operand(3))) {
      case 3:
        co_return kLength;
      default:
        co_return 0;
    }
  });
  expectWhole([]() -> Task<int> {
    int sum = 0;
    while (co_await byValue(Operand(sum)) < kLength) sum += co_await byValue(Operand(1));
    co_return sum;
  });
}

TEST(TaskTest, AwaitsSeveralInOneExpression) {
  expectWhole([]() -> Task<int> {
    co_return co_await byValue(Operand(30)) + co_await byValue(Operand(7));
  });
  expectWhole(
      []() -> Task<int> { co_return co_await byValue(Operand(co_await byReference(Operand()))); });
}

// Temporaries of an expression live until all of it is done, so a coroutine may take them by
// reference.
TEST(TaskTest, TemporariesOutliveTheTaskThatRefersToThem) {
  struct Slow {
    std::coroutine_handle<> waiting;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) noexcept { waiting = handle; }
    void await_resume() const noexcept {}
  };
  struct Late {
    static Task<int> read(Slow& slow, const Operand& operand) {
      co_await slow;
      co_return operand.length();
    }
    static Task<void> run(Slow& slow, int& result) { result = co_await read(slow, Operand()); }
  };
  Slow slow;
  int result = -1;
  spawn(Late::run(slow, result));
  EXPECT_EQ(Operand::live, 1);
  slow.waiting.resume();
  EXPECT_EQ(result, kLength);
  EXPECT_EQ(Operand::live, 0);
}

}  // namespace
}  // namespace hearth
