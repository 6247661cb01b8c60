// A folder of its own on the machine's tmpfs, which goes with all that is in it. For tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace hearth::testing_support {

class TmpfsFolder {
 public:
  TmpfsFolder() { EXPECT_NE(::mkdtemp(path_.data()), nullptr) << path_; }
  TmpfsFolder(const TmpfsFolder&) = delete;
  TmpfsFolder& operator=(const TmpfsFolder&) = delete;
  ~TmpfsFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = "/dev/shm/hearth-test-XXXXXX";
};

}  // namespace hearth::testing_support
