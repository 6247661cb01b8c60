// Agents with their parts of one volume, whose leader is in memory.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/testing_cluster.h"
#include "sessions/testing/tree_client.h"
#include "sessions/volume_sessions.h"

namespace hearth::testing_volume {

using testing_cluster::Agent;
using testing_cluster::connect;
using testing_cluster::TemporaryFolder;
using testing_support::SharedTree;
using testing_support::TreeClient;
using tree::inRoot;

// One agent with its part of the volume.
class Node {
 public:
  Node(SharedTree& tree, const std::string& name, const std::string& folder, std::uint8_t start = 1)
      : folder_(folder),
        agent_(
            name, 4ull << 30, [](EngineEvent) {}, folder),
        client_(tree, name, start) {}
  ~Node() { stop(); }

  void start() {
    EngineCommons& commons = agent_.engine().commons();
    sessions_ = std::make_unique<VolumeSessions>(
        VolumeSessions::Ports{agent_.engine().home(), client_, *commons.mounting,
                              commons.publishedFiles},
        SessionOptions{.store = {1},
                       .volume = {2},
                       .id = "02",
                       .name = "kv",
                       .cacheDirectories = {folder_},
                       .deadline = std::chrono::seconds(10)});
    const Status opened = agent_.await(sessions_->open());
    EXPECT_TRUE(opened.ok()) << opened.error().message;
  }
  void stop() {
    if (sessions_ != nullptr) run(sessions_->close());
    sessions_.reset();
    agent_.stop();
  }
  void run(Task<void> task) {
    struct Wrap {
      static Task<bool> run(Task<void> inner) {
        co_await inner;
        co_return true;
      }
    };
    agent_.await(Wrap::run(std::move(task)));
  }
  template <class T>
  T await(Task<T> task) {
    return agent_.await(std::move(task));
  }

  [[nodiscard]] Agent& agent() { return agent_; }
  [[nodiscard]] VolumeSessions& files() { return *sessions_; }
  [[nodiscard]] TreeClient& client() { return client_; }
  [[nodiscard]] SessionStatistics statistics() {
    struct Wrap {
      static Task<SessionStatistics> run(VolumeSessions& sessions) {
        co_return sessions.statistics();
      }
    };
    return await(Wrap::run(*sessions_));
  }

 private:
  const std::string folder_;
  Agent agent_;
  TreeClient client_;
  std::unique_ptr<VolumeSessions> sessions_;
};

// A program's descriptor of a session file, as the kernel opens it.
inline OwnedFd writer(const OwnedFd& session) {
  return OwnedFd(
      ::open(("/proc/self/fd/" + std::to_string(session.get())).c_str(), O_RDWR | O_CLOEXEC));
}

inline void write(const OwnedFd& file, const std::vector<char>& bytes, off_t offset = 0) {
  ASSERT_EQ(::pwrite(file.get(), bytes.data(), bytes.size(), offset),
            static_cast<ssize_t>(bytes.size()));
}

inline std::vector<char> bytesIn(int descriptor, std::size_t size) {
  std::vector<char> bytes(size);
  const ssize_t got = ::pread(descriptor, bytes.data(), size, 0);
  bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return bytes;
}

// All bytes of an opened file, however they are read.
inline std::vector<char> contentOf(OpenedVolumeFile& file) {
  EXPECT_EQ(file.error, 0);
  const std::size_t size = file.attributes.size;
  if (file.session) return bytesIn(file.session.get(), size);
  std::vector<char> bytes;
  while (file.reading != nullptr && bytes.size() < size) {
    std::mutex mutex;
    std::condition_variable come;
    std::optional<Result<MappedBytes>> answer;
    const auto length =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(kChunkBytes, size - bytes.size()));
    file.reading->read(bytes.size(), length, [&](Result<MappedBytes> got) {
      const std::lock_guard lock(mutex);
      answer.emplace(std::move(got));
      come.notify_one();
    });
    std::unique_lock lock(mutex);
    come.wait(lock, [&] { return answer.has_value(); });
    EXPECT_TRUE(answer->ok()) << answer->error().message;
    if (!answer->ok()) break;
    for (const auto part : {(*answer)->bytes, (*answer)->rest}) {
      const auto* const begin = reinterpret_cast<const char*>(part.data());
      bytes.insert(bytes.end(), begin, begin + part.size());
    }
  }
  return bytes;
}

class VolumeNodesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    start();
    connect({&a_->agent(), &b_->agent()});
  }
  void start(std::uint8_t incarnation = 1) {
    a_ = std::make_unique<Node>(tree_, "a", folder_.path("a"), incarnation);
    b_ = std::make_unique<Node>(tree_, "b", folder_.path("b"), incarnation);
    a_->start();
    b_->start();
  }
  static OpenedVolumeFile create(Node& node, const std::string& name) {
    return node.await(
        node.files().create({.place = inRoot(name), .mode = 0644, .opens = true}, false));
  }
  // Writes a whole file and closes it, as a program does.
  static tree::InodeId put(Node& node, const std::string& name, const std::vector<char>& bytes) {
    OpenedVolumeFile made = create(node, name);
    EXPECT_EQ(made.error, 0);
    OwnedFd file = writer(made.session);
    write(file, bytes);
    const tree::InodeId inode = made.attributes.id;
    EXPECT_EQ(node.await(node.files().publish(inode)), 0);
    file.reset();
    node.run(node.files().closeWriter(inode));
    return inode;
  }
  static OpenedVolumeFile open(Node& node, tree::InodeId inode) {
    return node.await(node.files().openToRead(inode, std::nullopt));
  }
  static bool sealed(Node& node) {
    return eventually([&] { return node.statistics().sessions == 0; });
  }

  TemporaryFolder folder_;
  SharedTree tree_;
  std::unique_ptr<Node> a_, b_;
};

}  // namespace hearth::testing_volume
