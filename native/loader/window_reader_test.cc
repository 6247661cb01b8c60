#include "loader/window_reader.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "loader/testing/safetensors_writer.h"
#include "memory/memory_region.h"

namespace hearth {
namespace {

constexpr std::uint64_t kWindowSize = 2 * kDirectReadAlignment;
constexpr std::size_t kWindows = 3;

// Windows of two pages of one file, and two slots for them.
class WindowReaderTest : public testing::Test {
 protected:
  WindowReaderTest()
      : path_(folder_.write("x", "{" + byteTensor("x", 0, kWindows * kWindowSize) + "}",
                            patternBytes(kWindows * kWindowSize, 1))),
        files_{*ModelFile::open(path_)} {
    for (std::size_t window = 0; window < kWindows; ++window) {
      windows_.push_back({{{0, window * kWindowSize, kWindowSize}, 0}});
    }
  }
  std::byte* slot(std::size_t number) { return memory_->bytes().data() + number * kWindowSize; }
  std::string contents(std::size_t number) {
    return {reinterpret_cast<const char*>(slot(number)), kWindowSize};
  }
  std::string ofFile(std::size_t window) const {
    std::ifstream file(path_, std::ios::binary);
    std::string bytes(kWindowSize, '\0');
    file.seekg(static_cast<std::streamoff>(window * kWindowSize));
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }
  WindowReader reader() { return {files_, windows_, {slot(0), slot(1)}, 4}; }

  const SafetensorsFolder folder_;
  const std::string path_;
  const std::vector<std::shared_ptr<const ModelFile>> files_;
  std::vector<SliceWindow> windows_;
  const std::shared_ptr<MemoryRegion> memory_ = *MemoryRegion::allocate(2 * kWindowSize);
};

TEST_F(WindowReaderTest, FillsASlotAgainWhenItMay) {
  WindowReader windows = reader();
  windows.allow(2);
  for (const std::size_t window : {0U, 1U}) {
    ASSERT_TRUE(windows.await(window).ok());
    EXPECT_EQ(contents(window), ofFile(window));
  }
  windows.allow(3);
  ASSERT_TRUE(windows.await(2).ok());
  EXPECT_EQ(contents(0), ofFile(2));
  EXPECT_EQ(contents(1), ofFile(1));
}

TEST_F(WindowReaderTest, EndsWithWindowsThatItMayNotRead) {
  {
    WindowReader windows = reader();
    windows.allow(1);
    ASSERT_TRUE(windows.await(0).ok());
  }
  EXPECT_EQ(contents(1), std::string(kWindowSize, '\0'));
}

TEST_F(WindowReaderTest, TellsOfAFailure) {
  std::filesystem::resize_file(path_, kWindowSize + 4096);
  WindowReader windows = reader();
  windows.allow(3);
  EXPECT_EQ(windows.await(2).code(), ErrorCode::kOriginChanged);
}

TEST_F(WindowReaderTest, HasNothingToReadOfAnEmptyShare) {
  windows_[0].clear();
  WindowReader windows = reader();
  windows.allow(1);
  EXPECT_TRUE(windows.await(0).ok());
}

}  // namespace
}  // namespace hearth
