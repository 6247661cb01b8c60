// A process with the log of a volume, killed by SIGKILL: all that it had answered is there.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <new>
#include <random>
#include <string>

#include "files/posix_file_system.h"
#include "namespace/testing/led_namespace.h"
#include "volume/testing/tmpfs_folder.h"
#include "volume/volume_log.h"

namespace hearth {
namespace {

using Counter = std::atomic<std::uint64_t>;

VolumeLog::Options optionsIn(const std::string& folder) {
  VolumeLog::Options options{.folder = folder, .durability = LogDurability::kWritten};
  options.tree = {.store = {1}, .volume = {2}};
  options.tail = folder + "/run/tail";
  options.writeAfter = std::chrono::milliseconds(1);
  return options;
}

// Leads until the process is killed, and counts in `answered` the last record that is durable.
Task<bool> leadForever(Reactor& reactor, VolumeLog::Options options, std::uint64_t epoch,
                       Counter& answered) {
  PosixFileSystem files(reactor);
  tree::Namespace tree(options.tree);
  auto log = co_await VolumeLog::open(reactor, files, options, tree);
  if (!log.ok()) co_return false;
  (*log)->append(*tree.lead(epoch, 0));
  for (;;) {
    const auto joined = tree.decide(tree::Join{"a", {static_cast<std::uint8_t>(epoch)}}, 0);
    if (joined.log) (*log)->append(*joined.log);
    for (std::uint64_t number = 1; number < 100'000; ++number) {
      tree::Request request{.id = {joined.answer.holder, number}, .epoch = epoch};
      request.doneBelow = number;
      request.change = tree::Create{.place = tree::inRoot("f" + std::to_string(number % 50))};
      if (number % 3 == 0) request.change = tree::Unlink{tree::inRoot("f1")};
      if (const auto done = tree.execute(request); done.log) (*log)->append(*done.log);
      if (!(co_await (*log)->durable(tree.lastRecord())).ok()) co_return false;
      answered = tree.lastRecord();
      if (number % 5 == 0) co_await reactor.sleep(std::chrono::microseconds(100));
    }
  }
}

TEST(VolumeLogKillTest, AnsweredRecordsAreThereAfterTheKill) {
  const testing_support::TmpfsFolder folder;
  void* const shared =
      ::mmap(nullptr, sizeof(Counter), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& answered = *new (shared) Counter(0);
  std::mt19937_64 random(1);
  for (std::uint64_t epoch = 1; epoch <= 10; ++epoch) {
    const std::uint64_t until = answered + 1 + random() % 300;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto reactor = std::move(*Reactor::create());
      (void)reactor->runUntilComplete(
          leadForever(*reactor, optionsIn(folder.path()), epoch, answered));
      ::_exit(1);
    }
    int status = 0;
    while (answered < until && ::waitpid(child, &status, WNOHANG) == 0) ::usleep(100);
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    auto reactor = std::move(*Reactor::create());
    PosixFileSystem files(*reactor);
    const VolumeLog::Options options = optionsIn(folder.path());
    tree::Namespace tree(options.tree);
    auto log = reactor->runUntilComplete(VolumeLog::open(*reactor, files, options, tree));
    ASSERT_TRUE(log.ok()) << log.error().message;
    EXPECT_TRUE((*log)->tailError().ok());
    EXPECT_GE(tree.lastRecord(), answered.load());
    EXPECT_TRUE(reactor->runUntilComplete((*log)->close()).ok());
  }
  ::munmap(shared, sizeof(Counter));
}

}  // namespace
}  // namespace hearth
