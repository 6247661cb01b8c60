#include "fetch/withdrawn_bytes.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

ContentKey keyOf(std::uint64_t number) {
  ContentKey key{};
  for (std::size_t byte = 0; byte < sizeof number; ++byte)
    key.bytes[byte] = static_cast<std::uint8_t>(number >> (8 * byte));
  return key;
}

TEST(WithdrawnBytes, EachNoteChangesTheMarkOfItsContent) {
  WithdrawnBytes withdrawn;
  EXPECT_FALSE(withdrawn.any());
  EXPECT_EQ(withdrawn.mark(keyOf(1)), 0u);
  withdrawn.note(keyOf(1));
  EXPECT_TRUE(withdrawn.any());
  const std::uint64_t first = withdrawn.mark(keyOf(1));
  EXPECT_NE(first, 0u);
  EXPECT_EQ(withdrawn.mark(keyOf(2)), 0u);
  withdrawn.note(keyOf(1));
  EXPECT_NE(withdrawn.mark(keyOf(1)), first);
}

TEST(WithdrawnBytes, AnOverflowChangesTheMarksOfAllContents) {
  WithdrawnBytes withdrawn;
  for (std::uint64_t number = 0; number < WithdrawnBytes::kMax; ++number)
    withdrawn.note(keyOf(number));
  const std::uint64_t before = withdrawn.mark(keyOf(7));
  EXPECT_EQ(withdrawn.mark(keyOf(WithdrawnBytes::kMax + 1)), 0u);
  withdrawn.note(keyOf(WithdrawnBytes::kMax));
  EXPECT_NE(withdrawn.mark(keyOf(7)), before);
  EXPECT_NE(withdrawn.mark(keyOf(WithdrawnBytes::kMax + 1)), 0u);
}

}  // namespace
}  // namespace hearth
