// Reads into memory of a GPU, over the functions of a driver in this process whose memory no
// processor can touch.
#include <dlfcn.h>

#include <optional>

#include "client_tests/testing_client.h"
#include "gpu/cuda_functions.h"

namespace hearth::testing_client {
namespace {

constexpr std::uint64_t kFileBytes = 3 * kChunkBytes + 12'345;
constexpr const char* kPath = "/dataset/llm/model";

// Memory of the first GPU, and its context as the calling thread's.
class GpuProgram {
 public:
  GpuProgram() {
    setenv("HEARTH_CUDA_LIBRARY", HEARTH_FAKE_GPU, 1);
    cuda_ = *loadCuda(HEARTH_FAKE_GPU);
    EXPECT_EQ(cuda_.init(0), 0);
    EXPECT_EQ(cuda_.primaryContextRetain(&context_, 0), 0);
    EXPECT_EQ(cuda_.contextPushCurrent(context_), 0);
  }
  ~GpuProgram() {
    CudaContext popped = nullptr;
    EXPECT_EQ(cuda_.contextPopCurrent(&popped), 0);
    EXPECT_EQ(cuda_.primaryContextRelease(0), 0);
    EXPECT_EQ(breaches(), 0u);
    unsetenv("HEARTH_CUDA_LIBRARY");
  }
  [[nodiscard]] std::uint64_t allocate(std::size_t size) const {
    std::uint64_t address = 0;
    EXPECT_EQ(cuda_.memoryAllocate(&address, size), 0);
    return address;
  }
  void free(std::uint64_t address) const { EXPECT_EQ(cuda_.memoryFree(address), 0); }
  [[nodiscard]] std::string bytesAt(std::uint64_t address, std::size_t size) const {
    void* pinned = nullptr;
    EXPECT_EQ(cuda_.hostAllocate(&pinned, size, 0), 0);
    CudaStream stream = nullptr;
    EXPECT_EQ(cuda_.streamCreate(&stream, kCudaStreamNonBlocking), 0);
    EXPECT_EQ(cuda_.copyToHost(pinned, address, size, stream), 0);
    EXPECT_EQ(cuda_.streamSynchronize(stream), 0);
    EXPECT_EQ(cuda_.streamDestroy(stream), 0);
    std::string bytes(static_cast<const char*>(pinned), size);
    EXPECT_EQ(cuda_.hostFree(pinned), 0);
    return bytes;
  }

  // Of the driver of tests: fakeGpuBreaches() and its like.
  template <class Function>
  [[nodiscard]] static Function* control(const char* name) {
    void* const library = dlopen(HEARTH_FAKE_GPU, RTLD_LAZY | RTLD_NOLOAD);
    const auto function = reinterpret_cast<Function*>(dlsym(library, name));
    dlclose(library);
    return function;
  }

 private:
  // Of the driver's contract, by anybody in the process.
  static std::size_t breaches() { return control<std::size_t()>("fakeGpuBreaches")(); }

  CudaFunctions cuda_{};
  CudaContext context_ = nullptr;
};

struct GpuMemoryTest : ClientTest {
  GpuMemoryTest() {
    origin.add("model", kFileBytes);
    expected = origin.bytesOf("model");
    dataset = agent.add(origin);
    agent.engine().nameDatasets({{"llm", dataset}});
    useToken(capabilityOf({"llm"}));
    open(addressOf(agent));
  }
  ~GpuMemoryTest() override {
    // The library returns its references to the driver before the program ends its own context.
    xfer_gd2fs_close(ctx);
    ctx = nullptr;
  }
  // Zero where the library refuses the memory.
  xfer_gd2fs_sge sgeOf(std::uint64_t address, std::size_t size) {
    void* const place = reinterpret_cast<void*>(address);
    return {place, size, xfer_gd2fs_reg_iomem(ctx, place, size, nullptr)};
  }
  xfer_gd2fs_completion readInto(std::vector<xfer_gd2fs_sge> sges, std::uint64_t offset) {
    EXPECT_EQ(xfer_gd2fs_preadv(ctx, this, kPath, offset, sges.data(),
                                static_cast<std::uint16_t>(sges.size()), 0),
              0);
    return next();
  }

  GpuProgram gpu;
  Origin origin;
  std::string expected;
  Agent agent{"agent"};
  std::shared_ptr<Dataset> dataset;
};

TEST_F(GpuMemoryTest, AWholeFileComesIntoMemoryOfAGpu) {
  const std::uint64_t address = gpu.allocate(kFileBytes);
  const xfer_gd2fs_completion done = readInto({sgeOf(address, kFileBytes)}, 0);
  EXPECT_EQ(done.status, 0u);
  EXPECT_EQ(done.value, kFileBytes);
  EXPECT_TRUE(gpu.bytesAt(address, kFileBytes) == expected);
  gpu.free(address);
}

TEST_F(GpuMemoryTest, ARangeIsScatteredOverMemoryOfTheHostAndOfTheGpu) {
  const std::uint64_t address = gpu.allocate(20'000);
  std::string host(30'000, '\0');
  const xfer_gd2fs_sge ofGpu = sgeOf(address, 20'000);
  const xfer_gd2fs_sge ofHost = sgeOf(reinterpret_cast<std::uintptr_t>(host.data()), host.size());
  const std::uint64_t from = kChunkBytes - 25'000;
  const xfer_gd2fs_completion done =
      readInto({{reinterpret_cast<void*>(address + 100), 19'900, ofGpu.iomem},
                ofHost,
                {ofGpu.addr, 100, ofGpu.iomem}},
               from);
  EXPECT_EQ(done.status, 0u);
  EXPECT_EQ(done.value, 50'000u);
  const std::string onGpu = gpu.bytesAt(address, 20'000);
  EXPECT_EQ(onGpu.substr(100), expected.substr(from, 19'900));
  EXPECT_EQ(host, expected.substr(from + 19'900, 30'000));
  EXPECT_EQ(onGpu.substr(0, 100), expected.substr(from + 49'900, 100));
  gpu.free(address);
}

TEST_F(GpuMemoryTest, ManyReadsShareThePinnedMemory) {
  constexpr std::size_t kReads = 64, kBytes = 100'000;
  const std::uint64_t address = gpu.allocate(kReads * kBytes);
  const xfer_gd2fs_sge all = sgeOf(address, kReads * kBytes);
  for (std::size_t i = 0; i < kReads; ++i) {
    const xfer_gd2fs_sge sge{reinterpret_cast<void*>(address + i * kBytes), kBytes, all.iomem};
    ASSERT_EQ(xfer_gd2fs_preadv(ctx, this, kPath, i * kBytes, &sge, 1, 0), 0);
  }
  for (std::size_t i = 0; i < kReads; ++i) EXPECT_EQ(next().status, 0u);
  EXPECT_TRUE(gpu.bytesAt(address, kReads * kBytes) == expected.substr(0, kReads * kBytes));
  gpu.free(address);
}

TEST_F(GpuMemoryTest, MemoryThatEndsTooSoonIsNotRegistered) {
  const std::uint64_t address = gpu.allocate(8192);
  EXPECT_EQ(sgeOf(address, std::size_t{1} << 32).iomem, nullptr);
  EXPECT_EQ(errno, EINVAL);
  gpu.free(address);
}

TEST_F(GpuMemoryTest, MemoryThatWasFreedFailsTheRead) {
  const std::uint64_t address = gpu.allocate(8192);
  const xfer_gd2fs_sge sge = sgeOf(address, 8192);
  gpu.free(address);
  EXPECT_EQ(XFER_GD2FS_STATUS_CODE(readInto({sge}, 0).status), static_cast<unsigned>(EFAULT));
}

// The driver may write into the GPU's memory after the read has failed.
TEST_F(GpuMemoryTest, AReadThatIsGivenUpSaysThatItsMemoryIsNotQuiescent) {
  xfer_gd2fs_close(ctx);
  xfer_gd2fs_options given = options(addressOf(agent));
  given.timeout = 300;
  ctx = xfer_gd2fs_connect(&given);
  ASSERT_NE(ctx, nullptr);
  const std::uint64_t address = gpu.allocate(8192);
  const xfer_gd2fs_sge sge = sgeOf(address, 8192);
  // On a busy machine a read may end by its time before the driver is called.
  EXPECT_TRUE(eventually([&] {
    const xfer_gd2fs_completion done = readInto({sge}, 0);
    return done.status == 0 && XFER_GD2FS_IS_QUIESCENT(done);
  }));
  EXPECT_EQ(xfer_gd2fs_drain(ctx, sge.iomem, -1), 0);
  GpuProgram::control<void(const char*)>("fakeGpuHang")("cuEventSynchronize");
  const xfer_gd2fs_completion late = readInto({sge}, 0);
  EXPECT_EQ(XFER_GD2FS_STATUS_CODE(late.status), static_cast<unsigned>(ETIMEDOUT));
  EXPECT_FALSE(XFER_GD2FS_IS_QUIESCENT(late));
  EXPECT_EQ(xfer_gd2fs_drain(ctx, sge.iomem, 50), -ETIMEDOUT);
  std::string host(8192, '\0');
  const xfer_gd2fs_sge ofHost = sgeOf(reinterpret_cast<std::uintptr_t>(host.data()), host.size());
  EXPECT_EQ(xfer_gd2fs_drain(ctx, ofHost.iomem, -1), 0) << "other memory";
  GpuProgram::control<void()>("fakeGpuRelease")();
  EXPECT_EQ(xfer_gd2fs_drain(ctx, sge.iomem, -1), 0);
  gpu.free(address);
}

// The driver may still read pinned memory, and write to the GPU's, when the context is closed.
TEST_F(GpuMemoryTest, CloseDoesNotWaitForACallOfTheDriverThatHangs) {
  xfer_gd2fs_close(ctx);
  xfer_gd2fs_options given = options(addressOf(agent));
  given.timeout = 300;
  ctx = xfer_gd2fs_connect(&given);
  ASSERT_NE(ctx, nullptr);
  const std::size_t before = GpuProgram::control<std::size_t()>("fakeGpuPinned")();
  const std::uint64_t address = gpu.allocate(8192);
  const xfer_gd2fs_sge sge = sgeOf(address, 8192);
  EXPECT_TRUE(eventually([&] { return readInto({sge}, 0).status == 0; }));
  GpuProgram::control<void(const char*)>("fakeGpuHang")("cuEventSynchronize");
  ASSERT_EQ(xfer_gd2fs_preadv(ctx, this, kPath, 0, &sge, 1, 0), 0);
  EXPECT_TRUE(eventually([] { return GpuProgram::control<int()>("fakeGpuHanging")() == 1; }));
  xfer_gd2fs_close(ctx);
  xfer_gd2fs_completion done{};
  ASSERT_EQ(xfer_gd2fs_wait(ctx, &done, 1, 0), 1);
  EXPECT_EQ(XFER_GD2FS_STATUS_CODE(done.status), static_cast<unsigned>(ETIMEDOUT));
  const auto pinned = [] { return GpuProgram::control<std::size_t()>("fakeGpuPinned")(); };
  EXPECT_GT(pinned(), before);
  GpuProgram::control<void()>("fakeGpuRelease")();
  EXPECT_TRUE(eventually([&] { return pinned() == before; })) << "given back as soon as it returns";
  gpu.free(address);
}

}  // namespace
}  // namespace hearth::testing_client
