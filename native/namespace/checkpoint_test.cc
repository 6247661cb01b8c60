#include "namespace/checkpoint.h"

#include <gtest/gtest.h>

#include "namespace/testing/key_examples.h"
#include "namespace/testing/led_namespace.h"

namespace hearth::tree {
namespace {

using Step = CheckpointReader::Step;

std::span<const std::byte> viewOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// The last step, and the items before it as KEY=VALUE.
std::pair<Step, std::vector<std::string>> read(std::span<const std::byte> bytes,
                                               std::size_t piece = 1 << 20) {
  CheckpointReader reader;
  std::vector<std::string> items;
  for (std::size_t at = 0;;) {
    const Step step = reader.next();
    if (step == Step::kMore && at < bytes.size()) {
      const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
      reader.feed(part);
      at += part.size();
    } else if (step == Step::kItem) {
      const auto& [key, value] = reader.item();
      items.push_back(std::string(reinterpret_cast<const char*>(key.data()), key.size()) + "=" +
                      std::string(reinterpret_cast<const char*>(value.data()), value.size()));
    } else {
      return {step, items};
    }
  }
}

Bytes write(const std::vector<std::pair<std::string, std::string>>& items,
            const CheckpointHead& head = {1, 2}) {
  Bytes bytes;
  CheckpointWriter writer(head, bytes);
  for (const auto& [key, value] : items) writer.add({viewOf(key), viewOf(value)});
  writer.finish();
  return bytes;
}

TEST(Checkpoint, ItemsComeBackFromPiecesOfAnySize) {
  std::vector<std::pair<std::string, std::string>> items;
  std::vector<std::string> expected;
  for (int i = 100; i < 400; ++i) {
    items.emplace_back("key" + std::to_string(i),
                       std::string(static_cast<std::size_t>(i) * 10, 'v'));
    expected.push_back(items.back().first + "=" + items.back().second);
  }
  const Bytes bytes = write(items);
  for (const std::size_t piece : {1u, 7u, 70'000u, 1u << 20}) {
    EXPECT_EQ(read(bytes, piece), (std::pair{Step::kEnd, expected})) << piece;
  }
  EXPECT_EQ(read(write({})).first, Step::kEnd);
}

TEST(Checkpoint, ADamagedOneIsNotTakenForWhole) {
  const Bytes bytes = write({{"a", "1"}, {"b", "2"}});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_EQ(read(std::span(bytes).first(size)).first, Step::kMore) << size;
  }
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    Bytes damaged = bytes;
    damaged[at] ^= std::byte{0x20};
    ASSERT_NE(read(damaged).first, Step::kEnd) << at;
  }
  EXPECT_EQ(read(write({{"b", "1"}, {"a", "2"}})).first, Step::kBad);
  EXPECT_EQ(read(write({{"a", "1"}, {"a", "2"}})).first, Step::kBad);
}

// Every later release reads these bytes.
TEST(Checkpoint, Bytes) {
  std::string hex;
  for (const std::byte byte : write({{"key", "value"}}, {3, 4})) {
    char text[3];
    snprintf(text, sizeof text, "%02x", static_cast<unsigned>(byte));
    hex += text;
  }
  EXPECT_EQ(hex,
            "4fa3add223000000014852544854524545010003000000000000000400000000000000f2fac73a17000000"
            "0203006b65790500000076616c7565ccf10ddf11000000030100000000000000");
}

TEST(Checkpoint, KeysSortAsRecordsAndTreesHaveThem) {
  LedNamespace volume;
  const ClientId client = volume.join("a");
  volume.file(client, inRoot("f"), 1);
  volume.ask(client, MakeSymlink{.place = inRoot("s"), .target = "t"});
  const auto kinds = [](const Bytes& bytes) {
    std::string firsts;
    for (const std::string& item : read(bytes).second) firsts += static_cast<char>('a' + item[0]);
    return firsts;
  };
  Bytes bytes;
  volume.tree.checkpoint(bytes);
  EXPECT_EQ(kinds(bytes), "bcdeeefffghii");
}

// Optional keys that this release does not know stay in the checkpoint for one that does.
TEST(Checkpoint, AMergeKeepsWhatItDoesNotKnow) {
  const std::string unknown("\xb2x", 2), gone("\xb2y", 2);
  const Bytes old = write({{unknown, "1"}, {gone, "2"}}, {1, 6});
  RawRecord record{.kind = Parse::kGood, .epoch = 2, .number = 7};
  record.changes.push_back({viewOf(gone), std::nullopt});
  const std::string added("\xb2z", 2), value("3");
  record.changes.push_back({viewOf(added), viewOf(value)});
  RecordsSince since;
  ASSERT_TRUE(since.add(record).ok());
  EXPECT_EQ(since.bytes(), 5u);
  Bytes merged;
  CheckpointMerge merge(std::move(since), merged);
  EXPECT_EQ(merge.feed(old), Step::kEnd);
  EXPECT_EQ(merged, write({{unknown, "1"}, {added, "3"}}, {2, 7}));
  Namespace tree({});
  EXPECT_TRUE(tree.load({viewOf(unknown), viewOf(value)}).ok());
  const std::string needed("\x32x", 2);
  EXPECT_EQ(tree.load({viewOf(needed), viewOf(value)}).code(), ErrorCode::kUnsupported);
}

TEST(Checkpoint, AMergeTakesTheRecordsBehindTheOldOneOnly) {
  const auto records = [](std::uint64_t first) {
    RecordsSince since;
    EXPECT_TRUE(since.add({.kind = Parse::kGood, .epoch = 1, .number = first}).ok());
    EXPECT_FALSE(since.add({.kind = Parse::kGood, .epoch = 1, .number = first + 2}).ok());
    EXPECT_FALSE(since.add({.kind = Parse::kGood, .epoch = 0, .number = first + 1}).ok());
    return since;
  };
  const Bytes old = write({}, {1, 6});
  Bytes merged;
  EXPECT_EQ(CheckpointMerge(records(8), merged).feed(old), Step::kBad);
  EXPECT_EQ(CheckpointMerge(records(6), merged).feed(old), Step::kBad);
  EXPECT_EQ(CheckpointMerge(records(2), merged).finishWithoutOld(), Step::kBad);
  EXPECT_EQ(CheckpointMerge(records(7), merged).feed(old), Step::kEnd);
}

}  // namespace
}  // namespace hearth::tree
