#include "holder/child_call.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>

namespace hearth {
namespace {

TEST(ChildCalls, GiveBytesAndADescriptor) {
  ChildCalls calls;
  const auto answer = calls.run("work", [] {
    return ChildAnswer{"bytes", OwnedFd(open("/dev/zero", O_RDONLY | O_CLOEXEC))};
  });
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(answer->bytes, "bytes");
  char byte = 0;
  EXPECT_EQ(read(answer->descriptor.get(), &byte, 1), 1);
  EXPECT_TRUE(calls.run("work", [] { return ChildAnswer(); })->bytes.empty());
}

TEST(ChildCalls, GiveAStatus) {
  ChildCalls calls;
  EXPECT_TRUE(calls.runStatus("work", [] { return Status(); }).ok());
  const Status failed = calls.runStatus("work", []() -> Status {
    return Error{ErrorCode::kInUse, "somebody has it"};
  });
  EXPECT_EQ(failed.code(), ErrorCode::kInUse);
  EXPECT_EQ(failed.error().message, "somebody has it");
}

TEST(ChildCalls, DoNotWaitForWorkThatNeverEnds) {
  ChildCalls calls(std::chrono::milliseconds(50));
  const auto answer = calls.run("mount x", []() -> ChildAnswer {
    for (;;) pause();
  });
  EXPECT_EQ(answer.code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(answer.error().message.find("mount x"), std::string::npos);
}

TEST(ChildCalls, TellOfAChildThatDies) {
  ChildCalls calls;
  const auto answer = calls.run("work", []() -> ChildAnswer { _exit(3); });
  EXPECT_EQ(answer.code(), ErrorCode::kInternal);
}

TEST(ChildCalls, HaveNoDescriptorOfTheProcess) {
  ChildCalls calls;
  const OwnedFd secret(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = secret.get();
  const auto answer = calls.run("work", [number] {
    return ChildAnswer{fcntl(number, F_GETFD) < 0 ? "none" : "", {}};
  });
  // Its channel may have taken the number over.
  if (number > 3) {
    EXPECT_EQ(answer->bytes, "none");
  }
}

}  // namespace
}  // namespace hearth
