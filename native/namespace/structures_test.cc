#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

#include "namespace/flat_index.h"
#include "namespace/folder_order.h"
#include "namespace/runs.h"
#include "namespace/slab.h"
#include "namespace/values.h"

namespace hearth::tree {
namespace {

TEST(FlatIndex, FindsWhatIsInItUnderCollisions) {
  std::mt19937_64 random(1);
  std::map<std::uint32_t, std::uint64_t> items;  // with their hashes
  FlatIndex index;
  for (std::uint32_t round = 0; round < 50'000; ++round) {
    // Few marks, next to one another and at the end of the array.
    const std::uint64_t hash = (random() % 40 - 20) << 32;
    const std::uint32_t item = static_cast<std::uint32_t>(random() % 300);
    const auto known = items.find(item);
    if (known == items.end()) {
      index.insert(hash, item);
      items[item] = hash;
    } else if (random() % 2 == 0) {
      index.erase(known->second, item);
      items.erase(known);
    }
    ASSERT_EQ(index.size(), items.size());
    const std::uint32_t asked = static_cast<std::uint32_t>(random() % 300);
    const auto there = items.find(asked);
    const std::uint64_t asHash = there == items.end() ? hash : there->second;
    const auto same = [&](std::uint32_t other) { return other == asked; };
    ASSERT_EQ(index.find(asHash, same), there == items.end() ? FlatIndex::kNone : asked);
  }
}

TEST(FolderOrder, IsTheMapOfItsCookies) {
  std::mt19937_64 random(2);
  std::map<std::uint64_t, std::uint32_t> entries;
  FolderOrder order;
  for (std::uint64_t cookie = 3; cookie < 20'000; ++cookie) {
    order.insert(cookie, static_cast<std::uint32_t>(cookie));
    entries[cookie] = static_cast<std::uint32_t>(cookie);
    while (entries.size() > random() % 60) {
      auto at = entries.lower_bound(cookie - random() % 60);
      if (at == entries.end()) at = entries.begin();
      order.erase(at->first);
      entries.erase(at);
    }
    ASSERT_EQ(order.size(), entries.size());
    const std::uint64_t after = cookie - random() % 60;
    const auto there = entries.find(after);
    ASSERT_EQ(order.find(after), there == entries.end() ? FolderOrder::kGone : there->second);
    auto next = entries.upper_bound(after);
    order.visitAfter(after, [&](const FolderOrder::Place& place) {
      EXPECT_EQ(place.cookie, next->first);
      ++next;
      return true;
    });
    ASSERT_EQ(next, entries.end());
  }
}

TEST(Slab, KeepsItemsWhereTheyAre) {
  Slab<std::uint64_t> slab;
  std::vector<const std::uint64_t*> places;
  for (std::uint64_t i = 0; i < 1000; ++i) places.push_back(&slab[slab.add(i)]);
  slab.erase(7);
  EXPECT_EQ(slab.add(77), 7u);
  EXPECT_EQ(slab.end(), 1000u);
  for (std::uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(places[i], &slab[i]);
}

using Chunks = std::set<std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>>;

Chunks chunksIn(const Runs& runs) {
  Chunks chunks;
  for (const ChunkRun& run : runs) {
    for (std::uint32_t i = 0; i < run.count; ++i) {
      chunks.emplace(static_cast<std::uint64_t>(run.session),
                     static_cast<std::uint32_t>(run.holder), run.first + i);
    }
  }
  return chunks;
}

TEST(Runs, AreSetsOfChunks) {
  std::mt19937_64 random(3);
  const auto some = [&] {
    Runs runs;
    for (std::uint64_t count = random() % 7; count-- > 0;) {
      runs.push_back({SessionId{random() % 3}, static_cast<std::uint32_t>(random() % 20),
                      static_cast<std::uint32_t>(1 + random() % 5),
                      AgentId{static_cast<std::uint32_t>(1 + random() % 2)}});
    }
    return runs;
  };
  for (int round = 0; round < 20'000; ++round) {
    Runs a = some();
    const Runs b = setOf(some());
    Chunks expected = chunksIn(a);
    std::erase_if(expected, [](const auto& chunk) { return std::get<0>(chunk) == 0; });
    a = setOf(a);
    ASSERT_EQ(chunksIn(a), expected);
    const Chunks less = chunksIn(b);
    std::erase_if(expected, [&](const auto& chunk) { return less.contains(chunk); });
    const Runs left = without(a, b);
    ASSERT_EQ(chunksIn(left), expected);
    ASSERT_LE(left.size(), a.size() + b.size());
    ASSERT_EQ(contains(b, a), expected.empty());
  }
}

TEST(Runs, ReachToTheLastChunkOfASession) {
  const Runs all{{SessionId{1}, 0, kAllChunks, AgentId{1}}};
  const Runs named =
      setOf({{SessionId{1}, kAllChunks - 1, 1, AgentId{1}}, {SessionId{1}, 0, 2, AgentId{1}}});
  EXPECT_EQ(without(all, named), (Runs{{SessionId{1}, 2, kAllChunks - 3, AgentId{1}}}));
  EXPECT_EQ(without(all, all), Runs{});
}

}  // namespace
}  // namespace hearth::tree
