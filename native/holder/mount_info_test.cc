#include "holder/mount_info.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(MountInfo, ReadsALineWithOptionalFields) {
  const auto row = parseMountInfoLine(
      "36 35 98:12 /mnt1 /mnt2 rw,noatime master:1 shared:7 - fuse.hearth llama "
      "rw,errors=continue");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->major, 98U);
  EXPECT_EQ(row->minor, 12U);
  EXPECT_EQ(row->target, "/mnt2");
  EXPECT_EQ(row->type, "fuse.hearth");
  EXPECT_EQ(row->source, "llama");
}

TEST(MountInfo, DecodesOctalEscapes) {
  const auto row = parseMountInfoLine(R"(1 2 0:5 / /a\040b\134c\011 rw - tmpfs x\040y rw)");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->target, "/a b\\c\t");
  EXPECT_EQ(row->source, "x y");
}

TEST(MountInfo, RefusesOtherText) {
  EXPECT_FALSE(parseMountInfoLine(""));
  EXPECT_FALSE(parseMountInfoLine("36 35 98 / /mnt rw - ext4 /dev/x rw"));
  EXPECT_FALSE(parseMountInfoLine("36 35 98:1 / /mnt rw ext4 /dev/x rw"));
  EXPECT_FALSE(parseMountInfoLine("36 35 98:1 / /mnt rw -"));
}

TEST(MountInfo, FindsTheRootAndNothingElse) {
  const auto root = findMount("/");
  ASSERT_TRUE(root.ok());
  EXPECT_TRUE(root->has_value());
  const auto none = findMount("/proc/self/no-such");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->has_value());
}

}  // namespace
}  // namespace hearth
