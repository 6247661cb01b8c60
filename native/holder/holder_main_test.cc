// The program, as the container runtime starts and ends it.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "holder/testing/holder_fixture.h"

extern char** environ;

namespace hearth {
namespace {

class HolderMainTest : public holder_testing::HolderTest {};

TEST_F(HolderMainTest, TheProgramDetachesItsMountsOnSigterm) {
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
  EXPECT_TRUE(eventually([&] {
    if (!client.ok()) client = HolderClient::connect(path);
    return client.ok();
  }));
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

TEST_F(HolderMainTest, TheProgramTouchesAsMuchMemoryAsItIsGiven) {
  endServer();
  const auto start = [this](std::string bytes) {
    std::string program = HEARTH_HOLDER_PROGRAM;
    std::string socketFlag = "--socket", socketValue = socketPath(), bytesFlag = "--arena-bytes";
    char* arguments[] = {program.data(),   socketFlag.data(), socketValue.data(),
                         bytesFlag.data(), bytes.data(),      nullptr};
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments, environ), 0);
    return pid;
  };
  const auto end = [](pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  for (const char* wrong : {"-1", "8M", "", "99999999999999999999"})
    EXPECT_EQ(end(start(wrong)), 2) << wrong;
  const pid_t pid = start("8388608");
  auto client = HolderClient::connect(socketPath());
  EXPECT_TRUE(eventually([&] {
    if (!client.ok()) client = HolderClient::connect(socketPath());
    return client.ok();
  }));
  if (client.ok()) {
    EXPECT_EQ((*client)->holder().touchBytes, 8388608u);
    EXPECT_TRUE((*client)->attach("a").ok());
    const OwnedFd arena = memory(8388608);
    EXPECT_TRUE((*client)->keepMemory({.name = "arena", .bytes = 8388608}, arena).ok());
    const auto touched = (*client)->touchMemory("arena", 0, 8388608);
    EXPECT_TRUE(touched.ok()) << touched.error().message;
    struct stat info {};
    EXPECT_EQ(fstat(arena.get(), &info), 0);
    EXPECT_EQ(info.st_blocks * 512, 8388608);
  }
  client = Error{ErrorCode::kCancelled, "agents end before the holder"};
  kill(pid, SIGTERM);
  EXPECT_EQ(end(pid), 0);
}

TEST_F(HolderMainTest, TheProgramReportsWhetherAHolderAnswers) {
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
  EXPECT_EQ(check(socketPath()), 0) << "no process serves the mount";
}

}  // namespace
}  // namespace hearth
