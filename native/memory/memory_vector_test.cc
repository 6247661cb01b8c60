#include "memory/memory_vector.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace hearth {
namespace {

std::span<std::byte> bytesOf(std::string& text) { return std::as_writable_bytes(std::span(text)); }

std::string textOf(const MemoryVector& memory, std::uint64_t offset, std::size_t size) {
  std::string text;
  forEachPiece(memory, offset, size, [&](std::span<std::byte> piece) {
    text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  return text;
}

TEST(MemoryVector, IsItsSlicesInOrder) {
  std::string first = "one ", second = "two ", third = "three";
  const MemoryVector all({MemorySlice::of(bytesOf(first)), MemorySlice::of({}),
                          MemorySlice::of(bytesOf(second)), MemorySlice::of(bytesOf(third))});
  EXPECT_EQ(all.size(), 13u);
  EXPECT_EQ(all.slices().size(), 3u) << "without the empty one";
  EXPECT_EQ(textOf(all, 0, 13), "one two three");
  EXPECT_EQ(textOf(all.part(2, 5), 0, 5), "e two");
  EXPECT_EQ(all.bytesAt(5, 100).size(), 3u) << "to the end of its slice";
  EXPECT_EQ(all.bytesAt(5, 2).size(), 2u);
  EXPECT_TRUE(all.bytesAt(13, 1).empty());
  EXPECT_TRUE(MemoryVector(MemorySlice::of({})).empty());
}

TEST(MemoryVector, APartOfAPartIsThatPartOfTheWhole) {
  std::mt19937 random(1);
  std::vector<std::string> texts(20);
  std::vector<MemorySlice> slices;
  std::string whole;
  for (std::string& text : texts) {
    for (std::size_t left = random() % 9; left > 0; --left)
      text += static_cast<char>('a' + random() % 26);
    whole += text;
    slices.push_back(MemorySlice::of(bytesOf(text)));
  }
  const MemoryVector all(std::move(slices));
  ASSERT_EQ(all.size(), whole.size());
  for (int i = 0; i < 1000; ++i) {
    const std::size_t from = random() % (whole.size() + 1);
    const std::size_t size = random() % (whole.size() - from + 1);
    const MemoryVector part = all.part(from, size);
    ASSERT_EQ(textOf(part, 0, size), whole.substr(from, size));
    const std::size_t inner = random() % (size + 1);
    ASSERT_EQ(textOf(part.part(inner, size - inner), 0, size - inner),
              whole.substr(from + inner, size - inner));
  }
}

// A list of pages has a million of them: a look at each of them for each other one takes minutes.
TEST(MemoryVector, OfAMillionPiecesIsGoneThroughOnce) {
  constexpr std::size_t kPieces = std::size_t{1} << 20, kPieceBytes = 8;
  std::vector<std::byte> memory(kPieces * kPieceBytes), bytes(memory.size());
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 >> 5);
  const auto region = MemoryRegion::host(memory);
  std::vector<MemorySlice> slices;
  for (std::size_t i = 0; i < kPieces; ++i)
    slices.push_back({region, i * kPieceBytes, kPieceBytes});
  const MemoryVector all(std::move(slices));
  copyInto(all, 0, bytes);
  EXPECT_EQ(memory, bytes);
  MemoryCursor cursor(all);
  for (std::size_t at = 0; at < memory.size(); at += 1024) {
    const MemoryVector part = cursor.part(1024);
    ASSERT_EQ(part.size(), 1024u);
    ASSERT_EQ(part.bytesAt(0, 1).data(), &memory[at]);
  }
  EXPECT_TRUE(cursor.next(1).empty()) << "the end";
}

TEST(MemoryVector, IsFilledFromAnyOffset) {
  std::string first = "one ", second = "two ", third = "three";
  const MemoryVector all({MemorySlice::of(bytesOf(first)), MemorySlice::of(bytesOf(second)),
                          MemorySlice::of(bytesOf(third))});
  const std::string bytes = "E TWO T";
  copyInto(all, 2, std::as_bytes(std::span(bytes)));
  EXPECT_EQ(first + second + third, "onE TWO Three");
  copyInto(all, 13, {});
  MemoryCursor cursor(all, 3);
  EXPECT_EQ(cursor.next(100).size(), 1u) << "to the end of its slice";
  cursor.skip(5);
  EXPECT_EQ(cursor.next(2).data(), bytesOf(third).data() + 1);
}

TEST(MemoryVector, PartsKeepTheirOwners) {
  auto text = std::make_shared<std::string>("text");
  const std::weak_ptr<std::string> watched = text;
  MemoryVector part = MemoryVector(MemorySlice::of(bytesOf(*text), text)).part(1, 2);
  text = nullptr;
  EXPECT_FALSE(watched.expired());
  part = {};
  EXPECT_TRUE(watched.expired());
}

TEST(MemoryVector, IsSoundWhenItsSlicesLieInTheirRegions) {
  std::string text = "text";
  const auto region = MemoryRegion::host(bytesOf(text));
  const auto sound = [](MemorySlice slice) { return MemoryVector({std::move(slice)}).isSound(); };
  EXPECT_TRUE(sound({region, 1, 3}));
  EXPECT_FALSE(sound({region, 1, 4}));
  EXPECT_FALSE(sound({region, 5, 1}));
  EXPECT_FALSE(sound({region, ~0ull, 2}));
  EXPECT_FALSE(sound({nullptr, 0, 1}));
  const auto large = MemoryRegion::gpu(0, ~0ull, nullptr);
  EXPECT_FALSE(MemoryVector({{large, 0, ~0ull}, {large, 0, 2}}).isSound()) << "in all";
}

TEST(MemoryVector, IsHostMemoryWhenAllOfItIs) {
  std::string text = "text";
  const MemorySlice host = MemorySlice::of(bytesOf(text));
  const MemorySlice gpu{MemoryRegion::gpu(4096, 100, nullptr), 0, 100};
  EXPECT_TRUE(MemoryVector(host).isHost());
  EXPECT_FALSE(MemoryVector({host, gpu}).isHost());
}

}  // namespace
}  // namespace hearth
