#include "gpu/cufile_driver.h"

#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/testing/eventually.h"
#include "gpu/opened_file.h"
#include "gpu/testing/gpu_fixture.h"

namespace hearth::testing_gpu {
namespace {

using testing::HasSubstr;
using Choice = DeviceFiles::Choice;
using Storage = FakeOptions::Storage;

class CufileDriverTest : public GpuFixture {
 protected:
  void withStorage(Storage storage) {
    FakeOptions options;
    options.storage = storage;
    gpu().reset(options);
    if (storage == Storage::kNvidiaFs) return;
    std::filesystem::remove_all(seams_.root);
    std::filesystem::create_directories(seams_.root + "/proc/driver/nvidia");
    std::ofstream(seams_.root + "/proc/driver/nvidia/version")
        << "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.1\n";
  }
};

TEST_F(CufileDriverTest, tellsNvidiaFsFromPeerToPeer) {
  EXPECT_EQ((*open()->directFiles())->description(), "cuFile 1.14 by nvidia-fs 2.19");
  runtime_.reset();
  withStorage(Storage::kPeerToPeer);
  EXPECT_EQ((*open()->directFiles())->description(), "cuFile 1.14 by PCI P2PDMA");
}

TEST_F(CufileDriverTest, neverFallsBackToCompatibilityModeInSilence) {
  withStorage(Storage::kCompatibilityOnly);
  EXPECT_THAT(open()->directFiles().error().message, HasSubstr("finds no NVMe disk"));
  runtime_.reset();
  FakeOptions options;
  options.alwaysAllowsCompatibility = true;  // as an older cuFile with its cufile.json does
  gpu().reset(options);
  seams_.cufile = [] {
    CufileFunctions older = FakeGpu::cufile();
    older.setParameterBool = nullptr;
    return Result<CufileFunctions>(older);
  };
  std::filesystem::create_directories(seams_.root + "/proc/driver/nvidia-fs");
  std::ofstream(seams_.root + "/proc/driver/nvidia-fs/version") << "version: 2.19\n";
  EXPECT_THAT(open()->directFiles().error().message, HasSubstr("allow_compat_mode"));
  EXPECT_EQ(gpu().calls("cuFileDriverClose"), 1U);
}

TEST_F(CufileDriverTest, callsNoDriverWhereNoneCanWork) {
  std::filesystem::remove_all(seams_.root);
  const auto direct = open()->directFiles();
  EXPECT_EQ(direct.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(direct.error().message, HasSubstr("`modprobe nvidia-fs`"));
  EXPECT_THAT(direct.error().message, HasSubstr("the open kernel modules"));
  EXPECT_EQ(gpu().calls("cuFileDriverOpen"), 0U);
}

TEST_F(CufileDriverTest, isOpenedOnceForAllDevicesAndOnlyAfterTheTrial) {
  int trials = 0;
  seams_.trial = [&](bool) {
    ++trials;
    EXPECT_EQ(gpu().calls("cuFileDriverOpen"), 0U);
    return Status();
  };
  const auto first = open("cuda:0");
  const auto second = open("cuda:1");
  for (const auto& device : {first, second, first}) EXPECT_TRUE(device->directFiles().ok());
  EXPECT_EQ(trials, 1);
  EXPECT_EQ(gpu().calls("cuFileDriverOpen"), 1U);
}

TEST_F(CufileDriverTest, staysClosedAfterAFailedTrial) {
  seams_.trial = [](bool) {
    return Status(Error{ErrorCode::kDeadlineExceeded, "no answer within 20000 ms"});
  };
  const auto device = open();
  EXPECT_EQ(DeviceFiles::open(device, {.choice = Choice::kDirect}).code(),
            ErrorCode::kDeadlineExceeded);
  const std::string path = makeFile("a", randomBytes(5000, 1));
  const auto memory = allocate(*device, 5000);
  const auto moved = files(device, Choice::kMeasured)->read({{{path, 0, {memory, 0, 5000}}}});
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ(moved->whyNotDirect, "no answer within 20000 ms");
  EXPECT_EQ(gpu().calls("cuFileDriverOpen"), 0U);
}

TEST_F(CufileDriverTest, bouncesFilesThatCuFileRefuses) {
  gpu().fail("cuFileHandleRegister", kCufileIoNotSupported);
  const auto device = open();
  const std::string path = makeFile("a", randomBytes(50000, 1));
  const auto memory = allocate(*device, 50000);
  const auto moved = files(device, Choice::kMeasured)->read({{{path, 0, {memory, 0, 50000}}}});
  ASSERT_TRUE(moved.ok());
  EXPECT_THAT(moved->whyNotDirect, HasSubstr("use ext4 or xfs on NVMe, not overlayfs"));
  EXPECT_EQ(gpu().calls("cuFileHandleRegister"), 1U) << "asked once for a file";
}

TEST_F(CufileDriverTest, goesOnWithMemoryThatCannotBeRegistered) {
  gpu().fail("cuFileBufRegister", 5036);
  const auto device = open();
  const auto bytes = randomBytes(50000, 1);
  const std::string path = makeFile("a", bytes);
  const auto memory = allocate(*device, 65536);
  const auto moved = files(device, Choice::kDirect)->read({{{path, 0, {memory, 8192, 50000}}}});
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  EXPECT_EQ(gpu().peek(memory->address() + 8192, bytes.size()), bytes);
}

TEST_F(CufileDriverTest, knowsABoundedNumberOfRegions) {
  const auto device = open();
  const std::string path = makeFile("a", randomBytes(4096, 1));
  const auto opened = files(device, Choice::kDirect);
  std::vector<std::shared_ptr<MemoryRegion>> regions;
  for (int count = 0; count < CufileDriver::kMaxRegistrations + 5; ++count) {
    regions.push_back(allocate(*device, 4096));
    ASSERT_TRUE(opened->read({{{path, 0, {regions.back(), 0, 4096}}}}).ok());
  }
  EXPECT_THAT(gpu().live(), testing::Contains("1024 of registered memory"));
  regions.erase(regions.begin(), regions.begin() + 5);
  EXPECT_THAT(gpu().live(), testing::Contains("1019 of registered memory"));
}

TEST_F(CufileDriverTest, hasAtMostSoManyRequestsInFlight) {
  const auto device = open();
  const auto direct = device->directFiles();
  ASSERT_TRUE(direct.ok());
  const std::string path = makeFile("a", randomBytes(4096, 1));
  const auto file = OpenedFile::open(path, FileUse::kRead);
  const auto handle = (*file)->directFile(**direct);
  ASSERT_TRUE(handle.ok());
  constexpr int kThreads = CufileDriver::kMaxInFlight + 20;
  const auto memory = allocate(*device, std::uint64_t{4096} * kThreads);
  gpu().hang("cuFileRead");
  std::vector<std::thread> threads;
  for (int index = 0; index < kThreads; ++index) {
    threads.emplace_back([&, place = std::uint64_t{4096} * static_cast<unsigned>(index)] {
      EXPECT_TRUE((*handle)->read(0, memory, place, 4096).ok());
    });
  }
  EXPECT_TRUE(eventually([&] { return gpu().hanging() == CufileDriver::kMaxInFlight; }));
  EXPECT_EQ(gpu().calls("cuFileRead"), static_cast<std::uint64_t>(CufileDriver::kMaxInFlight));
  gpu().release();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(gpu().calls("cuFileRead"), static_cast<std::uint64_t>(kThreads));
}

TEST_F(CufileDriverTest, isNotCalledAfterFork) {
  const auto device = open();
  const auto direct = device->directFiles();
  ASSERT_TRUE(direct.ok());
  const std::string path = makeFile("a", randomBytes(4096, 1));
  const pid_t child = fork();
  if (child == 0) {
    const auto file = OpenedFile::open(path, FileUse::kRead);
    const auto handle = (*file)->directFile(**direct);
    const bool refused =
        handle.code() == ErrorCode::kUnsupported && gpu().calls("cuFileHandleRegister") == 0;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace hearth::testing_gpu
