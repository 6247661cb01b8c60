#include "probe/contained.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>

#include "base/clock.h"
#include "base/testing/eventually.h"

namespace hearth {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<Probe> fine(const Stage&) { return {{"fine", ProbeStatus::kOk, "all \n good", ""}}; }

TEST(Contained, keepsRowsInTheOrderOfTasks) {
  const auto rows = runContained({{"slow",
                                   [](const Stage&) -> std::vector<Probe> {
                                     usleep(50'000);
                                     return {{"a", ProbeStatus::kDegraded, "detail", "advice"},
                                             {"b", ProbeStatus::kOk, "", ""}};
                                   }},
                                  {"fast", fine}},
                                 seconds(kHang));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].name, "a");
  EXPECT_EQ(rows[0].status, ProbeStatus::kDegraded);
  EXPECT_EQ(rows[0].detail, "detail");
  EXPECT_EQ(rows[0].advice, "advice");
  EXPECT_EQ(rows[1].name, "b");
  EXPECT_EQ(rows[2].detail, "all \n good");
}

TEST(Contained, namesTheStageOfACrash) {
  const auto rows = runContained({{"driver",
                                   [](const Stage& stage) -> std::vector<Probe> {
                                     stage("cuInit");
                                     raise(SIGSEGV);
                                     return {};
                                   }},
                                  {"other", fine}},
                                 seconds(kHang));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, "driver");
  EXPECT_EQ(rows[0].status, ProbeStatus::kMissing);
  EXPECT_EQ(rows[0].detail, "crashed with SIGSEGV in cuInit");
  EXPECT_FALSE(rows[0].advice.empty());
  EXPECT_EQ(rows[1].status, ProbeStatus::kOk);
}

TEST(Contained, anEscapedExceptionIsACrash) {
  const auto rows = runContained(
      {{"driver", [](const Stage&) -> std::vector<Probe> { throw std::runtime_error("no"); }}},
      seconds(kHang));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].detail, "crashed with SIGABRT");
}

TEST(Contained, aLibraryThatExitsCostsItsRow) {
  const auto rows = runContained({{"driver",
                                   [](const Stage&) -> std::vector<Probe> {
                                     std::printf("noise on the standard output\n");
                                     _exit(3);
                                   }}},
                                 seconds(kHang));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].detail, "ended the process with status 3");
}

TEST(Contained, killsWhatHangsWithItsChildren) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto begin = Clock::now();
  const auto rows = runContained({{"driver",
                                   [&](const Stage& stage) -> std::vector<Probe> {
                                     stage("ioctl");
                                     signal(SIGTERM, SIG_IGN);
                                     if (fork() >= 0) {
                                       for (;;) pause();
                                     }
                                     return {};
                                   }},
                                  {"other", fine}},
                                 milliseconds(2500));
  EXPECT_LT(Clock::now() - begin, seconds(60));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].detail, "no answer in ioctl within 2500 ms");
  EXPECT_EQ(rows[1].status, ProbeStatus::kOk);
  // Both processes held the write end; its end shows that neither lives.
  close(ends[1]);
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

TEST(Contained, aGrandchildThatKeepsThePipeDelaysNothing) {
  const auto begin = Clock::now();
  const auto rows = runContained({{"driver",
                                   [](const Stage& stage) {
                                     if (fork() == 0) {
                                       for (;;) pause();
                                     }
                                     return fine(stage);
                                   }}},
                                 seconds(100));
  EXPECT_LT(Clock::now() - begin, seconds(60));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].name, "fine");
}

TEST(Contained, leavesNoChildBehind) {
  static_cast<void>(runContained({{"fine", fine}, {"fine", fine}}, seconds(kHang)));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace hearth
