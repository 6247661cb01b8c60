#include "memory/guarded_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/crc32c.h"
#include "base/owned_fd.h"
#include "base/testing/sanitizers.h"

namespace hearth {
namespace {

constexpr std::size_t kPage = 4096;
// ThreadSanitizer puts its own handler and its own memcpy before those of the process.
constexpr bool kOwnsFaults = !kThreadSanitizer;

// Two pages, of which a test takes the second away.
struct GuardedMemoryTest : testing::Test {
  ~GuardedMemoryTest() override { munmap(start, 2 * kPage); }
  [[nodiscard]] std::span<std::byte> pages() const { return {start, 2 * kPage}; }
  void takeSecond() const { mprotect(start + kPage, kPage, PROT_NONE); }

  std::byte* const start = static_cast<std::byte*>(
      mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const std::vector<std::byte> bytes{2 * kPage, std::byte{0x5a}};
};

TEST_F(GuardedMemoryTest, MemoryThatIsThereIsCopiedAndChecked) {
  EXPECT_TRUE(copyIfThere(pages(), bytes));
  EXPECT_EQ(checksumIfThere(pages()), crc32c(bytes));
  EXPECT_EQ(checksumIfThere(pages().subspan(100), crc32c(pages().first(100))), crc32c(bytes));
  EXPECT_TRUE(copyIfThere({}, {}));
}

TEST_F(GuardedMemoryTest, MemoryThatHasGoneIsSaidEachTime) {
  if (!kOwnsFaults) GTEST_SKIP() << "ThreadSanitizer takes the faults";
  takeSecond();
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(copyIfThere(pages(), bytes));
    EXPECT_FALSE(checksumIfThere(pages()));
  }
  EXPECT_TRUE(checksumIfThere(pages().first(kPage)));
}

TEST_F(GuardedMemoryTest, WithoutHandlersCopiesSayWhatHasGone) {
  chooseMemoryGuard(MemoryGuard::kSystemCalls);
  struct sigaction before {
  }, after{};
  sigaction(SIGSEGV, nullptr, &before);
  EXPECT_TRUE(copyIfThere(pages(), bytes));
  EXPECT_EQ(checksumIfThere(pages()), crc32c(bytes));
  takeSecond();
  EXPECT_FALSE(copyIfThere(pages(), bytes));
  EXPECT_TRUE(copyIfThere(pages().first(kPage), std::span(bytes).first(kPage)));
  ASSERT_EQ(mprotect(start + kPage, kPage, PROT_READ), 0);
  EXPECT_FALSE(copyIfThere(pages(), bytes));
  ASSERT_EQ(munmap(start + kPage, kPage), 0);
  EXPECT_FALSE(copyIfThere(pages(), bytes));
  sigaction(SIGSEGV, nullptr, &after);
  EXPECT_EQ(before.sa_sigaction, after.sa_sigaction);
  chooseMemoryGuard(MemoryGuard::kHandlers);
}

TEST_F(GuardedMemoryTest, PagesBehindTheEndOfTheirFileAreSaid) {
  const OwnedFd file(memfd_create("guarded", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), kPage), 0);
  void* const mapped = mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, file.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  const std::span<const std::byte> both{static_cast<std::byte*>(mapped), 2 * kPage};
  EXPECT_TRUE(checksumIfThere(both.first(kPage)));
  EXPECT_FALSE(checksumIfThere(both));
  munmap(mapped, 2 * kPage);
}

TEST_F(GuardedMemoryTest, SlicesAreFilledUpToTheOneThatHasGone) {
  if (!kOwnsFaults) GTEST_SKIP() << "ThreadSanitizer takes the faults";
  takeSecond();
  std::vector<std::byte> last(10);
  std::vector<MemorySlice> slices;
  slices.push_back(MemorySlice::of(pages().first(10)));
  slices.push_back(MemorySlice::of(pages().subspan(kPage, 10)));
  slices.push_back(MemorySlice::of(last));
  const MemoryVector memory(std::move(slices));
  EXPECT_FALSE(copyIfThere(memory, 5, std::span(bytes).first(25)));
  EXPECT_EQ(std::memcmp(start + 5, bytes.data(), 5), 0);
  EXPECT_EQ(last.front(), std::byte{0});
  EXPECT_FALSE(checksumIfThere(memory, 0, 30));
  EXPECT_EQ(checksumIfThere(memory, 20, 10), crc32c(last));
}

// Signals of others end the process as they did before.
TEST_F(GuardedMemoryTest, FaultsOfOthersAreTheirs) {
  if (!kOwnsFaults) GTEST_SKIP() << "ThreadSanitizer takes the faults";
  takeSecond();
  EXPECT_EXIT(
      {
        static_cast<void>(checksumIfThere(pages()));
        signal(SIGABRT, SIG_DFL);
        kill(getpid(), SIGSEGV);
        _exit(0);
      },
      [](int status) { return status != 0; }, "");
  EXPECT_EXIT(
      {
        static_cast<void>(checksumIfThere(pages()));
        *reinterpret_cast<volatile std::byte*>(start + kPage) = std::byte{1};
        _exit(0);
      },
      [](int status) { return status != 0; }, "");
}

}  // namespace
}  // namespace hearth
