#include "loader/slice_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>

namespace hearth {
namespace {

constexpr std::uint64_t kPage = kDirectReadAlignment;

TEST(RowReadTest, CopiesWhatARangeOfTheFileHas) {
  const RowRead rows{.offset = 40, .inMemory = 64, .rowBytes = 30, .stride = 100, .rows = 7};
  std::vector<std::byte> file(1'000);
  for (std::size_t i = 0; i < file.size(); ++i) file[i] = std::byte(i * 37 >> 3);
  std::vector<std::byte> expected;
  for (std::uint64_t at = 0; at < rows.bytes(); ++at) {
    expected.push_back(file[rows.offset + at / 30 * 100 + at % 30]);
  }
  for (const std::uint64_t step : {1, 7, 30, 100, 999}) {
    std::vector<std::byte> taken(rows.bytes());
    std::uint64_t bytes = 0;
    for (std::uint64_t at = 0; at < file.size(); at += step) {
      const std::uint64_t size = std::min<std::uint64_t>(step, file.size() - at);
      const RowRange range = rangeOf(rows, at, size);
      if (range.size == 0) continue;
      EXPECT_EQ(range.begin, rows.inMemory + bytes);
      copyRows(rows, at, size, &file[at], &taken[bytes]);
      bytes += range.size;
    }
    EXPECT_EQ(taken, expected) << step;
  }
}

// Counts how often each page of one file is read by ranks whose wishes are random.
TEST(SliceScheduleTest, ReadsEachWantedPageOnce) {
  std::mt19937 random(5);
  const std::uint64_t fileBytes = 40'000'000;
  for (int round = 0; round < 20; ++round) {
    const unsigned ranks = 1 + random() % 5;
    std::vector<std::vector<WantedRows>> wanted(ranks);
    std::uint64_t at = random() % 10'000;
    while (at + 8'000'000 < fileBytes) {
      const std::uint64_t rows = 1 + random() % 3, row = 1 + random() % 2'000'000;
      for (unsigned rank = 0; rank < ranks; ++rank) {
        if (random() % 8 == 0) continue;
        const std::uint64_t begin = row * rank / ranks,
                            end = row * (rank + 1 + random() % 2) / ranks;
        wanted[rank].push_back({0,
                                {.offset = at + begin,
                                 .rowBytes = std::min(end, row) - begin,
                                 .stride = row,
                                 .rows = rows}});
      }
      at += rows * row + random() % 3;
    }
    std::vector<unsigned> reads(fileBytes / kPage + 1), wishes(reads.size());
    const auto count = [](std::vector<unsigned>& pages, std::uint64_t begin, std::uint64_t size) {
      for (std::uint64_t page = begin / kPage; size > 0 && page <= (begin + size - 1) / kPage;
           ++page) {
        ++pages[page];
      }
    };
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const SliceSchedule schedule = scheduleSlices(wanted, std::span(&fileBytes, 1), rank, true);
      std::uint64_t bytes = 0;
      for (const WantedRows& own : schedule.own) {
        count(reads, own.rows.offset, own.rows.rowBytes);
        bytes += own.rows.bytes();
      }
      for (const SliceWindow& window : windowsOf(schedule.shared, 64 * kPage)) {
        for (const auto& [range, inWindow] : shareOf(window, rank, ranks)) {
          EXPECT_EQ(range.offset % kPage, 0U);
          EXPECT_EQ(inWindow % kPage, 0U);
          EXPECT_LE(inWindow + range.size, 64 * kPage);
          count(reads, range.offset, range.size);
        }
      }
      for (const WantedRows& taken : schedule.taken) bytes += taken.rows.bytes();
      std::uint64_t asked = 0;
      for (const auto& [file, rows] : wanted[rank]) {
        asked += rows.bytes();
        for (std::uint64_t i = 0; i < rows.rows; ++i) {
          count(wishes, rows.offset + i * rows.stride, rows.rowBytes);
        }
      }
      EXPECT_EQ(bytes, asked);
    }
    for (std::size_t page = 0; page < reads.size(); ++page) {
      EXPECT_LE(reads[page], 1U) << page;
      EXPECT_GE(reads[page], std::min(wishes[page], 1U)) << page;
    }
  }
}

TEST(SliceScheduleTest, ReadsNoLargeGaps) {
  const std::uint64_t fileBytes = 100'000'000;
  const std::vector<WantedRows> wanted{
      {0, {.offset = 0, .rowBytes = 4'096, .stride = 1'000'000, .rows = 100}}};
  const SliceSchedule schedule =
      scheduleSlices(std::span(&wanted, 1), std::span(&fileBytes, 1), 0, true);
  std::uint64_t bytes = 0;
  for (const FileRange& range : schedule.shared) bytes += range.size;
  EXPECT_LE(bytes, 2 * 100 * kPage);
}

TEST(SliceScheduleTest, SharesEverythingWhenNobodyReadsAlone) {
  const std::uint64_t fileBytes = 10'000'000;
  const std::vector<WantedRows> wanted{{0, {.offset = 5, .rowBytes = 9'000'000}}};
  for (const bool readsOwn : {false, true}) {
    const SliceSchedule schedule =
        scheduleSlices(std::span(&wanted, 1), std::span(&fileBytes, 1), 0, readsOwn);
    EXPECT_EQ(schedule.own.empty(), !readsOwn);
    EXPECT_EQ(schedule.shared.size(), readsOwn ? 2U : 1U);
  }
}

}  // namespace
}  // namespace hearth
