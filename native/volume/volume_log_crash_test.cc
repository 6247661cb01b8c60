// A leader whose disk goes away at every instant: what was synced is there, nothing else but what
// was appended behind it, and the tree is that of the records.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/testing/sanitizers.h"
#include "files/crash_file_system.h"
#include "namespace/testing/led_namespace.h"
#include "volume/testing/tmpfs_folder.h"
#include "volume/volume_log.h"

namespace hearth {
namespace {

using tree::Namespace;
using tree::NamespaceOptions;
using tree::Record;

const NamespaceOptions kCrashOptions{.store = {1}, .volume = {2}};
// Sanitizers take their time: there the crash comes after every seventh operation only.
constexpr std::uint64_t kStride = kSanitized ? 7 : 1;

// The records that leaders have appended, and the last ones that a crash and a kill leave.
struct History {
  std::vector<Record> records;
  std::uint64_t durable = 0;
  std::uint64_t written = 0;
  bool killed = false;  // the last leader, by no crash

  void append(VolumeLog& log, const Record& record) {
    records.push_back(record);
    log.append(record);
  }
};

class VolumeLogCrashTest : public testing::TestWithParam<LogDurability> {
 protected:
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  static tree::Bytes bytesOf(const Namespace& tree) {
    tree::Bytes bytes;
    tree.checkpoint(bytes);
    return bytes;
  }

  // One leader's term of random changes, until the disk goes away.
  Task<void> live(VolumeLog& log, Namespace& tree, CrashFileSystem& files, std::uint64_t seed,
                  std::uint64_t epoch, History& history) {
    std::mt19937_64 random(seed);
    std::uint64_t number = 0;
    history.append(log, *tree.lead(epoch, 0));
    const auto joined = tree.decide(tree::Join{"a", {static_cast<std::uint8_t>(epoch)}}, 0);
    history.append(log, *joined.log);
    for (int step = 0; step < 25 && !files.crashed(); ++step) {
      tree::Request request{.id = {joined.answer.holder, ++number}, .epoch = epoch};
      request.doneBelow = number - random() % std::min<std::uint64_t>(number, 4);
      const std::string name(1, static_cast<char>('a' + random() % 5));
      request.change = tree::Create{.place = tree::inRoot(name), .opens = random() % 2 == 0};
      if (random() % 3 == 0) request.change = tree::Unlink{tree::inRoot(name)};
      history.append(log, *tree.execute(request).log);
      if (random() % 3 == 0) {
        const std::uint64_t wanted = tree.lastRecord() - random() % 2;
        const Status written = co_await log.durable(wanted);
        if (written.ok()) history.written = std::max(history.written, wanted);
      }
      if (random() % 6 == 0) {
        (void)co_await log.checkpoint();
      }
      if (!tail.empty() && random() % 2 == 0) co_await reactor->sleep(std::chrono::seconds(0));
      history.durable = std::max(history.durable, log.syncedRecord());
    }
    (void)co_await log.close();
    history.durable = std::max(history.durable, log.syncedRecord());
    history.written = std::max(history.written, history.durable);
  }
  // Opens what a crash left; null when the disk goes away meanwhile.
  std::unique_ptr<VolumeLog> recover(CrashFileSystem& files, Namespace& into, History& history) {
    VolumeLog::Options options{"/v", kCrashOptions, GetParam()};
    options.tail = tail;
    options.writeAfter = std::chrono::seconds(0);
    auto opened = run(VolumeLog::open(*reactor, files, options, into));
    if (!opened.ok()) {
      EXPECT_TRUE(files.crashed()) << opened.error().message;
      return nullptr;
    }
    const std::uint64_t last = into.lastRecord();
    EXPECT_GE(last, history.killed ? history.written : history.durable);
    EXPECT_LE(last, history.records.size());
    history.records.resize(last);
    Namespace expected(kCrashOptions);
    for (const Record& record : history.records) EXPECT_TRUE(expected.apply(record).ok());
    EXPECT_EQ(bytesOf(into), bytesOf(expected));
    // Records that the next leader has read stay.
    history.durable = last;
    history.written = last;
    history.killed = false;
    return std::move(*opened);
  }
  void lead(CrashFileSystem& files, std::uint64_t seed, std::uint64_t epoch, History& history) {
    Namespace tree(kCrashOptions);
    const auto log = recover(files, tree, history);
    if (log != nullptr) run(live(*log, tree, files, seed, epoch, history));
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  std::string tail;
};

INSTANTIATE_TEST_SUITE_P(Durabilities, VolumeLogCrashTest,
                         testing::Values(LogDurability::kSynced, LogDurability::kWritten),
                         [](const auto& durability) {
                           return durability.param == LogDurability::kSynced ? "synced" : "written";
                         });

TEST_P(VolumeLogCrashTest, WhatWasDurableSurvivesACrashAtEveryInstant) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CrashFileSystem original;
    ASSERT_TRUE(run(original.makeDirectory("/v", 0700)).ok());
    ASSERT_TRUE(run(original.syncDirectory("/")).ok());
    for (std::uint64_t at = 0;; at += kStride) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", crash after " + std::to_string(at));
      auto files = original.killCopy();
      History history;
      files->crashAfter(at);
      lead(*files, seed, 1, history);
      const bool crashed = files->crashed();
      // It crashes again while it recovers, and while another leader lives or after that one was
      // killed.
      files = files->crashCopy(seed * 1000 + at);
      files->crashAfter(at % 7);
      lead(*files, seed + 10, 2, history);
      files = files->crashCopy(at);
      files->crashAfter(20 + at % 13);
      lead(*files, seed + 20, 3, history);
      if (at % 2 == 0) {
        files = files->killCopy();
        Namespace killed(kCrashOptions);
        history.killed = true;
        ASSERT_NE(recover(*files, killed, history), nullptr);
      }
      files = files->crashCopy(at + 1);
      Namespace tree(kCrashOptions);
      ASSERT_NE(recover(*files, tree, history), nullptr);
      if (HasFailure() || !crashed) break;
    }
    if (HasFailure()) return;
  }
}

class VolumeLogTailCrashTest : public VolumeLogCrashTest {
 protected:
  void SetUp() override { tail = tmpfs.path() + "/tail"; }
  // The leader of these files is killed; the disk works again until the crash.
  static std::unique_ptr<CrashFileSystem> afterKill(const CrashFileSystem& files,
                                                    std::uint64_t crash, History& history) {
    auto left = files.killCopy();
    left->crashAfter(crash);
    history.killed = true;
    return left;
  }

  testing_support::TmpfsFolder tmpfs;
};

INSTANTIATE_TEST_SUITE_P(Durabilities, VolumeLogTailCrashTest,
                         testing::Values(LogDurability::kWritten),
                         [](const auto& /*durability*/) { return "written"; });

TEST_P(VolumeLogTailCrashTest, AnsweredRecordsSurviveAKillAtEveryInstant) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CrashFileSystem original;
    ASSERT_TRUE(run(original.makeDirectory("/v", 0700)).ok());
    ASSERT_TRUE(run(original.syncDirectory("/")).ok());
    for (std::uint64_t at = 0;; at += kStride) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", disk fails after " + std::to_string(at));
      std::filesystem::remove(tail);
      History history;
      auto files = original.killCopy();
      files->crashAfter(at);
      lead(*files, seed, 1, history);
      const bool crashed = files->crashed();
      files = afterKill(*files, at % 9, history);
      lead(*files, seed + 10, 2, history);
      files = afterKill(*files, 20 + at % 13, history);
      lead(*files, seed + 20, 3, history);
      if (at % 2 == 0) {
        files = afterKill(*files, ~std::uint64_t{0}, history);
        Namespace killed(kCrashOptions);
        const auto log = recover(*files, killed, history);
        ASSERT_NE(log, nullptr);
        EXPECT_TRUE(run(log->close()).ok());
      }
      // The machine loses its power, and with it the tail.
      files = files->crashCopy(at + 1);
      std::filesystem::remove(tail);
      history.killed = false;
      Namespace tree(kCrashOptions);
      const auto log = recover(*files, tree, history);
      ASSERT_NE(log, nullptr);
      EXPECT_TRUE(run(log->close()).ok());
      if (HasFailure() || !crashed) break;
    }
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace hearth
