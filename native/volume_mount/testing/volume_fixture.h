// Real mounts of a test volume on two nodes: a holder in a thread, a reactor in another, and a
// mount namespace of the test program's own.
#pragma once

#include <dirent.h>
#include <sys/mount.h>

#include <cstring>
#include <functional>
#include <thread>

#include "base/testing/eventually.h"
#include "fuse/fuse_session.h"
#include "fuse/testing/mount_fixture.h"
#include "holder/mount_watch.h"
#include "reactor/blocking_call.h"
#include "volume_mount/testing/namespace_files.h"
#include "volume_mount/volume_service.h"
#include "volume_mount/volume_session.h"

namespace hearth::volume_testing {

class VolumeMountTest : public ::testing::Test {
 protected:
  struct Node {
    std::string name;
    std::unique_ptr<HolderClient> client;
    std::shared_ptr<NamespaceFiles> files;
    std::shared_ptr<VolumeService> service;
    std::unique_ptr<FuseSession> session;
    std::uint8_t incarnation = 0;
    std::unique_ptr<MountWatch> watch;
  };

  void SetUp() override {
    if (const std::string why = fuse_testing::whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
    std::string name = (std::filesystem::temp_directory_path() / "hearth-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    for (const char* folder : {"a", "b", "bytes"})
      std::filesystem::create_directory(root_ / folder);
    HolderOptions options;
    options.socketPath = root_ / "holder.sock";
    auto server = HolderServer::create(std::move(options));
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    holder_ = std::thread([this] { server_->run(); });
    reactor_ = Reactor::create().value();
    loop_ = std::thread([this] { reactor_->run(); });
    volume_ = std::make_unique<TestVolume>(root_ / "bytes");
    a_.name = "a";
    b_.name = "b";
    serve(a_);
    serve(b_);
  }

  void TearDown() override {
    for (Node* const node : {&a_, &b_}) {
      node->session.reset();
      node->service.reset();
      node->client.reset();
    }
    if (loop_.joinable()) {
      reactor_->stop();
      loop_.join();
    }
    if (server_) {
      server_->stop();
      holder_.join();
      server_.reset();
    }
    for (const char* folder : {"a", "b"}) umount2((root_ / folder).c_str(), MNT_DETACH);
    std::error_code ignored;
    if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
  }

  // Mounts the volume on the node, or takes its mount over from the agent before.
  void serve(Node& node) {
    std::vector<HeldMount> held;
    ASSERT_TRUE(eventually([&] {  // the holder may not have noticed yet that the first one went
      auto client = HolderClient::connect(root_ / "holder.sock");
      if (!client.ok()) return false;
      node.client = std::move(*client);
      auto attached = node.client->attach(node.name);
      if (attached.ok()) held = std::move(*attached);
      return attached.ok();
    }));
    if (held.empty()) {
      auto mounted =
          node.client->mount({.target = root_ / node.name, .source = "volume", .writable = true});
      ASSERT_TRUE(mounted.ok()) << mounted.error().message;
      held.push_back(std::move(*mounted));
    }
    HeldMount& mount = held.front();
    const auto writers = VolumeService::inherited(mount.shared);
    ASSERT_TRUE(writers.ok());
    onReactor([&] {
      node.files =
          std::make_shared<NamespaceFiles>(*volume_, *reactor_, node.name, ++node.incarnation);
      spawn(node.files->resume(*writers));
    });
    node.watch = std::make_unique<MountWatch>(MountWatch::map(mount.shared).value());
    VolumeServiceOptions options;
    options.threads = &reads_;
    options.saveState = [&node, target = mount.record.target](const std::string& state) {
      return node.client->saveState(target, state);
    };
    options.readFailed = [](const Error&) {};
    auto service = VolumeService::create(node.files, std::move(mount.device), mount.shared,
                                         std::move(options));
    ASSERT_TRUE(service.ok()) << service.error().message;
    node.service = *service;
    FuseSessionOptions session;
    session.epoch = mount.record.epoch;
    session.state = mount.record.state;
    auto started = startVolumeSession(node.service, std::move(session));
    ASSERT_TRUE(started.ok()) << started.error().message;
    node.session = std::move(*started);
  }
  // The next agent of the node, as after SIGKILL: the kernel sends unanswered requests again.
  void replaceAgent(Node& node) {
    node.session->close(std::chrono::milliseconds(0), true);
    node.session.reset();
    node.service.reset();
    node.client.reset();
    serve(node);
  }

  void onReactor(const std::function<void()>& work) { runOn(*reactor_, call(*reactor_, work)); }
  std::string at(const Node& node, const std::string& path = "") const {
    return (root_ / node.name / path).string();
  }
  static void writeFile(const std::string& path, const std::string& bytes) {
    const OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    ASSERT_TRUE(file) << strerror(errno);
    ASSERT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  static struct stat statOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(lstat(path.c_str(), &info), 0) << path << ": " << strerror(errno);
    return info;
  }
  static std::string readAt(const OwnedFd& file, std::size_t length, off_t offset = 0) {
    std::string bytes(length, '\0');
    const ssize_t size = pread(file.get(), bytes.data(), length, offset);
    bytes.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return bytes;
  }
  std::uint64_t operations(const Node& node, std::uint32_t opcode) const {
    return node.session->statistics().operations[opcode];
  }

  std::filesystem::path root_;
  std::unique_ptr<HolderServer> server_;
  std::thread holder_, loop_;
  ThreadPool reads_{{.threads = 2}};
  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<TestVolume> volume_;
  Node a_, b_;

 private:
  static Task<bool> call(Reactor& reactor, const std::function<void()>& work) {
    co_await reactor.enter();
    work();
    co_return true;
  }
};

}  // namespace hearth::volume_testing
