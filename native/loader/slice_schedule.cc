#include "loader/slice_schedule.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace hearth {
namespace {

// Shorter gaps between rows are read with them: a request of its own for each row takes longer.
constexpr std::uint64_t kMaxGapBytes = std::uint64_t{64} << 10;
// Shorter parts are not worth a read of their own.
constexpr std::uint64_t kMinOwnBytes = std::uint64_t{256} << 10;

std::uint64_t pageBefore(std::uint64_t value) {
  return value / kDirectReadAlignment * kDirectReadAlignment;
}

std::uint64_t pageAfter(std::uint64_t value) {
  return pageBefore(value + kDirectReadAlignment - 1);
}

struct Interval {
  std::uint64_t file = 0, begin = 0, end = 0;
  bool canBeOwn = false;
};

// Bytes that are read when somebody wants the rows.
void addIntervals(const WantedRows& wanted, std::vector<Interval>& intervals) {
  const RowRead& rows = wanted.rows;
  if (rows.bytes() == 0) return;
  if (rows.rows == 1 || rows.stride - rows.rowBytes <= kMaxGapBytes) {
    const bool canBeOwn = rows.rows == 1 && rows.rowBytes >= kMinOwnBytes;
    intervals.push_back({wanted.file, rows.offset, rows.end(), canBeOwn});
    return;
  }
  for (std::uint64_t row = 0; row < rows.rows; ++row) {
    const std::uint64_t begin = rows.offset + row * rows.stride;
    intervals.push_back({wanted.file, begin, begin + rows.rowBytes, false});
  }
}

std::vector<Interval> intervalsOf(std::span<const std::vector<WantedRows>> wanted) {
  std::vector<Interval> intervals;
  for (const std::vector<WantedRows>& ofRank : wanted) {
    for (const WantedRows& rows : ofRank) addIntervals(rows, intervals);
  }
  std::ranges::sort(intervals, {}, [](const Interval& each) {
    return std::tuple(each.file, each.begin, each.end);
  });
  return intervals;
}

// Appends whole pages. One that the last range has is not read again.
void addShared(const Interval& interval, std::uint64_t fileBytes, std::vector<FileRange>& shared) {
  const std::uint64_t begin = pageBefore(interval.begin);
  const std::uint64_t end = std::min(pageAfter(interval.end), fileBytes);
  if (!shared.empty() && shared.back().file == interval.file &&
      begin <= shared.back().offset + shared.back().size) {
    FileRange& last = shared.back();
    last.size = std::max(last.size, end - last.offset);
  } else {
    shared.push_back({interval.file, begin, end - begin});
  }
}

// A rank reads whole pages alone. The first and the last one may hold bytes of others.
std::array<WantedRows, 3> pagesOf(const WantedRows& wanted) {
  const RowRead& rows = wanted.rows;
  const std::uint64_t begin = pageAfter(rows.offset), end = pageBefore(rows.end());
  const auto part = [&](std::uint64_t from, std::uint64_t to) {
    return WantedRows{
        wanted.file,
        {.offset = from, .inMemory = rows.inMemory + (from - rows.offset), .rowBytes = to - from}};
  };
  return {part(rows.offset, begin), part(begin, end), part(end, rows.end())};
}

}  // namespace

SliceSchedule scheduleSlices(std::span<const std::vector<WantedRows>> wanted,
                             std::span<const std::uint64_t> fileBytes, unsigned rank,
                             bool readsOwn) {
  SliceSchedule schedule;
  // By file and first byte: what is read by the only rank that wants it.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> own;
  const std::vector<Interval> intervals = intervalsOf(wanted);
  for (std::size_t i = 0; i < intervals.size();) {
    Interval all = intervals[i];
    std::size_t next = i + 1;
    for (; next < intervals.size() && intervals[next].file == all.file &&
           intervals[next].begin < all.end;
         ++next) {
      all.end = std::max(all.end, intervals[next].end);
    }
    const std::uint64_t bytes = fileBytes[all.file];
    if (readsOwn && next == i + 1 && all.canBeOwn) {
      own.emplace_back(all.file, all.begin);
      const std::uint64_t begin = pageAfter(all.begin), end = pageBefore(all.end);
      if (all.begin < begin) addShared({all.file, all.begin, begin}, bytes, schedule.shared);
      if (end < all.end) addShared({all.file, end, all.end}, bytes, schedule.shared);
    } else {
      addShared(all, bytes, schedule.shared);
    }
    i = next;
  }
  for (const WantedRows& rows : wanted[rank]) {
    if (rows.rows.bytes() == 0) continue;
    if (!std::ranges::binary_search(own, std::pair(rows.file, rows.rows.offset))) {
      schedule.taken.push_back(rows);
      continue;
    }
    const auto [head, middle, tail] = pagesOf(rows);
    schedule.own.push_back(middle);
    for (const WantedRows& part : {head, tail}) {
      if (part.rows.bytes() > 0) schedule.taken.push_back(part);
    }
  }
  std::ranges::sort(schedule.taken, {},
                    [](const WantedRows& each) { return std::pair(each.file, each.rows.offset); });
  return schedule;
}

std::vector<SliceWindow> windowsOf(std::span<const FileRange> shared, std::uint64_t windowBytes) {
  std::vector<SliceWindow> windows;
  std::uint64_t used = windowBytes;
  for (const FileRange& range : shared) {
    for (std::uint64_t done = 0; done < range.size;) {
      if (used == windowBytes) {
        windows.emplace_back();
        used = 0;
      }
      const std::uint64_t size = std::min(range.size - done, windowBytes - used);
      windows.back().push_back({{range.file, range.offset + done, size}, used});
      used += pageAfter(size);
      done += size;
    }
  }
  return windows;
}

SliceWindow shareOf(const SliceWindow& window, unsigned rank, unsigned ranks) {
  SliceWindow share;
  if (window.empty()) return share;
  const std::uint64_t pages =
      pageAfter(window.back().inWindow + window.back().range.size) / kDirectReadAlignment;
  const std::uint64_t begin = pages * rank / ranks * kDirectReadAlignment;
  const std::uint64_t end = pages * (rank + 1) / ranks * kDirectReadAlignment;
  for (const WindowPart& part : window) {
    const std::uint64_t from = std::max(begin, part.inWindow);
    const std::uint64_t to = std::min(end, part.inWindow + part.range.size);
    if (from >= to) continue;
    share.push_back(
        {{part.range.file, part.range.offset + (from - part.inWindow), to - from}, from});
  }
  return share;
}

}  // namespace hearth
