// Measures reads whose path dies under them; docs/design/rdma.md records the times.
#include <gtest/gtest.h>

#include "base/testing/sanitizers.h"
#include "transport/rdma_test_pair.h"

namespace hearth {
namespace {

class RdmaFailoverSlowTest : public RdmaPair {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer's checks take time, which this measures";
  }

  // The slowest of eight reads of 1 MiB on each of some fresh paths that die. Returns the median of
  // these, since other programs on the machine may delay some.
  Clock::duration slowest() {
    std::vector<Clock::duration> rounds(5);
    for (Clock::duration& round : rounds) {
      EXPECT_TRUE(connectsAll());
      const DyingPath dying(fabric_, 1);
      round = readMany(8, std::size_t{1} << 20);
    }
    std::ranges::sort(rounds);
    const auto ms = [](Clock::duration of) { return static_cast<int>(of / 1ms); };
    std::printf("the slowest read of each path took %d to %d ms, in the median %d\n",
                ms(rounds.front()), ms(rounds.back()), ms(rounds[2]));
    return rounds[2];
  }
};

TEST_F(RdmaFailoverSlowTest, OntoAnotherPort) {
  silence_ = TransportOptions().rdmaSilence;
  start({{.name = "a0", .address = 1}, {.name = "a1", .address = 3}},
        {{.name = "b0", .address = 2}, {.name = "b1", .address = 4}});
  EXPECT_LT(slowest(), 250ms);
}

TEST_F(RdmaFailoverSlowTest, OntoTcp) {
  silence_ = TransportOptions().rdmaSilence;
  start();
  EXPECT_LT(slowest(), 250ms);
}

}  // namespace
}  // namespace hearth
