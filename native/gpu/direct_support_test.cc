#include "gpu/direct_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace hearth {
namespace {

using testing::HasSubstr;

class DirectSupportTest : public testing::Test {
 protected:
  DirectSupportTest() {
    std::string name = testing::TempDir() + "hearth-support-XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~DirectSupportTest() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

constexpr const char* kOpenModule =
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n";

TEST_F(DirectSupportTest, findsNvidiaFs) {
  put("/proc/driver/nvidia-fs/version", "version: 2.19\n");
  const DirectSupport support = findDirectSupport(12000, "5.15.0", root_);
  EXPECT_EQ(support.nvidiaFs, "version: 2.19");
  EXPECT_TRUE(checkDirectSupport(support).ok());
}

TEST_F(DirectSupportTest, findsTheModuleByItsName) {
  put("/proc/modules", "nvidia 123 4 nvidia_fs, Live\nnvidia_fs 123 0 - Live 0x0\n");
  EXPECT_EQ(findDirectSupport(12000, "5.15.0", root_).nvidiaFs, "loaded");
}

TEST_F(DirectSupportTest, allowsPeerToPeer) {
  put("/proc/driver/nvidia/version", kOpenModule);
  for (const char* kernel : {"6.2.0", "6.18.44-fc", "7.0", "10.1"}) {
    EXPECT_EQ(findDirectSupport(12080, kernel, root_).whyNoPeerToPeer, "") << kernel;
  }
}

TEST_F(DirectSupportTest, listsAllThatPeerToPeerLacks) {
  const DirectSupport support = findDirectSupport(12040, "6.1.0-18", root_);
  const Status status = checkDirectSupport(support);
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(status.error().message, HasSubstr("CUDA 12.8 or later (the driver has 12.4)"));
  EXPECT_THAT(status.error().message, HasSubstr("the open kernel modules"));
  EXPECT_THAT(status.error().message, HasSubstr("Linux 6.2 or later (this is 6.1.0-18)"));
}

}  // namespace
}  // namespace hearth
