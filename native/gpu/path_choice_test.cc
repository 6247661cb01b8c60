#include "gpu/path_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kBig = 4 << 20;

struct Counts {
  int direct = 0, bounced = 0;
};

// Slices of one size, each of which takes its path's time.
Counts run(PathChoice& choice, int slices, std::size_t bytes, milliseconds direct,
           milliseconds bounced, FileUse use = FileUse::kRead) {
  Counts counts;
  for (int slice = 0; slice < slices; ++slice) {
    const TransferPath path = choice.next(use, bytes);
    const bool isDirect = path == TransferPath::kDirect;
    ++(isDirect ? counts.direct : counts.bounced);
    choice.record(use, path, bytes, isDirect ? direct : bounced);
  }
  return counts;
}

TEST(PathChoice, takesTheFasterPathAfterTrials) {
  PathChoice choice;
  EXPECT_EQ(choice.reason(FileUse::kRead, kBig), "");
  const Counts trials =
      run(choice, 2 * PathChoice::kTrials, kBig, milliseconds(1), milliseconds(2));
  EXPECT_EQ(trials.direct, trials.bounced);
  EXPECT_EQ(run(choice, 200, kBig, milliseconds(1), milliseconds(2)).bounced, 0);
  EXPECT_THAT(choice.reason(FileUse::kRead, kBig),
              testing::HasSubstr("bounced 2.10, direct 4.19 GB/s a lane"));
}

TEST(PathChoice, learnsOfEachSizeAndDirectionAlone) {
  PathChoice choice;
  run(choice, 100, kBig, milliseconds(1), milliseconds(2));
  run(choice, 100, 4096, milliseconds(2), milliseconds(1));
  run(choice, 100, kBig, milliseconds(2), milliseconds(1), FileUse::kWrite);
  EXPECT_EQ(choice.next(FileUse::kRead, kBig), TransferPath::kDirect);
  EXPECT_EQ(choice.next(FileUse::kRead, 4096), TransferPath::kBounced);
  EXPECT_EQ(choice.next(FileUse::kWrite, kBig), TransferPath::kBounced);
}

TEST(PathChoice, noticesThatTheSlowerPathHasBecomeFaster) {
  PathChoice choice;
  run(choice, 1000, kBig, milliseconds(2), milliseconds(1));
  const Counts later = run(choice, 20000, kBig, milliseconds(2), milliseconds(20));
  EXPECT_GT(later.direct, later.bounced);
}

}  // namespace
}  // namespace hearth
