#include "engine/advice_pace.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// Bytes a second, beside which advice brings 100 MiB a second.
constexpr std::uint64_t kReads = AdvicePace::kReadPerAdvised * 100 * kMiB;
constexpr Clock::duration kTick = std::chrono::milliseconds(10);

struct AdvicePaceTest : testing::Test {
  static ClientIdentity pod(const std::string& name) { return {"space", "space/" + name}; }

  // Bytes that each of `advisers` brings in four seconds, of which the last two count, while pods
  // and mounts read so much a second.
  std::map<std::string, std::uint64_t> brought(const std::vector<std::string>& advisers,
                                               const std::map<std::string, std::uint64_t>& readers,
                                               std::uint64_t mountsPerSecond = 0) {
    std::map<std::string, std::uint64_t> bytes;
    for (int tick = 0; tick < 400; ++tick) {
      now += kTick;
      mounts += mountsPerSecond / 100;
      for (const auto& [name, perSecond] : readers) pace.noteRead(pod(name), perSecond / 100, now);
      for (const std::string& name : advisers) {
        // Without a limit a pod would bring 16 MiB a tick.
        for (int piece = 0; piece < 16; ++piece) {
          if (pace.tryTake(pod(name), kMiB, now) != Clock::duration::zero()) break;
          if (tick >= 200) bytes[name] += kMiB;
        }
      }
    }
    return bytes;
  }

  Clock::time_point now = Clock::now();
  std::uint64_t mounts = 0;
  AdvicePace pace{[this] { return mounts; }};
};

TEST_F(AdvicePaceTest, BringsAllWhileNobodyElseReads) {
  EXPECT_EQ(brought({"a"}, {})["a"], 200 * 16 * kMiB);
  EXPECT_EQ(brought({"a"}, {{"a", 1000 * kMiB}})["a"], 200 * 16 * kMiB) << "its own reads";
}

TEST_F(AdvicePaceTest, BringsAPartOfWhatOthersRead) {
  const std::uint64_t bytes = brought({"a"}, {{"b", kReads / 4}, {"c", kReads / 4 * 3}})["a"];
  EXPECT_NEAR(static_cast<double>(bytes) / kMiB, 2 * 100, 5);
}

TEST_F(AdvicePaceTest, CountsReadsOfMounts) {
  const std::uint64_t bytes = brought({"a"}, {}, kReads)["a"];
  EXPECT_NEAR(static_cast<double>(bytes) / kMiB, 2 * 100, 5);
}

TEST_F(AdvicePaceTest, SlowReadersLeaveItTheLeast) {
  const std::uint64_t bytes = brought({"a"}, {{"b", kMiB}})["a"];
  EXPECT_NEAR(static_cast<double>(bytes) / kMiB, 2 * 32, 5);
}

TEST_F(AdvicePaceTest, PodsHaveEqualParts) {
  auto bytes = brought({"a", "b"}, {{"c", 2 * kReads}});
  EXPECT_NEAR(static_cast<double>(bytes["a"]) / kMiB, 2 * 100, 5);
  EXPECT_NEAR(static_cast<double>(bytes["b"]) / kMiB, 2 * 100, 5);
}

TEST_F(AdvicePaceTest, AnAdviserThatPausesStillOwesItsBytes) {
  (void)brought({"a"}, {{"b", kReads}});
  EXPECT_EQ(pace.tryTake(pod("a"), 1000 * kMiB, now += std::chrono::milliseconds(20)),
            Clock::duration::zero());
  for (int tick = 0; tick < 500; ++tick) pace.noteRead(pod("b"), 15 * kMiB, now += kTick);
  EXPECT_GT(pace.tryTake(pod("a"), kMiB, now), Clock::duration::zero());
}

}  // namespace
}  // namespace hearth
