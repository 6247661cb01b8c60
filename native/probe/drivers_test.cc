// The run-time loaded drivers against fakes: one that works, one that lacks a symbol, one whose
// start fails, one that hangs and one that crashes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/clock.h"
#include "base/testing/eventually.h"
#include "probe/contained.h"
#include "probe/probes.h"

namespace hearth {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::map<std::string, Probe> probeFake(const std::string& fault, milliseconds deadline) {
  const std::string library = FAKE_DRIVERS + fault + ".so";
  std::map<std::string, Probe> rows;
  for (Probe& row :
       runContained({{"verbs", [&](const Stage& stage) { return probeVerbs(library, stage); }},
                     {"cuda", [&](const Stage& stage) { return probeCuda(library, stage); }},
                     {"cufile", [&](const Stage& stage) { return probeCufile(library, stage); }}},
                    deadline)) {
    rows[row.name] = std::move(row);
  }
  EXPECT_EQ(rows.size(), 3U);
  return rows;
}

TEST(Drivers, working) {
  auto rows = probeFake("none", seconds(kHang));
  EXPECT_EQ(rows["verbs"].detail, "fake_0 open");
  EXPECT_EQ(rows["cuda"].detail, "CUDA 12.4, 1 device: Fake GPU (128 GiB)");
  EXPECT_EQ(rows["cufile"].detail, "driver opens, nvidia-fs 2.19, NVMe");
  for (const auto& [name, row] : rows) {
    EXPECT_EQ(row.status, ProbeStatus::kOk) << name;
    EXPECT_EQ(row.advice, "") << name;
  }
}

TEST(Drivers, aMissingSymbolIsNamed) {
  auto rows = probeFake("symbol", seconds(kHang));
  EXPECT_TRUE(rows["verbs"].detail.ends_with("does not export ibv_close_device"));
  EXPECT_TRUE(rows["cuda"].detail.ends_with("does not export cuGetErrorString"));
  EXPECT_TRUE(rows["cufile"].detail.ends_with("does not export cuFileBufRegister"));
  for (const auto& [name, row] : rows) {
    EXPECT_EQ(row.status, ProbeStatus::kMissing) << name;
    EXPECT_FALSE(row.advice.empty()) << name;
  }
}

TEST(Drivers, aFailedStartReportsItsReason) {
  auto rows = probeFake("init", seconds(kHang));
  EXPECT_EQ(rows["verbs"].detail, "ibv_get_device_list failed: Function not implemented");
  EXPECT_NE(rows["verbs"].advice.find("ib_uverbs"), std::string::npos);
  EXPECT_EQ(rows["cuda"].detail, "cuInit failed: no device was found (100)");
  EXPECT_EQ(rows["cufile"].detail,
            "cuFileDriverOpen failed: nvidia-fs is not loaded and compatibility mode is off; "
            "`modprobe nvidia-fs`, or use PCI P2PDMA (5001)");
  for (const auto& [name, row] : rows) EXPECT_EQ(row.status, ProbeStatus::kMissing) << name;
}

TEST(Drivers, aHangCostsOnlyTheDeadline) {
  const auto begin = Clock::now();
  auto rows = probeFake("hang", seconds(5));
  EXPECT_LT(Clock::now() - begin, seconds(60));
  EXPECT_EQ(rows["verbs"].detail, "no answer in ibv_get_device_list within 5000 ms");
  EXPECT_EQ(rows["cuda"].detail, "no answer in cuInit within 5000 ms");
  EXPECT_EQ(rows["cufile"].detail, "no answer in cuFileDriverOpen within 5000 ms");
}

TEST(Drivers, aCrashCostsItsRow) {
  auto rows = probeFake("crash", seconds(kHang));
  EXPECT_EQ(rows["verbs"].detail, "crashed with SIGSEGV in ibv_get_device_list");
  EXPECT_EQ(rows["cuda"].detail, "crashed with SIGSEGV in cuInit");
  EXPECT_EQ(rows["cufile"].detail, "crashed with SIGSEGV in cuFileDriverOpen");
}

// The row of one task over a provider of libcuda and libcufile with a fault ($FAKE_GPU).
Probe gpuPath(const std::string& fault, const std::string& root, const std::string& directory) {
  ProbeOptions options;
  options.cudaLibrary = options.cufileLibrary = FAKE_GPU_LIBRARY;
  options.root = root;
  setenv("FAKE_GPU", fault.c_str(), 1);
  const std::vector<Probe> rows = runContained(
      {{"gpu path", [&](const Stage& stage) { return probeGpuPath(options, directory, stage); }}},
      seconds(kHang));
  unsetenv("FAKE_GPU");
  EXPECT_EQ(rows.size(), 1U);
  return rows.at(0);
}

class GpuPath : public testing::Test {
 protected:
  GpuPath() {
    std::string name = testing::TempDir() + "hearth-gpu-path-XXXXXX";
    root_ = mkdtemp(name.data());
    std::filesystem::create_directories(root_ + "/proc/driver/nvidia-fs");
  }
  ~GpuPath() override { std::filesystem::remove_all(root_); }
  void loadNvidiaFs() const {
    std::ofstream(root_ + "/proc/driver/nvidia-fs/version") << "version: 2.19\n";
  }
  std::string root_;
};

TEST_F(GpuPath, isDirectWhereAFileOfTheDirectoryIs) {
  loadNvidiaFs();
  for (const std::string& directory : {std::string(), root_}) {
    const Probe row = gpuPath("", root_, directory);
    EXPECT_EQ(row.status, ProbeStatus::kOk);
    EXPECT_EQ(row.detail, "direct: cuFile 1.14 by nvidia-fs 2.19");
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root_), {}), 1) << "a file is left";
}

TEST_F(GpuPath, isBouncedWithTheReason) {
  const Probe without = gpuPath("", root_, "");
  EXPECT_EQ(without.status, ProbeStatus::kDegraded);
  EXPECT_THAT(without.detail, testing::HasSubstr("bounced: nvidia-fs is not loaded"));
  loadNvidiaFs();
  const Probe compatibility = gpuPath("no-storage", root_, "");
  EXPECT_EQ(compatibility.status, ProbeStatus::kDegraded);
  EXPECT_THAT(compatibility.detail, testing::HasSubstr("compatibility mode is off"));
  const Probe file = gpuPath("no-file-system", root_, root_);
  EXPECT_EQ(file.status, ProbeStatus::kDegraded);
  EXPECT_THAT(file.detail, testing::HasSubstr("does not support this file"));
}

TEST_F(GpuPath, isMissingWithoutAGpu) {
  const Probe row = gpuPath("no-gpu", root_, "");
  EXPECT_EQ(row.status, ProbeStatus::kMissing);
  EXPECT_THAT(row.detail, testing::HasSubstr("host memory only: cuInit failed"));
}

TEST_F(GpuPath, namesTheCallThatCrashes) {
  loadNvidiaFs();
  EXPECT_THAT(gpuPath("crash", root_, "").detail,
              testing::HasSubstr("crashed with SIGSEGV in cuFileDriverOpen"));
}

TEST(Drivers, anAbsentLibraryIsNamed) {
  const Stage stage = [](const std::string&) {};
  const auto rows = probeCuda("libabsent-of-hearth.so.1", stage);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].status, ProbeStatus::kMissing);
  EXPECT_NE(rows[0].detail.find("libabsent-of-hearth.so.1"), std::string::npos);
}

}  // namespace
}  // namespace hearth
