#include "eviction/eviction_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace hearth {
namespace {

constexpr EvictionTuning kTuning{.probation = 0.1, .remembered = 0.5, .maxUses = 2};

ContentKey keyOf(std::uint32_t number) {
  ContentKey key;
  for (int i = 0; i < 4; ++i) key.bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return key;
}

bool any(const ContentKey& /*key*/) { return true; }
bool none(const ContentKey& /*key*/) { return false; }

ContentKey evictOne(EvictionPolicy& policy) {
  const ContentKey key = policy.victim(any).value();
  policy.remove(key);
  return key;
}

// The same said in the simplest way: three rows of files, looked through from the front.
class NaivePolicy {
 public:
  NaivePolicy(std::uint64_t capacity, EvictionTuning tuning)
      : probationBytes_(
            static_cast<std::uint64_t>(static_cast<double>(capacity) * tuning.probation)),
        rememberedBytes_(
            static_cast<std::uint64_t>(static_cast<double>(capacity) * tuning.remembered)),
        maxUses_(tuning.maxUses) {}

  void insert(std::uint32_t number, std::uint64_t bytes) {
    if (File* kept = find(probation_, number); kept != nullptr)
      kept->bytes = bytes;
    else if (File* old = find(main_, number); old != nullptr)
      old->bytes = bytes;
    else if (erase(remembered_, number))
      main_.push_back({number, bytes, 0});
    else
      probation_.push_back({number, bytes, 0});
  }
  void hit(std::uint32_t number) {
    for (std::deque<File>* row : {&probation_, &main_})
      if (File* file = find(*row, number); file != nullptr)
        file->uses = std::min(file->uses + 1, maxUses_);
  }
  void remove(std::uint32_t number) {
    const File* file = find(probation_, number);
    if (file == nullptr && find(main_, number) == nullptr) return;
    if (file != nullptr) {
      remembered_.push_back(*file);
      erase(probation_, number);
    } else {
      erase(main_, number);
    }
    while (bytesOf(remembered_) > rememberedBytes_) remembered_.pop_front();
  }
  std::optional<std::uint32_t> victim(const std::set<std::uint32_t>& held) {
    const bool probationFirst = bytesOf(probation_) > probationBytes_;
    std::optional<std::uint32_t> found = probationFirst ? fromProbation(held) : fromMain(held);
    if (!found) found = probationFirst ? fromMain(held) : fromProbation(held);
    return found;
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytesOf(probation_) + bytesOf(main_); }
  [[nodiscard]] std::vector<std::uint32_t> kept() const {
    std::vector<std::uint32_t> numbers;
    for (const std::deque<File>* row : {&probation_, &main_})
      for (const File& file : *row) numbers.push_back(file.number);
    return numbers;
  }
  [[nodiscard]] std::size_t remembered() const { return remembered_.size(); }

 private:
  struct File {
    std::uint32_t number;
    std::uint64_t bytes;
    int uses;
  };

  static File* find(std::deque<File>& row, std::uint32_t number) {
    const auto at = std::find_if(row.begin(), row.end(),
                                 [&](const File& file) { return file.number == number; });
    return at == row.end() ? nullptr : &*at;
  }
  static bool erase(std::deque<File>& row, std::uint32_t number) {
    return std::erase_if(row, [&](const File& file) { return file.number == number; }) != 0;
  }
  static std::uint64_t bytesOf(const std::deque<File>& row) {
    std::uint64_t sum = 0;
    for (const File& file : row) sum += file.bytes;
    return sum;
  }
  static File takeFirst(std::deque<File>& row) {
    const File file = row.front();
    row.pop_front();
    return file;
  }
  std::optional<std::uint32_t> fromProbation(const std::set<std::uint32_t>& held) {
    for (std::size_t refused = 0; refused < probation_.size();) {
      File file = probation_.front();
      if (file.uses == 0 && !held.contains(file.number)) return file.number;
      probation_.pop_front();
      if (file.uses == 0) ++refused;
      std::deque<File>& row = file.uses == 0 ? probation_ : main_;
      file.uses = 0;
      row.push_back(file);
    }
    return std::nullopt;
  }
  std::optional<std::uint32_t> fromMain(const std::set<std::uint32_t>& held) {
    const auto mayGo = [&](const File& file) { return !held.contains(file.number); };
    if (std::none_of(main_.begin(), main_.end(), mayGo)) {
      return std::nullopt;
    }
    for (;;) {
      if (mayGo(main_.front()) && main_.front().uses == 0) return main_.front().number;
      File file = takeFirst(main_);
      if (mayGo(file)) --file.uses;
      main_.push_back(file);
    }
  }

  const std::uint64_t probationBytes_, rememberedBytes_;
  const int maxUses_;
  std::deque<File> probation_, main_, remembered_;
};

TEST(EvictionPolicy, SaysWhatWasUsedAgain) {
  EvictionPolicy policy(100, kTuning);
  policy.insert(keyOf(1), 10);
  EXPECT_FALSE(policy.usedAgain(keyOf(1)));
  EXPECT_FALSE(policy.usedAgain(keyOf(2)));
  policy.hit(keyOf(1));
  EXPECT_TRUE(policy.usedAgain(keyOf(1)));
  policy.insert(keyOf(2), 10);
  policy.remove(keyOf(2));
  EXPECT_FALSE(policy.usedAgain(keyOf(2)));
  policy.insert(keyOf(2), 10);  // it comes back
  EXPECT_TRUE(policy.usedAgain(keyOf(2)));
}

// With room for little, what came last goes before what was used again.
TEST(EvictionPolicy, FollowsARoomThatShrinks) {
  EvictionPolicy policy(1000, kTuning);
  policy.insert(keyOf(1), 10);
  policy.hit(keyOf(1));
  policy.insert(keyOf(2), 10);
  policy.setCapacity(100);
  EXPECT_EQ(evictOne(policy), keyOf(2));
}

TEST(EvictionPolicy, NamesNoneWhenItHasNone) {
  EvictionPolicy policy(100);
  EXPECT_EQ(policy.victim(any), std::nullopt);
  policy.hit(keyOf(1));
  policy.remove(keyOf(1));
  EXPECT_EQ(policy.files(), 0);
  EXPECT_EQ(policy.remembered(), 0);
}

TEST(EvictionPolicy, CountsFilesAndBytes) {
  EvictionPolicy policy(100);
  policy.insert(keyOf(1), 30);
  policy.insert(keyOf(2), 0);
  EXPECT_EQ(policy.files(), 2);
  EXPECT_EQ(policy.bytes(), 30);
  policy.insert(keyOf(1), 50);
  EXPECT_EQ(policy.files(), 2);
  EXPECT_EQ(policy.bytes(), 50);
  policy.remove(keyOf(1));
  EXPECT_FALSE(policy.contains(keyOf(1)));
  EXPECT_TRUE(policy.contains(keyOf(2)));
  EXPECT_EQ(policy.bytes(), 0);
}

TEST(EvictionPolicy, NamesTheSameUntilItIsRemovedOrUsed) {
  EvictionPolicy policy(100);
  policy.insert(keyOf(1), 40);
  policy.insert(keyOf(2), 40);
  EXPECT_EQ(policy.victim(any), keyOf(1));
  EXPECT_EQ(policy.victim(any), keyOf(1));
  EXPECT_TRUE(policy.contains(keyOf(1)));
  policy.hit(keyOf(1));
  EXPECT_EQ(policy.victim(any), keyOf(2));
}

TEST(EvictionPolicy, AScanDisplacesNothingThatWasUsedAgain) {
  EvictionPolicy policy(100, kTuning);
  for (std::uint32_t i = 0; i < 9; ++i) policy.insert(keyOf(i), 10);
  for (std::uint32_t i = 0; i < 9; ++i) policy.hit(keyOf(i));
  for (std::uint32_t i = 100; i < 1100; ++i) {
    policy.insert(keyOf(i), 2);
    while (policy.bytes() > 100) EXPECT_GE(evictOne(policy).prefix(), 100);
  }
  for (std::uint32_t i = 0; i < 9; ++i) EXPECT_TRUE(policy.contains(keyOf(i)));
}

TEST(EvictionPolicy, WhatComesBackSoonIsOnProbationNoMore) {
  EvictionPolicy policy(100, kTuning);
  policy.insert(keyOf(1), 20);
  policy.remove(keyOf(1));
  EXPECT_EQ(policy.remembered(), 1);
  policy.hit(keyOf(1));  // not kept: nothing
  policy.insert(keyOf(1), 20);
  EXPECT_EQ(policy.remembered(), 0);
  policy.insert(keyOf(2), 20);
  EXPECT_EQ(evictOne(policy), keyOf(2));
}

TEST(EvictionPolicy, WhatWentLongAgoIsNew) {
  EvictionPolicy policy(100, kTuning);
  for (std::uint32_t i = 1; i <= 4; ++i) {
    policy.insert(keyOf(i), 20);
    policy.remove(keyOf(i));
  }
  EXPECT_EQ(policy.remembered(), 2);  // of 50 bytes
  policy.insert(keyOf(1), 20);
  policy.insert(keyOf(4), 20);
  EXPECT_EQ(evictOne(policy), keyOf(1));
}

TEST(EvictionPolicy, RemembersNoMoreKeysThanItKeeps) {
  EvictionPolicy policy(std::uint64_t{1} << 40);
  for (std::uint32_t i = 0; i < 3 * EvictionPolicy::kMinRemembered; ++i) {
    policy.insert(keyOf(i), 1);
    policy.remove(keyOf(i));
  }
  EXPECT_EQ(policy.remembered(), EvictionPolicy::kMinRemembered);
}

TEST(EvictionPolicy, LeavesWhatMayNotGo) {
  EvictionPolicy policy(100, kTuning);
  for (std::uint32_t i = 0; i < 6; ++i) policy.insert(keyOf(i), 20);
  for (std::uint32_t i = 0; i < 3; ++i) policy.hit(keyOf(i));
  EXPECT_EQ(policy.victim(none), std::nullopt);
  for (const std::uint32_t only : {5, 1, 3}) {
    const auto mayGo = [&](const ContentKey& key) { return key == keyOf(only); };
    EXPECT_EQ(policy.victim(mayGo), keyOf(only));
  }
  EXPECT_EQ(policy.files(), 6);
}

TEST(EvictionPolicy, AFileLargerThanTheCapacityGoesWithoutTheOthers) {
  EvictionPolicy policy(100, kTuning);
  policy.insert(keyOf(1), 60);
  policy.hit(keyOf(1));
  policy.insert(keyOf(2), 1000);
  EXPECT_EQ(evictOne(policy), keyOf(2));
  EXPECT_TRUE(policy.contains(keyOf(1)));
}

// Random calls, compared with the naive model after each; some files may not go for a while.
TEST(EvictionPolicy, AgreesWithANaiveModel) {
  constexpr std::uint32_t kFiles = 60;
  constexpr std::uint64_t kCapacity = 1000;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const EvictionTuning tuning{.probation = 0.05 * static_cast<double>(random() % 5),
                                .remembered = 0.3 * static_cast<double>(random() % 5),
                                .maxUses = static_cast<std::uint8_t>(1 + random() % 4)};
    EvictionPolicy policy(kCapacity, tuning);
    NaivePolicy naive(kCapacity, tuning);
    std::set<std::uint32_t> held;
    const auto mayGo = [&](const ContentKey& key) {
      return !held.contains(static_cast<std::uint32_t>(key.prefix()));
    };
    for (int step = 0; step < 3000; ++step) {
      const auto number = static_cast<std::uint32_t>(random() % kFiles);
      switch (random() % 8) {
        case 0:
          if (held.erase(number) == 0) held.insert(number);
          break;
        case 1:
          policy.remove(keyOf(number));
          naive.remove(number);
          break;
        case 2:
        case 3:
          policy.hit(keyOf(number));
          naive.hit(number);
          break;
        default: {
          const std::uint64_t bytes = random() % (1 + random() % 300);
          policy.insert(keyOf(number), bytes);
          naive.insert(number, bytes);
        }
      }
      while (naive.bytes() > kCapacity) {
        const std::optional<std::uint32_t> expected = naive.victim(held);
        const std::optional<ContentKey> named = policy.victim(mayGo);
        ASSERT_EQ(named, expected ? std::optional(keyOf(*expected)) : std::nullopt);
        if (!expected) break;
        policy.remove(*named);
        naive.remove(*expected);
      }
      const std::vector<std::uint32_t> kept = naive.kept();
      ASSERT_EQ(policy.bytes(), naive.bytes());
      ASSERT_EQ(policy.files(), kept.size());
      ASSERT_EQ(policy.remembered(), naive.remembered());
      for (const std::uint32_t each : kept) ASSERT_TRUE(policy.contains(keyOf(each)));
    }
  }
}

// How much work, not how long: no call asks about more files than what makes room needs.
TEST(EvictionPolicy, AMillionFilesCostACallOfThePredicateEach) {
  constexpr std::uint32_t kFiles = 1'000'000;
  EvictionPolicy policy(kFiles);
  std::uint64_t asked = 0;
  const auto mayGo = [&](const ContentKey& /*key*/) {
    ++asked;
    return true;
  };
  std::uint64_t uses = 0;
  for (std::uint32_t i = 0; i < 2 * kFiles; ++i) {
    policy.insert(keyOf(i), 1);
    if (i % 3 == 0) {
      policy.hit(keyOf(i / 2));
      ++uses;
    }
    while (policy.bytes() > kFiles) policy.remove(policy.victim(mayGo).value());
  }
  EXPECT_EQ(policy.files(), kFiles);
  EXPECT_LE(policy.remembered(), kFiles);
  EXPECT_LE(asked, kFiles + uses);
}

// Each round passes over pinned files once, not each call.
TEST(EvictionPolicy, PinnedFilesAreNotPassedOverAgainAndAgain) {
  constexpr std::uint32_t kFiles = 100'000, kPinned = kFiles / 2;
  EvictionPolicy policy(kFiles);
  for (std::uint32_t i = 0; i < kFiles; ++i) policy.insert(keyOf(i), 1);
  std::uint64_t asked = 0;
  const auto mayGo = [&](const ContentKey& key) {
    ++asked;
    return key.prefix() >= kPinned;
  };
  while (const std::optional<ContentKey> key = policy.victim(mayGo)) policy.remove(*key);
  EXPECT_EQ(policy.files(), kPinned);
  EXPECT_LE(asked, 4 * std::uint64_t{kFiles});
}

}  // namespace
}  // namespace hearth
