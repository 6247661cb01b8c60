#include "base/optional_fields.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

std::vector<std::byte> bytesOf(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(OptionalFields, ComeInTheOrderInWhichTheyWereWritten) {
  ByteWriter out;
  putField(out, 1, bytesOf({7}));
  putField(out, 5, {});
  putField(out, 9 | kMustUnderstand, bytesOf({1, 2}));
  const std::vector<std::byte> bytes = out.take();
  ByteReader in(bytes);
  OptionalFields fields(in);
  auto first = fields.next();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->tag, 1);
  EXPECT_EQ(first->value.u8(), 7);
  EXPECT_FALSE(first->mustUnderstand());
  const auto second = fields.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->value.left(), 0u);
  const auto third = fields.next();
  ASSERT_TRUE(third);
  EXPECT_TRUE(third->mustUnderstand());
  EXPECT_EQ(third->value.left(), 2u);
  EXPECT_FALSE(fields.next());
  EXPECT_FALSE(fields.malformed());
}

TEST(OptionalFields, NoneIsNoError) {
  ByteReader in({});
  OptionalFields fields(in);
  EXPECT_FALSE(fields.next());
  EXPECT_FALSE(fields.malformed());
}

TEST(OptionalFields, EveryCutIsNoticed) {
  ByteWriter out;
  putField(out, 1, bytesOf({7, 8}));
  putField(out, 2, bytesOf({9}));
  const std::vector<std::byte> bytes = out.take();
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    if (size == 6) continue;  // the end of the first field
    const std::span<const std::byte> all(bytes);
    ByteReader in(all.first(size));
    OptionalFields fields(in);
    while (fields.next()) {
    }
    EXPECT_TRUE(fields.malformed()) << size;
  }
}

TEST(OptionalFields, ComeOnceAndInOrder) {
  for (const int second : {1, 2, 2 | kMustUnderstand}) {
    ByteWriter out;
    putField(out, 2, {});
    putField(out, static_cast<std::uint16_t>(second), {});
    const std::vector<std::byte> bytes = out.take();
    ByteReader in(bytes);
    OptionalFields fields(in);
    EXPECT_TRUE(fields.next());
    EXPECT_FALSE(fields.next());
    EXPECT_TRUE(fields.malformed());
  }
}

}  // namespace
}  // namespace hearth
