#include "memory/page_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/owned_fd.h"

namespace hearth {
namespace {

TEST(PageCache, HasWhatWasWrittenUntilItIsDropped) {
  std::string path = testing::TempDir() + "hearth-cached-XXXXXX";
  const OwnedFd file(mkstemp(path.data()));
  ASSERT_TRUE(file);
  ASSERT_EQ(unlink(path.c_str()), 0);
  const std::vector<char> bytes(64 << 10, 'x');
  ASSERT_EQ(write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  EXPECT_TRUE(arePagesCached(file.get(), 0, bytes.size()));
  EXPECT_TRUE(arePagesCached(file.get(), 5'000, 10));
  EXPECT_TRUE(arePagesCached(file.get(), 0, 0));
  ASSERT_EQ(fsync(file.get()), 0);
  ASSERT_EQ(posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  // A file system in memory keeps its bytes there.
  char byte = 0;
  if (!arePagesCached(file.get(), 0, bytes.size())) {
    ASSERT_EQ(pread(file.get(), &byte, 1, 0), 1);
    EXPECT_TRUE(arePagesCached(file.get(), 0, 1));
  }
}

}  // namespace
}  // namespace hearth
