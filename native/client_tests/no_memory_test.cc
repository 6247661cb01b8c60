// Calls of a program that runs out of memory: an errno, never an exception or a lost completion.
#include <atomic>
#include <cstdlib>
#include <new>

#include "base/testing/sanitizers.h"
#include "client_tests/testing_client.h"

namespace {

// Allocations of this thread until one fails; negative: none does.
thread_local int untilFailure = -1;

[[maybe_unused]] void* allocate(std::size_t size, std::size_t alignment) {
  if (untilFailure >= 0 && untilFailure-- == 0) return nullptr;
  return alignment == 0 ? std::malloc(size)
                        : std::aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
}
[[maybe_unused]] void* orThrow(void* memory) {
  return memory != nullptr ? memory : throw std::bad_alloc();
}

}  // namespace

// The library uses the program's. ThreadSanitizer has its own, which it lets nobody replace.
#if !__has_feature(thread_sanitizer)
void* operator new(std::size_t size) { return orThrow(allocate(size, 0)); }
void* operator new[](std::size_t size) { return orThrow(allocate(size, 0)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return orThrow(allocate(size, static_cast<std::size_t>(alignment)));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return orThrow(allocate(size, static_cast<std::size_t>(alignment)));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return allocate(size, 0); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
#endif

namespace hearth::testing_client {
namespace {

struct NoMemoryTest : ClientTest {
  NoMemoryTest() {
    origin.add("model", kChunkBytes);
    agent.engine().nameDatasets({{"llm", agent.add(origin)}});
    useToken(capabilityOf({"llm"}));
    address = addressOf(agent);
    setenv("HEARTH_CLIENTS_SOCKET", "", 1);
  }
  ~NoMemoryTest() override { unsetenv("HEARTH_CLIENTS_SOCKET"); }
  void SetUp() override {
    if (kThreadSanitizer) GTEST_SKIP() << "no allocation fails under ThreadSanitizer";
  }

  // `call` with one allocation after the other failing, until it gets by without the next one.
  // `check` gets its result and whether an allocation failed.
  template <class Call, class Check>
  static void withEachMissing(Call call, Check check) {
    bool failed = true;
    for (int which = 0; failed; ++which) {
      untilFailure = which;
      const auto result = call();
      const int error = errno;
      failed = untilFailure < 0;
      untilFailure = -1;
      check(result, error, failed);
    }
  }

  Origin origin;
  Agent agent{"agent"};
  std::string address;
};

TEST_F(NoMemoryTest, AReadIsRefusedOrEndsOnce) {
  open(address);
  std::vector<char> bytes(kChunkBytes);
  xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, bytes.data(), bytes.size(), nullptr);
  const xfer_gd2fs_sge sge{bytes.data(), bytes.size(), iomem};
  int refused = 0;
  withEachMissing([&] { return xfer_gd2fs_preadv(ctx, this, "/dataset/llm/model", 0, &sge, 1, 0); },
                  [&](ssize_t result, int, bool failed) {
                    if (result != 0) {
                      ++refused;
                      EXPECT_EQ(result, -ENOMEM);
                      return;
                    }
                    const unsigned code = XFER_GD2FS_STATUS_CODE(next().status);
                    EXPECT_TRUE(code == 0 || (failed && code == ENOMEM)) << code;
                  });
  EXPECT_GT(refused, 0);
  xfer_gd2fs_completion none;
  EXPECT_EQ(xfer_gd2fs_wait(ctx, &none, 1, 0), 0);
  EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, iomem), 0) << "no request that was refused uses it";
}

TEST_F(NoMemoryTest, MemoryIsRegisteredOrNot) {
  open(address);
  char byte = 0;
  withEachMissing([&] { return xfer_gd2fs_reg_iomem(ctx, &byte, 1, nullptr); },
                  [&](xfer_gd2fs_iomem* result, int error, bool) {
                    if (result == nullptr) EXPECT_EQ(error, ENOMEM);
                    if (result != nullptr) EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, result), 0);
                  });
}

TEST_F(NoMemoryTest, ConnectFailsAndLeavesNothing) {
  const xfer_gd2fs_options given = options(address);
  withEachMissing([&] { return xfer_gd2fs_connect(&given); },
                  [&](xfer_gd2fs_ctx* result, int error, bool) {
                    if (result == nullptr) EXPECT_EQ(error, ENOMEM);
                    xfer_gd2fs_close(result);
                  });
}

}  // namespace
}  // namespace hearth::testing_client
