#include "gpu/cufile_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/testing/eventually.h"

namespace hearth {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

Status shell(const std::string& script, milliseconds deadline = kHang) {
  return runTrial({"/bin/sh", "-c", script}, deadline);
}

TEST(CufileTrial, passesWithStatusZero) { EXPECT_TRUE(shell("echo all is well").ok()); }

TEST(CufileTrial, failsWithTheLastLine) {
  const Status failed = shell("echo first; echo the reason; exit 1");
  EXPECT_EQ(failed.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(failed.error().message, "the reason");
  EXPECT_EQ(shell("exit 3").error().message, "exit status 3");
}

TEST(CufileTrial, namesTheSignalOfACrash) {
  const Status crashed = shell("echo cuFileDriverOpen; kill -SEGV $$");
  EXPECT_EQ(crashed.code(), ErrorCode::kUnavailable);
  EXPECT_EQ(crashed.error().message, "crashed with SIGSEGV after: cuFileDriverOpen");
}

TEST(CufileTrial, endsWhatHangs) {
  const Status hung =
      shell("echo cuFileDriverOpen; while :; do sleep 1000; done", milliseconds(1000));
  EXPECT_EQ(hung.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_THAT(hung.error().message, HasSubstr("no answer within 1000 ms"));
}

TEST(CufileTrial, endsWhatClosesItsOutputAndHangs) {
  const Status hung = shell("exec >/dev/null; while :; do sleep 1000; done", milliseconds(1000));
  EXPECT_EQ(hung.code(), ErrorCode::kDeadlineExceeded);
}

TEST(CufileTrial, saysThatTheProgramCannotBeRun) {
  EXPECT_EQ(runTrial({"/nowhere/hearth-load"}, kHang).code(), ErrorCode::kNotFound);
}

TEST(CufileTrial, findsItsProgramBesideThisOne) {
  unsetenv("HEARTH_LOAD");
  const Result<std::string> found = findTrialProgram();
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_THAT(*found, testing::EndsWith("/gpu/hearth-load"));
  setenv("HEARTH_LOAD", "/elsewhere", 1);
  EXPECT_EQ(*findTrialProgram(), "/elsewhere");
  unsetenv("HEARTH_LOAD");
}

}  // namespace
}  // namespace hearth
