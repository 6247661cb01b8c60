#include "blocks/device_blocks.h"

#include "gpu/testing/gpu_fixture.h"

namespace hearth {
namespace {

using Direction = BlockTransfers::Direction;
using testing_gpu::FakeGpu;
using testing_gpu::randomBytes;

constexpr std::size_t kDeviceBlockBytes = 3 * 4096;
constexpr std::size_t kBlocks = 6;
constexpr std::chrono::milliseconds kTransferTimeout{60'000};

class DeviceBlocksTest : public testing_gpu::GpuFixture, public testing::WithParamInterface<bool> {
 protected:
  void openTransfers() {
    device_ = open();
    memory_ = allocate(*device_, kBlocks * kDeviceBlockBytes);
    auto opened = BlockTransfers::open({.threads = 4, .direct = GetParam(), .device = device_});
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    transfers_ = std::move(*opened);
  }
  void TearDown() override {
    transfers_.reset();
    memory_.reset();
    device_.reset();
  }
  BlockTransfer transfer(const std::string& path, std::size_t block) const {
    auto* const address =
        reinterpret_cast<std::byte*>(memory_->address() + block * kDeviceBlockBytes);
    return {path, 0, address, kDeviceBlockBytes, true};
  }
  std::vector<BlockFailure> run(Direction direction, std::vector<BlockTransfer> all,
                                std::uint64_t event = 0) {
    auto ended =
        transfers_->wait(transfers_->begin(direction, std::move(all), event), kTransferTimeout);
    EXPECT_TRUE(ended.ok());
    return ended.ok() ? std::move(*ended) : std::vector<BlockFailure>();
  }
  // A file for each block, and the transfers of all blocks of the memory.
  std::vector<BlockTransfer> allBlocks() {
    std::vector<BlockTransfer> all;
    for (std::size_t i = 0; i < kBlocks; ++i) {
      all.push_back(
          transfer(makeFile(std::to_string(i), std::vector<std::byte>(kDeviceBlockBytes)), i));
    }
    return all;
  }

  std::shared_ptr<Device> device_;
  std::shared_ptr<MemoryRegion> memory_;
  std::unique_ptr<BlockTransfers> transfers_;
};

INSTANTIATE_TEST_SUITE_P(Paths, DeviceBlocksTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Direct" : "ThroughHost"; });

TEST_P(DeviceBlocksTest, LoadsWhatWasDumped) {
  openTransfers();
  const std::vector<BlockTransfer> all = allBlocks();
  const std::vector<std::byte> saved = randomBytes(kBlocks * kDeviceBlockBytes, 7);
  gpu().poke(memory_->address(), saved);
  EXPECT_TRUE(run(Direction::kDump, all).empty());
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const auto part = std::span(saved).subspan(i * kDeviceBlockBytes, kDeviceBlockBytes);
    EXPECT_EQ(contents(all[i].path), std::vector<std::byte>(part.begin(), part.end())) << i;
  }
  gpu().poke(memory_->address(), std::vector<std::byte>(saved.size()));
  EXPECT_TRUE(run(Direction::kLoad, all).empty());
  EXPECT_EQ(gpu().peek(memory_->address(), saved.size()), saved);
  const bool wentDirect = gpu().calls("cuFileRead") + gpu().calls("cuFileWrite") > 0;
  EXPECT_EQ(wentDirect, GetParam());
}

TEST_P(DeviceBlocksTest, TellsTheDriverOfEnrolledMemoryOnce) {
  openTransfers();
  ASSERT_TRUE(transfers_->enroll(memory_->address(), memory_->size()).ok());
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(run(Direction::kDump, allBlocks()).empty());
  EXPECT_LE(gpu().calls("cuFileBufRegister"), 1U);
}

TEST_P(DeviceBlocksTest, AFailureIsThatOfItsBlockAlone) {
  openTransfers();
  const std::vector<BlockTransfer> all{
      transfer(makeFile("good", randomBytes(kDeviceBlockBytes, 3)), 0),
      transfer(folder_ + "/absent", 1),
      transfer(makeFile("short", randomBytes(100, 4)), 2),
      {makeFile("foreign", randomBytes(4096, 5)), 0, reinterpret_cast<std::byte*>(4096), 4096,
       true}};
  const std::vector<BlockFailure> failures = run(Direction::kLoad, all);
  ASSERT_EQ(failures.size(), 3U);
  EXPECT_EQ(failures[0].error.code, ErrorCode::kNotFound);
  EXPECT_EQ(failures[1].error.code, ErrorCode::kCorrupt);
  EXPECT_EQ(failures[2].error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(gpu().peek(memory_->address(), kDeviceBlockBytes), randomBytes(kDeviceBlockBytes, 3));
  EXPECT_EQ(transfers_->enroll(4096, 4096).code(), ErrorCode::kInvalidArgument);
}

TEST_P(DeviceBlocksTest, DumpsWhatTheGpuHasWrittenBeforeTheEvent) {
  openTransfers();
  const std::vector<BlockTransfer> all = allBlocks();
  const std::vector<std::byte> computed = randomBytes(kBlocks * kDeviceBlockBytes, 11);
  // Copies of another stream stand for the work of a model: they run when the event is awaited.
  auto pinned = device_->pin(computed.size());
  auto stream = device_->stream();
  ASSERT_TRUE(pinned.ok() && stream.ok());
  std::ranges::copy(computed, (*pinned)->bytes().begin());
  CudaContext context = nullptr;
  const CudaFunctions cuda = FakeGpu::cuda();
  ASSERT_EQ(cuda.primaryContextRetain(&context, 0), 0);
  ASSERT_EQ(cuda.contextPushCurrent(context), 0);
  CudaStream work = nullptr;
  CudaEvent event = nullptr;
  ASSERT_EQ(cuda.streamCreate(&work, 1), 0);
  ASSERT_EQ(cuda.eventCreate(&event, 0), 0);
  ASSERT_EQ(cuda.copyToDevice(memory_->address(), (*pinned)->bytes().data(), computed.size(), work),
            0);
  ASSERT_EQ(cuda.eventRecord(event, work), 0);
  EXPECT_TRUE(run(Direction::kDump, all, reinterpret_cast<std::uint64_t>(event)).empty());
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const auto part = std::span(computed).subspan(i * kDeviceBlockBytes, kDeviceBlockBytes);
    EXPECT_EQ(contents(all[i].path), std::vector<std::byte>(part.begin(), part.end())) << i;
  }
  EXPECT_EQ(cuda.eventDestroy(event), 0);
  EXPECT_EQ(cuda.streamDestroy(work), 0);
  EXPECT_EQ(cuda.contextPopCurrent(&context), 0);
  EXPECT_EQ(cuda.primaryContextRelease(0), 0);
}

}  // namespace
}  // namespace hearth
