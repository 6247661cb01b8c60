// Mounts that ended agents left.
#include "holder/stale_mounts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "holder/testing/holder_fixture.h"

namespace hearth {
namespace {

class StaleMountsTest : public holder_testing::HolderTest {};

TEST_F(StaleMountsTest, WhatCannotBeUnmountedIsLeftAsItIs) {
  const auto mounts = root_ / "volumes" / "mounts";
  EXPECT_TRUE(detachStaleMounts(calls_, mounts.string()).empty()) << "no such folder";
  std::filesystem::create_directories(mounts / "m1" / "view");
  std::ofstream(mounts / "m1" / "file") << "of another";
  EXPECT_TRUE(detachStaleMounts(calls_, mounts.string()).empty());
  EXPECT_FALSE(std::filesystem::exists(mounts / "m1" / "view"));
  EXPECT_TRUE(std::filesystem::exists(mounts / "m1" / "file"));
}

}  // namespace
}  // namespace hearth
