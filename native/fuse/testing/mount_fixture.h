// Real mounts for tests: a holder in a thread, a temporary folder, and a mount namespace of the
// test program's own, so that nothing stays mounted however it ends.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing/eventually.h"
#include "fuse/fuse_abi.h"
#include "fuse/fuse_session.h"
#include "fuse/testing/connection_guard.h"
#include "fuse/testing/test_source.h"
#include "holder/holder_client.h"
#include "holder/holder_server.h"

namespace hearth::fuse_testing {

// Empty when FUSE can be mounted here, else why not.
inline std::string whyNoMounts() {
  if (geteuid() != 0) return "needs root to mount";
  if (access("/dev/fuse", R_OK | W_OK) != 0) return "needs /dev/fuse";
  static const bool isolated = [] {
    if (unshare(CLONE_NEWNS) != 0) return false;
    if (mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    guardConnections();
    return true;
  }();
  return isolated ? "" : "needs a mount namespace of its own (CAP_SYS_ADMIN)";
}

class MountTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
    std::string name = (std::filesystem::temp_directory_path() / "hearth-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    for (const char* folder : {"mnt", "cache"}) std::filesystem::create_directory(root_ / folder);
    HolderOptions options;
    options.socketPath = socket();
    options.agentAbsence = agentAbsence_;
    auto server = HolderServer::create(std::move(options));
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    holder_ = std::thread([this] { server_->run(); });
  }

  void TearDown() override {
    if (source_) source_->answerAll();
    session_.reset();
    client_.reset();
    if (server_) {
      server_->stop();
      holder_.join();
      server_.reset();
    }
    source_.reset();
    std::error_code ignored;
    if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
  }

  // Attaches as agent "test" and mounts `rows` on mnt().
  void serve(std::vector<ManifestRow> rows, FuseSessionOptions options = {}) {
    source_ = std::make_shared<TestSource>(manifestOf(std::move(rows)), (root_ / "cache").string());
    auto client = HolderClient::connect(socket());
    ASSERT_TRUE(client.ok()) << client.error().message;
    client_ = std::move(*client);
    ASSERT_TRUE(client_->attach("test").ok());
    auto held = client_->mount({.target = mnt(), .source = "test-dataset"});
    ASSERT_TRUE(held.ok()) << held.error().message;
    startSession(std::move(*held), std::move(options));
  }

  // Hands the mount over to the next agent. Other threads may use the mount meanwhile.
  void handOver(FuseSessionOptions options = {}) {
    session_.reset();
    client_.reset();
    auto client = HolderClient::connect(socket());
    ASSERT_TRUE(client.ok()) << client.error().message;
    client_ = std::move(*client);
    std::vector<HeldMount> held;
    ASSERT_TRUE(eventually([&] {  // the holder may not have noticed yet that the first one went
      auto attached = client_->attach("test");
      if (!attached.ok()) return false;
      held = std::move(*attached);
      return true;
    }));
    ASSERT_EQ(held.size(), 1U);
    startSession(std::move(held.front()), std::move(options));
  }

  void startSession(HeldMount held, FuseSessionOptions options) {
    options.epoch = held.record.epoch;
    options.state = held.record.state;
    options.saveState = [this](const std::string& state) {
      return client_->saveState(mnt(), state);
    };
    auto session =
        FuseSession::start(std::move(held.device), held.shared, source_, std::move(options));
    ASSERT_TRUE(session.ok()) << session.error().message;
    session_ = std::move(*session);
  }

  std::string socket() const { return (root_ / "holder.sock").string(); }
  std::string mnt(const std::string& path = "") const {
    return (root_ / "mnt").string() + (path.empty() ? "" : "/" + path);
  }
  FuseStatistics statistics() const { return session_->statistics(); }
  std::uint64_t operations(std::uint32_t opcode) const { return statistics().operations[opcode]; }

  static std::string readAll(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::chrono::seconds agentAbsence_{900};
  std::filesystem::path root_;
  std::unique_ptr<HolderServer> server_;
  std::thread holder_;
  std::unique_ptr<HolderClient> client_;
  std::shared_ptr<TestSource> source_;
  std::unique_ptr<FuseSession> session_;
};

inline ManifestRow fileRow(const std::string& path, std::uint64_t size, bool executable = false) {
  ManifestRow row;
  row.path = path;
  row.size = size;
  row.executable = executable;
  row.modifiedNs = 1'700'000'000'123'456'789;
  return row;
}

inline ManifestRow linkRow(const std::string& path, const std::string& target) {
  ManifestRow row;
  row.path = path;
  row.kind = EntryKind::kSymlink;
  row.symlinkTarget = target;
  return row;
}

inline ManifestRow folderRow(const std::string& path) {
  ManifestRow row;
  row.path = path;
  row.kind = EntryKind::kDirectory;
  return row;
}

}  // namespace hearth::fuse_testing
