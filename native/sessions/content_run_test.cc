#include "sessions/content_run.h"

#include <gtest/gtest.h>

#include "base/generated/constants.h"

namespace hearth {
namespace {

TEST(ContentRunTest, TheKeyIsOneOfAllFields) {
  ContentRun run{.store = {1},
                 .volume = {2},
                 .session = tree::SessionId{0x10000000003},
                 .first = 4,
                 .length = 5};
  const ContentKey key = keyOf(run);
  // Part of the format: other agents and the next release find the bytes under it.
  EXPECT_EQ(key.hex(), "325ad2b758ff55ad720afec86a7e485510ef1f8f614339b826947a3a0e324735");
  for (int field = 0; field < 5; ++field) {
    ContentRun other = run;
    if (field == 0) other.store[15] = 1;
    if (field == 1) other.volume[15] = 1;
    if (field == 2) other.session = tree::SessionId{4};
    if (field == 3) ++other.first;
    if (field == 4) ++other.length;
    EXPECT_NE(keyOf(other), key);
  }
}

TEST(ContentRunTest, OnlyOneRunIsAFileOfTheCache) {
  tree::Content content{.version = {tree::SessionId{1}, 1}, .length = kChunkBytes + 1};
  EXPECT_EQ(soleRun(content), std::nullopt);
  content.runs = {{tree::SessionId{1}, 0, 2, tree::AgentId{1}}};
  EXPECT_EQ(soleRun(content), content.runs.front());
  content.listed = true;
  EXPECT_EQ(soleRun(content), std::nullopt);
  content.listed = false;
  content.runs = {{.count = 2}};
  EXPECT_EQ(soleRun(content), std::nullopt);
  EXPECT_EQ(chunksIn(0), 0u);
  EXPECT_EQ(chunksIn(kChunkBytes), 1u);
  EXPECT_EQ(chunksIn(kChunkBytes + 1), 2u);
}

}  // namespace
}  // namespace hearth
