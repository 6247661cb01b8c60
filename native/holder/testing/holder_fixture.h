// A real holder with real mounts for tests: it runs in a thread, in a mount namespace of the test
// program's own, so that nothing stays mounted however it ends.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/testing/eventually.h"
#include "holder/fuse_mount.h"
#include "holder/holder_client.h"
#include "holder/holder_server.h"
#include "holder/mount_info.h"

namespace hearth::holder_testing {

class HolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to mount";
    if (access("/dev/fuse", R_OK | W_OK) != 0) GTEST_SKIP() << "needs /dev/fuse";
    static const bool isolated =
        unshare(CLONE_NEWNS) == 0 && ::mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    if (!isolated) GTEST_SKIP() << "needs a mount namespace of its own (CAP_SYS_ADMIN)";
    std::string name = (std::filesystem::temp_directory_path() / "hearth-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    std::filesystem::create_directory(root_ / "mnt");
    startServer();
  }
  void TearDown() override {
    endServer();
    std::error_code ignored;
    if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
  }
  // `options` but its socket.
  void startServer(HolderOptions options = {}) {
    options.socketPath = socketPath();
    auto server = HolderServer::create(std::move(options));
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] {
      serverThread_ = gettid();
      server_->run();
    });
  }
  void endServer() {
    if (!server_) return;
    server_->stop();
    thread_.join();
    server_.reset();
  }
  static OwnedFd memory(off_t bytes) {
    OwnedFd made(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(made.get(), bytes), 0);
    EXPECT_EQ(fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
    return made;
  }
  std::string socketPath() const { return (root_ / "s").string(); }
  std::string mnt() const { return (root_ / "mnt").string(); }
  std::unique_ptr<HolderClient> connect(const std::string& owner = "") {
    auto client = HolderClient::connect(socketPath(), kHang);
    EXPECT_TRUE(client.ok()) << client.error().message;
    if (!owner.empty()) {
      EXPECT_TRUE((*client)->attach(owner).ok());
    }
    return std::move(*client);
  }
  OwnedFd connectRaw() const {
    OwnedFd raw(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, socketPath().c_str());
    const timeval limit{std::chrono::seconds(kHang).count(), 0};
    setsockopt(raw.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(::connect(raw.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return raw;
  }
  static bool mounted(const std::string& path) {
    const auto row = findMount(path);
    return row.ok() && row->has_value() && (*row)->type == kFuseType;
  }
  std::filesystem::path root_;
  ChildCalls calls_;
  std::unique_ptr<HolderServer> server_;
  std::thread thread_;
  std::atomic<pid_t> serverThread_{
      0};  // as the kernel names the thread that startServer() has begun
};

}  // namespace hearth::holder_testing
