// The log of a volume in /v of a CrashFileSystem, and the volume whose records it gets. For tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "files/crash_file_system.h"
#include "namespace/testing/led_namespace.h"
#include "volume/volume_log.h"

namespace hearth::testing_support {

inline const tree::NamespaceOptions kLogTree{.store = {1}, .volume = {2}};

class VolumeLogFixture : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(run(files.makeDirectory("/v", 0700)).ok());
    ASSERT_TRUE(run(files.syncDirectory("/")).ok());
  }
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  Result<std::unique_ptr<VolumeLog>> open(FileSystem& from, tree::Namespace& into,
                                          tree::NamespaceOptions options = kLogTree) {
    return run(VolumeLog::open(*reactor, from, {"/v", options}, into));
  }
  // As the next leader opens it, with so many files made that are not durable yet.
  std::unique_ptr<VolumeLog> openWith(std::size_t newFiles,
                                      VolumeLog::Options options = {"/v", kLogTree}) {
    tree::Namespace replayed(options.tree);
    auto log = run(VolumeLog::open(*reactor, files, std::move(options), replayed));
    EXPECT_TRUE(log.ok()) << log.error().message;
    make(newFiles);
    appendTo(**log);
    return std::move(*log);
  }
  Task<void> sleep() { co_await reactor->sleep(std::chrono::milliseconds(10)); }
  // Appends the records of the volume since the last call.
  void appendTo(VolumeLog& log) {
    for (; appended < volume.log.size(); ++appended) log.append(volume.log[appended]);
  }
  void make(std::size_t newFiles) {
    for (std::size_t i = 0; i < newFiles; ++i) {
      const std::string name = "f" + std::to_string(made++);
      volume.ask(client, tree::Create{.place = tree::inRoot(name), .opens = true});
    }
  }
  static tree::Bytes bytesOf(const tree::Namespace& tree) {
    tree::Bytes bytes;
    tree.checkpoint(bytes);
    return bytes;
  }
  std::vector<std::string> names() {
    std::vector<std::string> all;
    auto listed = run(files.list("/v", ListDetail::kKinds));
    for (const DirectoryEntry& entry : *listed) all.push_back(entry.name);
    std::ranges::sort(all);
    return all;
  }
  void expectReplayed(FileSystem& from) {
    tree::Namespace replayed(kLogTree);
    const auto log = open(from, replayed);
    ASSERT_TRUE(log.ok()) << log.error().message;
    EXPECT_EQ(bytesOf(replayed), bytesOf(volume.tree));
    EXPECT_EQ((*log)->durableRecord(), volume.tree.lastRecord());
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
  tree::LedNamespace volume{kLogTree};
  tree::ClientId client = volume.join("a");
  std::size_t appended = 0, made = 0;
};

}  // namespace hearth::testing_support
