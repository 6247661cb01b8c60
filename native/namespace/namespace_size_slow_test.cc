// The memory of a file, and the time of a look-up among many files. Prints the numbers that
// docs/design/namespace.md gives.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "namespace/testing/led_namespace.h"

namespace hearth::tree {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t heapBytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

double secondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// As a log brings them: an inode, its content of one run, a name of up to 15 bytes.
Record fileRecord(std::uint64_t number, std::uint32_t file, AgentId agent) {
  const InodeId inode{idOf(1, 1000 + file)};
  const SessionId session{idOf(1, (std::uint64_t{1} << 30) + file)};
  Record record{1, number, {}};
  record.changes.push_back({Key::of(KeyKind::kInode, inode), Inode{.mode = 0644, .links = 1}});
  record.changes.push_back({Key::of(KeyKind::kContent, inode),
                            Content{{session, 1}, 1 << 21, false, {{session, 0, 1, agent}}}});
  record.changes.push_back({Key::ofEntry(kRootInode, number + kFirstCookie - 1),
                            Entry{inode, "block" + std::to_string(file)}});
  return record;
}

struct Measured {
  double bytes = 0;     // of memory for each file
  double medianNs = 0;  // of a look-up of an absent name
  double worstNs = 0;   // of a record while the files come
};

Measured measure(std::uint32_t files) {
  LedNamespace volume;
  const AgentId agent = volume.join("a").agent;
  Measured measured;
  const std::size_t before = heapBytes();
  for (std::uint32_t file = 0; file < files; ++file) {
    const Record record = fileRecord(volume.tree.lastRecord() + 1, file, agent);
    const auto begin = Clock::now();
    EXPECT_TRUE(volume.tree.apply(record).ok());
    measured.worstNs = std::max(measured.worstNs, secondsSince(begin) * 1e9);
  }
  measured.bytes = static_cast<double>(heapBytes() - before) / files;
  std::vector<std::string> absent;
  for (int i = 0; i < 100'000; ++i) absent.push_back("absent" + std::to_string(i * 7919));
  // A hundred at a time: the clock itself takes as long as one.
  std::vector<double> times;
  for (std::size_t at = 0; at < absent.size(); at += 100) {
    const auto begin = Clock::now();
    for (std::size_t i = at; i < at + 100; ++i) {
      EXPECT_EQ(volume.tree.lookUp(kRootInode, absent[i]).error, ENOENT);
    }
    times.push_back(secondsSince(begin) * 1e7);
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  measured.medianNs = times[times.size() / 2];
  return measured;
}

TEST(NamespaceSizeSlow, AMillionFiles) {
  for (const std::uint32_t files : {1'000u, 1'000'000u}) {
    const Measured measured = measure(files);
    std::printf("%u files: %.0f bytes a file, absent name %.0f ns, longest record %.1f ms\n", files,
                measured.bytes, measured.medianNs, measured.worstNs / 1e6);
    EXPECT_LT(measured.bytes, 400.0);
    // Through a mount a stat of an absent name takes tens of microseconds.
    EXPECT_LT(measured.medianNs, 2'000.0);
  }
}

TEST(NamespaceSizeSlow, ChangesOfALargeVolume) {
  LedNamespace volume;
  const ClientId client = volume.join("a");
  constexpr std::uint32_t kFiles = 200'000;
  const auto begin = Clock::now();
  std::size_t logBytes = 0;
  Bytes bytes;
  const auto execute = [&](ClientChange change) {
    Request request = volume.request(client, std::move(change));
    request.doneBelow = request.id.number;
    const auto outcome = volume.tree.execute(request);
    bytes.clear();
    appendRecord(bytes, *outcome.log);
    logBytes += bytes.size();
    return outcome.answer;
  };
  for (std::uint32_t file = 0; file < kFiles; ++file) {
    const std::string name = "f" + std::to_string(file);
    const Answer made = execute(Create{.place = inRoot(name + ".tmp"), .opens = true});
    Rename rename{.from = inRoot(name + ".tmp"), .to = inRoot(name)};
    rename.publish = LedNamespace::publishOf(client, made, 1);
    ASSERT_EQ(execute(rename).error, 0);
  }
  std::printf("create, publish with rename: %.1f us, %zu bytes of log\n",
              secondsSince(begin) * 1e6 / kFiles, logBytes / kFiles);
  const auto again = Clock::now();
  bytes.clear();
  volume.tree.checkpoint(bytes);
  std::printf("checkpoint of %u files: %.0f ms, %zu bytes a file\n", kFiles,
              secondsSince(again) * 1e3, bytes.size() / kFiles);
  const auto loading = Clock::now();
  Namespace loaded({});
  CheckpointReader reader;
  reader.feed(bytes);
  auto step = reader.next();
  for (; step == CheckpointReader::Step::kItem; step = reader.next()) {
    ASSERT_TRUE(loaded.load(reader.item()).ok());
  }
  ASSERT_EQ(step, CheckpointReader::Step::kEnd);
  std::printf("loading it: %.0f ms\n", secondsSince(loading) * 1e3);
}

}  // namespace
}  // namespace hearth::tree
