// Measures the processor time that a slice costs each agent; docs/design/rdma.md records it.
// HEARTH_SLICES and HEARTH_SLICE_BYTES choose how many slices of which size.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdlib>
#include <ctime>

#include "transport/rdma_test_pair.h"

namespace hearth {
namespace {

constexpr std::uint64_t kSlice = std::uint64_t{1} << 20;

class RdmaCostSlowTest : public RdmaPair {
 protected:
  // Processor time of a running thread.
  static double cpuMicroseconds(std::thread& thread) {
    clockid_t clock{};
    timespec used{};
    EXPECT_EQ(::pthread_getcpuclockid(thread.native_handle(), &clock), 0);
    EXPECT_EQ(::clock_gettime(clock, &used), 0);
    return static_cast<double>(used.tv_sec) * 1e6 + static_cast<double>(used.tv_nsec) / 1e3;
  }
  // Reads slices one after the other, into the same memory.
  Task<Status> readSlices(std::uint64_t bytes, int slices) {
    for (int slice = 0; slice < slices; ++slice) {
      std::vector<std::uint32_t> checksums;
      Task<Status> reads =
          a_->transport->read("b", keyOf(kPlain), 0, MemorySlice{into_, 0, bytes}, checksums,
                              Clock::now() + kHang, RequestClass::kDemand);
      const Status status = co_await reads;
      if (!status.ok()) co_return status;
    }
    co_return Status();
  }
  void measure(std::uint64_t bytes, int slices) {
    ASSERT_TRUE(connects());
    const std::uint64_t before = a_->statisticsOf("b").rdmaBytesReceived;
    const double reader = cpuMicroseconds(a_->thread), holder = cpuMicroseconds(b_->thread);
    ASSERT_TRUE(a_->await([&] { return readSlices(bytes, slices); }).ok());
    const double ofReader = (cpuMicroseconds(a_->thread) - reader) / slices;
    const double ofHolder = (cpuMicroseconds(b_->thread) - holder) / slices;
    EXPECT_EQ(a_->statisticsOf("b").rdmaBytesReceived - before,
              bytes * static_cast<std::uint64_t>(slices));
    std::printf("%d slices of %d KiB: reader %.0f us each, holder %.0f us each\n", slices,
                static_cast<int>(bytes / 1024), ofReader, ofHolder);
  }
};

TEST_F(RdmaCostSlowTest, OfASlice) {
  const char* const wanted = std::getenv("HEARTH_SLICES");
  const int slices = wanted == nullptr ? 500 : std::atoi(wanted);
  const char* const bytes = std::getenv("HEARTH_SLICE_BYTES");
  start();
  measure(bytes == nullptr ? kSlice : std::strtoull(bytes, nullptr, 10), slices);
}

}  // namespace
}  // namespace hearth
