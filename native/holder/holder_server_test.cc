// A real holder with real mounts, in a mount namespace of the test's own.
#include "holder/holder_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "holder/fuse_mount.h"
#include "holder/holder_client.h"
#include "holder/holder_socket.h"
#include "holder/left_mounts.h"
#include "holder/mount_info.h"

extern char** environ;

namespace hearth {
namespace {

class HolderServerTest : public ::testing::Test {
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
  void startServer() {
    auto server = HolderServer::create({.socketPath = socketPath()});
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    if (server_) {
      server_->stop();
      thread_.join();
      server_.reset();
    }
    std::error_code ignored;
    if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
  }
  void endServer() {
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
    auto client = HolderClient::connect(socketPath(), std::chrono::seconds(5));
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
    const timeval limit{5, 0};
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
};

TEST_F(HolderServerTest, MountsOnceAndGivesTheSameMountAgain) {
  const auto client = connect("a");
  const HolderMountRequest request{.target = mnt(), .source = "llama", .blob = "digest"};
  const auto first = client->mount(request);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->record.epoch, 1U);
  EXPECT_TRUE(mounted(mnt()));
  const auto second = client->mount(request);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->record.minor, first->record.minor);
  std::ifstream knob("/sys/class/bdi/0:" + std::to_string(first->record.minor) + "/read_ahead_kb");
  int readAhead = 0;
  knob >> readAhead;
  EXPECT_EQ(readAhead, 4096);
  EXPECT_EQ(client->mount({.target = mnt(), .source = "other"}).code(), ErrorCode::kInUse);
  EXPECT_TRUE(client->unmount(mnt(), false).ok());
  EXPECT_FALSE(mounted(mnt()));
  EXPECT_EQ(client->unmount(mnt(), false).code(), ErrorCode::kNotFound);
}

TEST_F(HolderServerTest, NextAgentGetsMountsStateAndAHigherEpoch) {
  auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "llama", .blob = "digest"}).ok());
  ASSERT_TRUE(client->saveState(mnt(), "negotiated").ok());
  const auto rival = HolderClient::connect(socketPath());
  EXPECT_EQ((*rival)->attach("a").code(), ErrorCode::kInUse);
  client.reset();
  const auto mounts = (*rival)->attach("a");
  ASSERT_TRUE(mounts.ok()) << mounts.error().message;
  ASSERT_EQ(mounts->size(), 1U);
  EXPECT_EQ(mounts->front().record.epoch, 2U);
  EXPECT_EQ(mounts->front().record.blob, "digest");
  EXPECT_EQ(mounts->front().record.state, "negotiated");
  EXPECT_TRUE(mounts->front().device);
  EXPECT_TRUE(mounts->front().shared);
  const auto other = connect("b");
  EXPECT_EQ(other->saveState(mnt(), "x").code(), ErrorCode::kNotFound);
  const auto list = other->list();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1U);
  EXPECT_TRUE(list->front().attached);
}

TEST_F(HolderServerTest, RefusesMountPointsThatCannotBeUsed) {
  const auto client = connect("a");
  EXPECT_EQ(client->mount({.target = "relative"}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(client->mount({.target = mnt() + "/absent"}).code(), ErrorCode::kNotFound);
  const std::string file = (root_ / "file").string();
  std::ofstream(file) << "x";
  EXPECT_EQ(client->mount({.target = file}).code(), ErrorCode::kInvalidArgument);
  ASSERT_EQ(::mount("tmpfs", mnt().c_str(), "tmpfs", 0, nullptr), 0);
  const auto busy = client->mount({.target = mnt(), .source = "x"});
  EXPECT_EQ(busy.code(), ErrorCode::kInUse);
  EXPECT_NE(busy.error().message.find("tmpfs"), std::string::npos);
  EXPECT_EQ(umount2(mnt().c_str(), MNT_DETACH), 0);
  const auto stranger = HolderClient::connect(socketPath());
  EXPECT_EQ((*stranger)->mount({.target = mnt()}).code(), ErrorCode::kInvalidArgument);
}

TEST_F(HolderServerTest, BusyMountsGoOnlyByForce) {
  const auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "x"}).ok());
  const OwnedFd user(open(mnt().c_str(), O_PATH | O_CLOEXEC));
  EXPECT_EQ(client->unmount(mnt(), false).code(), ErrorCode::kInUse);
  EXPECT_TRUE(client->unmount(mnt(), true).ok());
  EXPECT_FALSE(mounted(mnt()));
}

TEST_F(HolderServerTest, ReplacesAMountWhoseHolderIsGone) {
  {
    auto lost = mountFuse(calls_, mnt(), {.source = "stale"});
    ASSERT_TRUE(lost.ok()) << lost.error().message;
  }
  ASSERT_TRUE(mounted(mnt()));
  const auto client = connect("a");
  const auto fresh = client->mount({.target = mnt(), .source = "fresh"});
  EXPECT_TRUE(fresh.ok()) << fresh.error().message;
}

TEST_F(HolderServerTest, KeepsOffMountsThatAnotherHolderServes) {
  const auto other = mountFuse(calls_, mnt(), {.source = "theirs"});  // alive, and answers nothing
  ASSERT_TRUE(other.ok());
  const auto client = connect("a");
  EXPECT_EQ(client->mount({.target = mnt(), .source = "ours"}).code(), ErrorCode::kInUse);
  EXPECT_TRUE(mounted(mnt()));
}

TEST_F(HolderServerTest, SurvivesMessagesOfAnyKind) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const OwnedFd raw = connectRaw();
    std::vector<char> bytes(1 + random() % 40000);
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) continue;
    std::vector<std::byte> reply(kMaxHolderMessage);
    const ssize_t size = recv(raw.get(), reply.data(), reply.size(), 0);
    ASSERT_GT(size, 0);
    const auto decoded = decodeHolderReply(std::span(reply).first(static_cast<std::size_t>(size)));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->code, ErrorCode::kProtocolError);
    EXPECT_EQ(recv(raw.get(), reply.data(), reply.size(), 0), 0);  // closed
  }
  EXPECT_TRUE(connect()->list().ok());
}

TEST_F(HolderServerTest, AClientThatNeverReadsHoldsNobodyUp) {
  const OwnedFd raw = connectRaw();
  const auto request = encode(HolderRequest{});
  for (int i = 0; i < 5000; ++i) {
    if (send(raw.get(), request.data(), request.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) break;
  }
  EXPECT_TRUE(connect()->list().ok());
}

TEST_F(HolderServerTest, SocketIsForItsUserOnly) {
  struct stat info {};
  ASSERT_EQ(stat(socketPath().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  // Even where the mode lets somebody through.
  ASSERT_EQ(chmod(socketPath().c_str(), 0666), 0);
  ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
  const std::string path = socketPath();
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(65534) != 0) _exit(3);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) _exit(4);
    std::byte bytes[4096];
    const ssize_t size = recv(fd, bytes, sizeof bytes, 0);
    if (size <= 0) _exit(5);
    const auto reply = decodeHolderReply(std::span(bytes, static_cast<std::size_t>(size)));
    _exit(reply.ok() && reply->code == ErrorCode::kPermissionDenied ? 0 : 6);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(HolderServerTest, ThereIsOneHolderASocket) {
  const auto second = HolderServer::create({.socketPath = socketPath()});
  EXPECT_EQ(second.code(), ErrorCode::kInUse);
  EXPECT_TRUE(connect()->list().ok());
}

TEST_F(HolderServerTest, ClientsSayWhenThereIsNoHolder) {
  EXPECT_EQ(HolderClient::connect((root_ / "none").string()).code(), ErrorCode::kUnavailable);
  const auto client = connect("a");
  server_->stop();
  thread_.join();
  server_.reset();
  EXPECT_FALSE(client->list().ok());
  EXPECT_FALSE(client->list().ok());
}

TEST_F(HolderServerTest, TheProgramDetachesItsMountsWhenToldToEnd) {
  const auto volumes = root_ / "volumes";
  const auto view = volumes / "mounts" / "m1" / "view";
  for (const auto& folder : {volumes / "run", view, volumes / "mounts" / "m2" / "fuse",
                             volumes / "published", root_ / "cache", root_ / "pod"}) {
    std::filesystem::create_directories(folder);
  }
  std::ofstream(root_ / "cache" / "file") << "bytes";
  std::ofstream(volumes / "published" / "record.json") << "{}";
  // Shared, as a folder of the host with mountPropagation Bidirectional.
  for (const auto& folder : {volumes, root_ / "pod"}) {
    ASSERT_EQ(::mount(folder.c_str(), folder.c_str(), nullptr, MS_BIND, nullptr), 0);
    ASSERT_EQ(::mount(nullptr, folder.c_str(), nullptr, MS_SHARED, nullptr), 0);
  }
  ASSERT_EQ(::mount((root_ / "cache").c_str(), view.c_str(), nullptr, MS_BIND, nullptr), 0);
  // As csi-node gives it to a pod, which reads on.
  ASSERT_EQ(::mount(view.c_str(), (root_ / "pod").c_str(), nullptr, MS_BIND, nullptr), 0);
  const std::string path = (volumes / "run" / "s").string();
  std::string program = HEARTH_HOLDER_PROGRAM;
  std::string socketFlag = "--socket";
  std::string socketValue = path;
  std::string volumesFlag = "--volumes";
  std::string volumesValue = volumes.string();
  char* arguments[] = {program.data(),     socketFlag.data(),   socketValue.data(),
                       volumesFlag.data(), volumesValue.data(), nullptr};
  pid_t pid = 0;
  ASSERT_EQ(posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, environ), 0);
  auto client = HolderClient::connect(path);
  for (int i = 0; i < 300 && !client.ok(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    client = HolderClient::connect(path);
  }
  EXPECT_TRUE(client.ok());
  if (client.ok()) {
    EXPECT_TRUE((*client)->attach("a").ok());
    EXPECT_TRUE((*client)->mount({.target = mnt(), .source = "x"}).ok());
    EXPECT_TRUE(mounted(mnt()));
    const std::string target = (volumes / "mounts" / "m2" / "fuse").string();
    EXPECT_TRUE((*client)->mount({.target = target, .source = "y"}).ok());
  }
  struct stat info {};
  EXPECT_EQ(stat((volumes / "run").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U) << "the kubelet makes it 0755";
  std::ifstream open(view / "file");
  client = Error{ErrorCode::kCancelled, "agents end before the holder"};
  kill(pid, SIGTERM);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(mounted(mnt()));
  const auto rows = readMountInfo();
  ASSERT_TRUE(rows.ok());
  for (const MountInfoRow& row : *rows)
    EXPECT_FALSE(row.target.starts_with((volumes / "mounts").string()));
  EXPECT_TRUE(std::filesystem::is_empty(volumes / "mounts"));
  EXPECT_TRUE(std::filesystem::exists(volumes / "published" / "record.json"));
  std::string bytes;
  EXPECT_TRUE(open >> bytes);
  EXPECT_EQ(bytes, "bytes") << "what is open stays readable";
  {
    std::ifstream ofPod(root_ / "pod" / "file");
    EXPECT_TRUE(ofPod >> bytes) << "and so does what a pod has been given";
  }
  open.close();
  for (const auto& folder : {root_ / "pod", root_ / "pod", volumes}) {
    EXPECT_EQ(umount2(folder.c_str(), 0), 0);
  }
}

TEST_F(HolderServerTest, SaysWhoItIsAndWhatItCannotDo) {
  const auto client = connect();
  EXPECT_EQ(client->holder().features, kHolderFeatures);
  EXPECT_EQ(client->holder().newestVersion, kHolderVersion);
  EXPECT_NE(client->holder().instance, 0U);
  const OwnedFd raw = connectRaw();
  HolderRequest unknown;
  unknown.kind = static_cast<HolderRequestKind>(999);
  std::vector<std::byte> reply(kMaxHolderMessage);
  // Twice: whoever asks for what this holder does not know stays connected.
  for (int round = 0; round < 2; ++round) {
    const auto bytes = encode(unknown);
    ASSERT_GT(send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
    const ssize_t size = recv(raw.get(), reply.data(), reply.size(), 0);
    ASSERT_GT(size, 0);
    const auto decoded = decodeHolderReply(std::span(reply).first(static_cast<std::size_t>(size)));
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->code, ErrorCode::kUnsupported);
  }
}

TEST_F(HolderServerTest, MountsTakeFlagsAndOnlyKnownOptions) {
  const auto client = connect("a");
  EXPECT_EQ(client->mount({.target = mnt(), .source = "x", .options = {"fd=7"}}).code(),
            ErrorCode::kUnsupported);
  EXPECT_FALSE(mounted(mnt()));
  const auto held = client->mount({.target = mnt(), .source = "x", .writable = true});
  ASSERT_TRUE(held.ok()) << held.error().message;
  EXPECT_EQ(held->record.flags, kHolderWritable);
  EXPECT_EQ(client->mount({.target = mnt(), .source = "x"}).code(), ErrorCode::kInUse)
      << "another mount: read-only";
}

TEST_F(HolderServerTest, AnAgentGivesItsMountToTheNextHolder) {
  auto client = connect("a");
  auto held = client->mount({.target = mnt(), .source = "llama", .blob = "digest"});
  ASSERT_TRUE(held.ok()) << held.error().message;
  held->record.state = "negotiated";
  held->record.epoch = 7;
  endServer();  // while the agent serves on
  EXPECT_FALSE(client->alive());
  EXPECT_TRUE(mounted(mnt())) << "nobody but the agent has its descriptor";
  startServer();
  client = connect();
  ASSERT_TRUE(client->reattach("a").ok());
  ASSERT_TRUE(client->enroll(*held).ok());
  EXPECT_TRUE(client->enroll(*held).ok()) << "once more changes nothing";
  HeldMount elsewhere{held->record, OwnedFd(dup(held->device.get())),
                      OwnedFd(dup(held->shared.get()))};
  elsewhere.record.target = root_.string();
  EXPECT_EQ(client->enroll(elsewhere).code(), ErrorCode::kNotFound);
  HeldMount nonsense{held->record, OwnedFd(dup(held->shared.get())),
                     OwnedFd(dup(held->shared.get()))};
  EXPECT_EQ(client->enroll(nonsense).code(), ErrorCode::kInvalidArgument);
  held = Error{ErrorCode::kCancelled, "the agent ends"};
  client = connect();
  for (auto list = client->list(); list.ok() && !list->empty() && list->front().attached;) {
    list = client->list();
  }
  const auto next = client->attach("a");
  ASSERT_TRUE(next.ok()) << next.error().message;
  ASSERT_EQ(next->size(), 1U);
  EXPECT_EQ(next->front().record.epoch, 8U);
  EXPECT_EQ(next->front().record.state, "negotiated");
  EXPECT_EQ(next->front().record.blob, "digest");
  EXPECT_TRUE(mounted(mnt()));
}

TEST_F(HolderServerTest, ASuccessorGetsEverything) {
  auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "llama", .blob = "digest"}).ok());
  ASSERT_TRUE(client->saveState(mnt(), "negotiated").ok());
  const OwnedFd arena = memory(4096);
  ASSERT_TRUE(client->keepMemory({.name = "arena", .bytes = 4096, .generation = 2}, arena).ok());
  auto next = HolderServer::create({.socketPath = socketPath(), .takeOver = true});
  ASSERT_TRUE(next.ok()) << next.error().message;
  thread_.join();  // the one before ends by itself
  server_ = std::move(*next);
  thread_ = std::thread([this] { server_->run(); });
  EXPECT_TRUE(mounted(mnt()));
  client = connect();
  const auto mounts = client->attach("a");
  ASSERT_TRUE(mounts.ok()) << mounts.error().message;
  ASSERT_EQ(mounts->size(), 1U);
  EXPECT_EQ(mounts->front().record.epoch, 2U);
  EXPECT_EQ(mounts->front().record.state, "negotiated");
  const auto kept = client->takeMemory("arena");
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_EQ(kept->record.generation, 2U);
}

TEST_F(HolderServerTest, ASuccessorThatDoesNotFinishChangesNothing) {
  const auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "llama"}).ok());
  {
    const auto successor = HolderClient::connect(socketPath());
    const auto all = (*successor)->handOver();
    ASSERT_TRUE(all.ok()) << all.error().message;
    EXPECT_EQ(all->mounts.size(), 1U);
  }
  EXPECT_TRUE(client->saveState(mnt(), "still here").ok());
}

// Else what one client says by mistake would cost all agents their mounts.
TEST_F(HolderServerTest, WhoHasTakenNothingOverEndsNothing) {
  const auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "llama"}).ok());
  EXPECT_EQ(connect()->finishHandOver().code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(client->saveState(mnt(), "still here").ok());
}

// An agent that asks for a hand-over is cut off with it, and its owner is free again.
TEST_F(HolderServerTest, AnAgentThatTakesOverInVainIsNoAgentAnyMore) {
  endServer();
  auto server = HolderServer::create(
      {.socketPath = socketPath(), .handOverPatience = std::chrono::milliseconds(20)});
  ASSERT_TRUE(server.ok()) << server.error().message;
  server_ = std::move(*server);
  thread_ = std::thread([this] { server_->run(); });
  const auto client = connect("a");
  ASSERT_TRUE(client->handOver().ok());
  client->waitForEnd();
  EXPECT_TRUE(connect()->attach("a").ok());
}

TEST_F(HolderServerTest, KeepsMemoryForTheNextAgent) {
  auto client = connect("a");
  const OwnedFd first = memory(8192);
  const OwnedFd second = memory(4096);
  ASSERT_EQ(pwrite(second.get(), "bytes", 5, 0), 5);
  EXPECT_TRUE(client->keepMemory({.name = "arena", .bytes = 8192, .generation = 1}, first).ok());
  EXPECT_EQ(client->keepMemory({.name = "arena", .bytes = 4096, .generation = 1}, second).code(),
            ErrorCode::kConflict);
  EXPECT_EQ(client->keepMemory({.name = "arena", .bytes = 1, .generation = 2}, second).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(client->keepMemory({.name = "arena", .bytes = 4096, .generation = 2}, second).ok());
  EXPECT_TRUE(client->keepMemory({.name = "other", .bytes = 8192, .generation = 1}, first).ok());
  client = connect("b");
  EXPECT_EQ(client->takeMemory("arena").code(), ErrorCode::kNotFound) << "of another owner";
  client = connect("a");
  const auto list = client->listMemory();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 2U);
  const auto kept = client->takeMemory("arena");
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_EQ(kept->record.generation, 2U);
  char bytes[5];
  ASSERT_EQ(pread(kept->descriptor.get(), bytes, 5, 0), 5);
  EXPECT_EQ(std::string(bytes, 5), "bytes");
  EXPECT_TRUE(client->dropMemory("arena").ok());
  EXPECT_EQ(client->takeMemory("arena").code(), ErrorCode::kNotFound);
}

TEST_F(HolderServerTest, OpensBackingFilesOnlyOnMountsOfTheAsker) {
  const auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "x"}).ok());
  const OwnedFd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const auto stranger = connect("b");
  EXPECT_EQ(stranger->openBacking(mnt(), file).code(), ErrorCode::kNotFound);
  // Nobody has answered FUSE_INIT: the kernel refuses, and says so through the holder.
  const auto early = client->openBacking(mnt(), file);
  ASSERT_FALSE(early.ok());
  EXPECT_NE(early.error().message.find("passthrough of a file on"), std::string::npos);
  EXPECT_TRUE(client->closeBacking(mnt(), 1).ok());
}

TEST_F(HolderServerTest, WhetherTheHolderLivesIsToldWhileACallWaits) {
  // A holder that takes connections and answers nobody but the greeting.
  endServer();
  const OwnedFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto address = holderAddress(socketPath());
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  OwnedFd peer;
  std::thread silent([&] {
    peer.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    (void)receiveDatagram(peer.get(), 0);
    HolderReply reply;
    reply.sequence = 1;
    reply.hello.emplace();
    (void)sendDatagram(peer.get(), encode(reply), {}, 0);
  });
  const auto client = HolderClient::connect(socketPath(), std::chrono::seconds(30));
  silent.join();
  ASSERT_TRUE(client.ok()) << client.error().message;
  std::thread waiting([&] { EXPECT_FALSE((*client)->list().ok()); });
  // The call has been sent, so the thread waits for its answer.
  EXPECT_TRUE(receiveDatagram(peer.get(), 0).ok());
  const auto began = std::chrono::steady_clock::now();
  EXPECT_TRUE((*client)->alive());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(15));
  peer.reset();
  waiting.join();
  EXPECT_FALSE((*client)->alive());
}

TEST_F(HolderServerTest, TheProgramTellsWhetherAHolderAnswers) {
  const auto check = [](std::string path) {
    std::string program = HEARTH_HOLDER_PROGRAM;
    std::string checkFlag = "--check";
    std::string socketFlag = "--socket";
    char* arguments[] = {program.data(), checkFlag.data(), socketFlag.data(), path.data(), nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, environ), 0);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  EXPECT_EQ(check(socketPath()), 0);
  EXPECT_EQ(check((root_ / "none").string()), 1);
  const auto client = connect("a");
  ASSERT_TRUE(client->mount({.target = mnt(), .source = "x"}).ok());
  EXPECT_EQ(check(socketPath()), 0) << "nobody serves the mount";
}

TEST_F(HolderServerTest, WhatCannotBeTakenAwayIsLeftAsItIs) {
  const auto mounts = root_ / "volumes" / "mounts";
  EXPECT_TRUE(detachLeftMounts(calls_, mounts.string()).empty()) << "no such folder";
  std::filesystem::create_directories(mounts / "m1" / "view");
  std::ofstream(mounts / "m1" / "file") << "of somebody";
  EXPECT_TRUE(detachLeftMounts(calls_, mounts.string()).empty());
  EXPECT_FALSE(std::filesystem::exists(mounts / "m1" / "view"));
  EXPECT_TRUE(std::filesystem::exists(mounts / "m1" / "file"));
}

}  // namespace
}  // namespace hearth
