#include "gpu/cuda_device.h"

#include <fcntl.h>

#include "gpu/testing/gpu_fixture.h"

namespace hearth::testing_gpu {
namespace {

using testing::HasSubstr;

class CudaDeviceTest : public GpuFixture {};

TEST_F(CudaDeviceTest, hasANameAndAModel) {
  EXPECT_EQ(open("cuda")->name(), "cuda:0");
  EXPECT_EQ(open("cuda:1")->name(), "cuda:1");
  EXPECT_EQ(open("cuda:1")->model(), "Fake GPU");
  EXPECT_EQ(open("cpu")->name(), "cpu");
}

TEST_F(CudaDeviceTest, namesThatAreNoDevice) {
  const auto runtime = std::make_shared<GpuRuntime>(seams_);
  EXPECT_EQ(runtime->open("cuda:2").code(), ErrorCode::kNotFound);
  for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "CUDA:0"}) {
    EXPECT_EQ(runtime->open(name).code(), ErrorCode::kInvalidArgument) << name;
  }
}

TEST_F(CudaDeviceTest, refusesMemoryOfOthers) {
  const auto device = open();
  const auto other = open("cuda:1");
  const auto memory = allocate(*device, 10000);
  const std::uint64_t address = memory->address();
  EXPECT_TRUE(device->adopt(address + 1, 9999, memory).ok());
  const auto why = [&](std::uint64_t at, std::uint64_t bytes) {
    const auto adopted = device->adopt(at, bytes, nullptr);
    EXPECT_EQ(adopted.code(), ErrorCode::kInvalidArgument);
    return adopted.ok() ? "" : adopted.error().message;
  };
  EXPECT_THAT(why(address, 10001), HasSubstr("is shorter than 10001 bytes"));
  EXPECT_THAT(why(address, 0), HasSubstr("impossible size"));
  EXPECT_THAT(why(address, UINT64_MAX), HasSubstr("impossible size"));
  const std::uint64_t freed = allocate(*device, 4096)->address();
  EXPECT_THAT(why(freed, 4096), HasSubstr("may have been freed"));
  const auto foreign = allocate(*other, 4096);
  EXPECT_THAT(why(foreign->address(), 4096), HasSubstr("belongs to cuda:1"));
}

TEST_F(CudaDeviceTest, frees) {
  const auto device = open();
  EXPECT_EQ(device->allocate(std::uint64_t{1} << 40).code(), ErrorCode::kOutOfSpace);
  for (int round = 0; round < 10; ++round) allocate(*device, 60 << 20);
}

TEST_F(CudaDeviceTest, exportsMemoryOnPages) {
  const auto device = open();
  const auto memory = allocate(*device, 100000);
  const auto part = device->adopt(memory->address() + 5000, 50, memory);
  const auto exported = device->exportDmaBuf(**part);
  ASSERT_TRUE(exported.ok()) << exported.error().message;
  EXPECT_EQ(exported->offset, 5000U - 4096);
  EXPECT_GE(fcntl(exported->descriptor.get(), F_GETFD), 0);
}

TEST_F(CudaDeviceTest, saysWhatAnExportTakes) {
  FakeOptions options;
  options.hasDmaBuf = false;
  gpu().reset(options);
  const auto device = open();
  const auto exported = device->exportDmaBuf(*allocate(*device, 4096));
  EXPECT_EQ(exported.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(exported.error().message, HasSubstr("open kernel modules"));
  EXPECT_EQ(open("cpu")->exportDmaBuf(*MemoryRegion::host({})).code(), ErrorCode::kUnsupported);
}

TEST_F(CudaDeviceTest, saysWhyTheDriverDoesNotStart) {
  const auto error = [&](int result) {
    gpu().fail("cuInit", result);
    return std::make_shared<GpuRuntime>(seams_)->open("cuda:0").error();
  };
  EXPECT_EQ(error(kCudaNoDevice).code, ErrorCode::kNotFound);
  EXPECT_THAT(error(kCudaNoDevice).message, HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_EQ(error(kCudaSystemDriverMismatch).code, ErrorCode::kUnavailable);
  EXPECT_THAT(error(kCudaSystemNotReady).message, HasSubstr("nvidia-fabricmanager"));
  seams_.cuda = [] { return loadCuda("libcuda-of-hearth.so.9"); };
  EXPECT_THAT(error(0).message, HasSubstr("install the NVIDIA driver"));
}

// The fault that ends a context also ends what was begun: nothing is waited for in vain.
TEST_F(CudaDeviceTest, survivesALostContext) {
  const auto device = open();
  const auto memory = allocate(*device, 100000);
  const std::string path = makeFile("a", randomBytes(100000, 1));
  const auto opened = files(device, DeviceFiles::Choice::kBounced);
  gpu().fail("cuEventSynchronize", kCudaIllegalAddress);
  const auto moved = opened->read({{{path, 0, {memory, 0, 100000}}}});
  EXPECT_EQ(moved.code(), ErrorCode::kUnavailable);
  EXPECT_THAT(moved.error().message, HasSubstr("start the process again"));
}

}  // namespace
}  // namespace hearth::testing_gpu
