#include "engine/passed_mounts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/testing/pod_attack.h"
#include "engine/testing_cluster.h"

namespace hearth {
namespace {

using testing_cluster::TemporaryFolder;

struct PassedMountsTest : testing::Test {
  void SetUp() override {
    auto made = PassedMounts::create();
    if (!made.ok()) GTEST_SKIP() << made.error().message;
    mounts = std::move(*made);
    const std::string objects = folder.path("objects");
    std::filesystem::create_directories(objects + "/ab");
    std::ofstream(file) << "bytes";
    std::filesystem::permissions(folder.path(""), std::filesystem::perms(0755));
    std::filesystem::permissions(file, std::filesystem::perms(0444));
    const Status added = mounts->add(objects);
    if (!added.ok()) GTEST_SKIP() << added.error().message;
  }

  const TemporaryFolder folder;
  const std::string file = folder.path("objects/ab/file");
  std::unique_ptr<PassedMounts> mounts;
};

TEST_F(PassedMountsTest, TellWhenNobodyHasTheDescriptor) {
  Result<PassedMounts::Passed> passed = mounts->open(file);
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  char bytes[5];
  EXPECT_EQ(pread(passed->descriptor.get(), bytes, 5, 0), 5);
  EXPECT_TRUE(mounts->isOpen(passed->number));
  passed->descriptor.reset();
  EXPECT_FALSE(mounts->isOpen(passed->number));
}

TEST_F(PassedMountsTest, SeeCopiesMappingsAndDescriptorsThatAreOpenedAnew) {
  Result<PassedMounts::Passed> passed = mounts->open(file);
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  const std::string self = "/proc/self/fd/" + std::to_string(passed->descriptor.get());
  OwnedFd copy(dup(passed->descriptor.get()));
  OwnedFd anew(open(self.c_str(), O_RDONLY | O_CLOEXEC));
  OwnedFd path(open(self.c_str(), O_PATH | O_CLOEXEC));
  void* const mapped = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, passed->descriptor.get(), 0);
  ASSERT_TRUE(copy && anew && path && mapped != MAP_FAILED);
  passed->descriptor.reset();
  for (OwnedFd* const each : {&copy, &anew, &path}) {
    EXPECT_TRUE(mounts->isOpen(passed->number));
    each->reset();
  }
  EXPECT_TRUE(mounts->isOpen(passed->number)) << "mapped";
  munmap(mapped, 4096);
  EXPECT_FALSE(mounts->isOpen(passed->number));
}

TEST_F(PassedMountsTest, TellDescriptorsOfOneFileApart) {
  Result<PassedMounts::Passed> one = mounts->open(file), other = mounts->open(file);
  const OwnedFd ours(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(one.ok() && other.ok() && ours);
  one->descriptor.reset();
  EXPECT_FALSE(mounts->isOpen(one->number));
  EXPECT_TRUE(mounts->isOpen(other->number));
}

TEST_F(PassedMountsTest, LeaveDescriptorsGoodThatAreForgotten) {
  const Result<PassedMounts::Passed> passed = mounts->open(file);
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  mounts->forget(passed->number);
  EXPECT_FALSE(mounts->isOpen(passed->number));
  std::filesystem::remove(file);
  mounts.reset();
  char bytes[5];
  EXPECT_EQ(pread(passed->descriptor.get(), bytes, 5, 0), 5);
}

TEST_F(PassedMountsTest, CannotBeChangedByAPod) {
  const Result<PassedMounts::Passed> passed = mounts->open(file);
  ASSERT_TRUE(passed.ok()) << passed.error().message;
  using pod_attack::Pod;
  for (const Pod pod : {Pod::kWithoutCapabilities, Pod::kWithUserNamespace})
    EXPECT_STREQ(pod_attack::changeMadeBy(pod, passed->descriptor.get()), "");
}

TEST_F(PassedMountsTest, ArePassedToNobodyButByTheirFiles) {
  std::filesystem::create_symlink(file, folder.path("objects/link"));
  EXPECT_EQ(mounts->open(folder.path("objects/link")).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(mounts->open(folder.path("objects/ab")).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(mounts->open(folder.path("elsewhere")).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(mounts->open(folder.path("objects/none")).code(), ErrorCode::kNotFound);
}

TEST_F(PassedMountsTest, AreSeenByNobodyElse) {
  const Result<PassedMounts::Passed> passed = mounts->open(file);
  ASSERT_TRUE(passed.ok());
  std::ifstream mountsOfThisThread("/proc/thread-self/mounts");
  const std::string all{std::istreambuf_iterator<char>(mountsOfThisThread), {}};
  EXPECT_EQ(all.find("tmpfs /proc "), std::string::npos);
  EXPECT_EQ(all.find(folder.path("")), std::string::npos);
}

}  // namespace
}  // namespace hearth
