#include "volume_mount/change_journal.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(ChangeJournal, TheNextAgentFindsWhatWasNotAnswered) {
  std::vector<JournalEntry> memory(4);
  {
    ChangeJournal first(memory);
    ASSERT_TRUE(first.keep(2, {{1}, 10}));
    ASSERT_TRUE(first.keep(4, {{1}, 11}));
    ASSERT_TRUE(first.keep(4, {{1}, 12}));
    first.drop(2);
    EXPECT_EQ(first.find(4), std::nullopt);  // its own request is not asked again
  }
  ChangeJournal second(memory);
  EXPECT_EQ(second.find(2), std::nullopt);
  EXPECT_EQ(second.find(4), (AskedChange{{1}, 12}));
  ASSERT_TRUE(second.keep(4, {{2}, 1}));
  EXPECT_EQ(ChangeJournal(memory).find(4), (AskedChange{{2}, 1}));
  second.drop(4);
  EXPECT_EQ(ChangeJournal(memory).find(4), std::nullopt);
}

TEST(ChangeJournal, EntriesOfEarlierAgentsGiveWayAndOwnOnesDoNot) {
  std::vector<JournalEntry> memory(2);
  {
    ChangeJournal first(memory);
    ASSERT_TRUE(first.keep(2, {{1}, 1}));
    ASSERT_TRUE(first.keep(4, {{1}, 2}));
  }
  ChangeJournal second(memory);
  ASSERT_TRUE(second.keep(6, {{2}, 1}));
  EXPECT_EQ(second.find(2), std::nullopt);
  EXPECT_TRUE(second.find(4).has_value());
  ASSERT_TRUE(second.keep(8, {{2}, 2}));
  EXPECT_FALSE(second.keep(10, {{2}, 3}));
}

}  // namespace
}  // namespace hearth
