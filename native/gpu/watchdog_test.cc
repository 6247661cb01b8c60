// Drivers that never return: a call ends with a reason, and all that the driver may still touch
// stays.
#include <future>

#include "base/testing/eventually.h"
#include "base/testing/moved_clock.h"
#include "gpu/testing/gpu_fixture.h"

namespace hearth::testing_gpu {
namespace {

using testing::HasSubstr;
using Choice = DeviceFiles::Choice;

class WatchdogTest : public GpuFixture {
 protected:
  static constexpr std::size_t kBytes = 100000;

  void expectEnd(const std::string& call, Choice choice, bool isRead, const std::string& stage,
                 int lanes = 2) {
    SCOPED_TRACE(call);
    const std::string path = makeFile("a", randomBytes(kBytes, 1));
    auto device = open();
    auto memory = allocate(*device, kBytes + 4096);
    DeviceFiles::Options options;
    options.choice = choice;
    options.lanes = 2;
    options.sliceBytes = 16384;
    options.stallTimeout = std::chrono::hours(1);
    auto opened = DeviceFiles::open(device, options);
    ASSERT_TRUE(opened.ok());
    gpu().hang(call);
    // Whole pages, as a direct write takes no others.
    const FilePiece piece{path, 0, {memory, 0, kBytes / 4096 * 4096}};
    const auto transfer = [&] {
      return isRead ? (*opened)->read({{piece}}) : (*opened)->write({{piece}});
    };
    auto answer = std::async(std::launch::async, transfer);
    // Both lanes, so that neither moves anything when the hour is over.
    EXPECT_TRUE(eventually([&] { return gpu().hanging() == lanes; }));
    moveClock(std::chrono::hours(2));
    const auto moved = answer.get();
    EXPECT_EQ(moved.code(), ErrorCode::kDeadlineExceeded);
    EXPECT_THAT(moved.error().message, HasSubstr(stage));
    EXPECT_EQ(transfer().error().message, moved.error().message) << "it is broken for good";
    // The owner lets go of the memory while the driver may still write there.
    const_cast<FilePiece&>(piece).memory.region.reset();
    memory.reset();
    opened->reset();
    device.reset();
    EXPECT_THAT(gpu().live(), testing::Contains("1 of GPU memory"));
    gpu().release();
    runtime_.reset();
    EXPECT_TRUE(eventually([&] { return gpu().live().empty(); }));
  }
};

TEST_F(WatchdogTest, endsCopiesThatHang) {
  expectEnd("cuEventSynchronize", Choice::kBounced, true, "in a copy of the GPU");
  expectEnd("cuMemcpyHtoDAsync", Choice::kBounced, true, "in beginning a copy to the GPU");
  expectEnd("cuMemcpyDtoHAsync", Choice::kBounced, false, "in beginning a copy from the GPU");
}

TEST_F(WatchdogTest, endsDirectTransfersThatHang) {
  expectEnd("cuFileRead", Choice::kDirect, true, "in a direct read");
  expectEnd("cuFileWrite", Choice::kDirect, false, "in a direct write");
  expectEnd("cuFileHandleRegister", Choice::kDirect, true, "in registering a file", 1);
}

}  // namespace
}  // namespace hearth::testing_gpu
