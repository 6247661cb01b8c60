#include "memory/memory_touch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/owned_fd.h"
#include "memory/aligned_mapping.h"

namespace hearth {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

OwnedFd fileOf(std::uint64_t bytes, unsigned flags = 0) {
  OwnedFd file(::memfd_create("touched", MFD_CLOEXEC | flags));
  EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  return file;
}

std::uint64_t roomOf(const OwnedFd& file) {
  struct stat about {};
  EXPECT_EQ(::fstat(file.get(), &about), 0);
  return static_cast<std::uint64_t>(about.st_blocks) * 512;
}

TEST(MemoryTouch, TakesTheRoomOfARange) {
  const OwnedFd file = fileOf(16 * kMiB);
  const auto touched = touchMemory(file.get(), 3 * kMiB, 6 * kMiB + kSmallPageBytes);
  ASSERT_TRUE(touched.ok()) << touched.error().message;
  EXPECT_GE(roomOf(file), 6 * kMiB + kSmallPageBytes);
  EXPECT_LE(touched->hugeBytes, 4 * kMiB) << "the two whole pages of 2 MiB in it";
  EXPECT_LE(roomOf(file), 8 * kMiB) << "what lies beside it stays untouched";
  EXPECT_TRUE(touchMemory(file.get(), 0, 0).ok());
}

TEST(MemoryTouch, LeavesWhatIsThere) {
  const OwnedFd file = fileOf(8 * kMiB);
  const std::string text = "text";
  ASSERT_EQ(::pwrite(file.get(), text.data(), text.size(), 5 * kMiB), 4);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(touchMemory(file.get(), 0, 8 * kMiB).ok());
    EXPECT_EQ(roomOf(file), 8 * kMiB);
  }
  const auto mapping = AlignedMapping::map(file.get(), 0, 8 * kMiB, true);
  ASSERT_TRUE(mapping.ok());
  const auto* bytes = reinterpret_cast<const char*>(mapping->data());
  EXPECT_EQ(std::string(bytes + 5 * kMiB, 4), text);
  EXPECT_EQ(bytes[5 * kMiB + 4], 0);
}

TEST(MemoryTouch, IsOfWholePagesInsideTheFile) {
  const OwnedFd file = fileOf(kMiB);
  const auto refused = [&](std::uint64_t offset, std::uint64_t bytes) {
    return touchMemory(file.get(), offset, bytes).code() == ErrorCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused(0, kMiB + kSmallPageBytes));
  EXPECT_TRUE(refused(2 * kMiB, 0));
  EXPECT_TRUE(refused(kSmallPageBytes, ~std::uint64_t{0} - kSmallPageBytes + 1));
  EXPECT_TRUE(refused(100, kSmallPageBytes));
  EXPECT_TRUE(refused(0, 100));
  EXPECT_FALSE(touchMemory(-1, 0, kMiB).ok());
}

// A control group (cgroups(7), of either version) for a test; removed at its end.
class Group {
 public:
  explicit Group(const std::string& name)
      : first_(::access("/sys/fs/cgroup/memory", X_OK) == 0),
        folder_((first_ ? "/sys/fs/cgroup/memory/" : "/sys/fs/cgroup/") + name) {
    there_ = ::mkdir(folder_.c_str(), 0755) == 0 && ::access(current().c_str(), R_OK) == 0;
  }
  ~Group() { ::rmdir(folder_.c_str()); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  [[nodiscard]] bool there() const { return there_; }
  [[nodiscard]] std::uint64_t charged() const {
    std::uint64_t bytes = 0;
    std::ifstream(current()) >> bytes;
    return bytes;
  }
  // The memory charged to the group while a process in it that does `work` lives.
  template <class Work>
  std::uint64_t chargedFor(Work work) const {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const OwnedFd from(ends[0]), to(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {
      std::ofstream(folder_ + "/cgroup.procs") << ::getpid() << std::flush;
      if (!work() || ::write(to.get(), "d", 1) != 1) ::_exit(1);
      ::pause();
    }
    char done = 0;
    EXPECT_EQ(::read(from.get(), &done, 1), 1);
    const std::uint64_t bytes = charged();
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    return bytes;
  }

 private:
  [[nodiscard]] std::string current() const {
    return folder_ + (first_ ? "/memory.usage_in_bytes" : "/memory.current");
  }
  const bool first_;  // version
  const std::string folder_;
  bool there_ = false;
};

// The holder touches for agents, whose limits count nothing of it then.
TEST(MemoryTouch, IsChargedToWhoTouchesFirst) {
  const std::string number = std::to_string(::getpid());
  const Group first("hearth-first-" + number), second("hearth-second-" + number);
  if (!first.there() || !second.there())
    GTEST_SKIP() << "no control groups with memory can be made here";
  constexpr std::uint64_t kBytes = 64 * kMiB;
  const OwnedFd file = fileOf(kBytes);
  EXPECT_GE(first.chargedFor([&] { return touchMemory(file.get(), 0, kBytes).ok(); }), kBytes);
  EXPECT_GE(first.charged(), kBytes) << "also when it has ended";
  EXPECT_LT(second.chargedFor([&] {
    const auto mapping = AlignedMapping::map(file.get(), 0, kBytes, true);
    if (!mapping.ok()) return false;
    std::fill_n(mapping->data(), kBytes, std::byte{1});
    return touchMemory(file.get(), 0, kBytes).ok();
  }),
            kBytes / 4);
}

// Else no page of 2 MiB of the file is one of the mapping.
TEST(AlignedMapping, LiesAsItsPartOfTheFileDoes) {
  const OwnedFd file = fileOf(16 * kMiB);
  for (const std::uint64_t offset : {0 * kMiB, 3 * kMiB, 4 * kMiB, 5 * kMiB + kSmallPageBytes}) {
    const auto mapping = AlignedMapping::map(file.get(), offset, 5 * kMiB, false);
    ASSERT_TRUE(mapping.ok()) << mapping.error().message;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapping->data()) % (2 * kMiB), offset % (2 * kMiB));
    mapping->data()[5 * kMiB - 1] = std::byte{1};
  }
  EXPECT_EQ(AlignedMapping::map(file.get(), 1, 4096, false).code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(AlignedMapping::map(file.get(), 0, 0, false).ok());
}

}  // namespace
}  // namespace hearth
