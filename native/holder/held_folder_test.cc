// Folders of files in memory that the holder makes and keeps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "holder/holder_socket.h"
#include "holder/testing/holder_fixture.h"
#include "holder/testing/other_process.h"

namespace hearth {
namespace {

constexpr std::uint64_t kFolderMiB = 1U << 20;

class HeldFolderTest : public holder_testing::HolderTest {
 protected:
  void restart(HolderOptions options) {
    endServer();
    options.callDeadline = 2 * kHang;
    startServer(std::move(options));
  }
  // The next holder, which gets everything of the present one.
  void takeOver(HolderOptions options = {}) {
    options.socketPath = socketPath();
    options.takeOver = true;
    auto next = HolderServer::create(std::move(options));
    ASSERT_TRUE(next.ok()) << next.error().message;
    thread_.join();
    server_ = std::move(*next);
    thread_ = std::thread([this] { server_->run(); });
  }
  std::unique_ptr<HolderClient> agent() {
    auto client = connect();
    EXPECT_TRUE(eventually([&] { return client->attach("a").ok(); }));
    return client;
  }
  static KeptMemory openIn(HolderClient& client, std::uint64_t bytes) {
    auto folder = client.openFolder("files", bytes);
    EXPECT_TRUE(folder.ok()) << folder.error().message;
    return folder.ok() ? std::move(*folder) : KeptMemory();
  }
  static std::string pathIn(const KeptMemory& folder, const std::string& name) {
    return "/proc/self/fd/" + std::to_string(folder.descriptor.get()) + "/" + name;
  }
  static OwnedFd create(const KeptMemory& folder, const std::string& name, std::uint64_t bytes,
                        int flags = O_WRONLY) {
    OwnedFd file(open(pathIn(folder, name).c_str(), flags | O_CREAT | O_EXCL | O_CLOEXEC, 0444));
    EXPECT_TRUE(file) << std::strerror(errno);
    EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    return file;
  }
  static void write(const KeptMemory& folder, const std::string& name, const std::string& text) {
    const OwnedFd file = create(folder, name, text.size());
    EXPECT_EQ(pwrite(file.get(), text.data(), text.size(), 0), std::ssize(text));
  }
  static std::string textOf(const KeptMemory& folder, const std::string& name) {
    const OwnedFd file(open(pathIn(folder, name).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return std::strerror(errno);
    char text[64] = {};
    const ssize_t size = read(file.get(), text, sizeof text);
    return size < 0 ? std::strerror(errno) : std::string(text, static_cast<std::size_t>(size));
  }
  static std::uint64_t roomOf(const OwnedFd& file) {
    struct stat about {};
    EXPECT_EQ(fstat(file.get(), &about), 0);
    return static_cast<std::uint64_t>(about.st_blocks) * 512;
  }
};

TEST_F(HeldFolderTest, HasItsFilesForTheNextAgent) {
  {
    const auto client = agent();
    const KeptMemory folder = openIn(*client, 8 * kFolderMiB);
    EXPECT_TRUE(folder.record.folder);
    EXPECT_EQ(folder.record.bytes, 8 * kFolderMiB);
    EXPECT_FALSE(folder.record.touched);
    write(folder, "one", "first");
  }
  const auto client = agent();
  const auto list = client->listMemory();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1u);
  EXPECT_TRUE(list->front().folder);
  const auto taken = client->takeMemory("files");
  ASSERT_TRUE(taken.ok()) << taken.error().message;
  EXPECT_EQ(textOf(*taken, "one"), "first");
  EXPECT_EQ(textOf(openIn(*client, 8 * kFolderMiB), "one"), "first");
  EXPECT_EQ(connect("b")->takeMemory("files").code(), ErrorCode::kNotFound);
  ASSERT_TRUE(client->dropMemory("files").ok());
  EXPECT_EQ(textOf(*taken, "one"), "first") << "as long as anyone has it";
  EXPECT_EQ(textOf(openIn(*client, 8 * kFolderMiB), "one"), std::strerror(ENOENT));
}

TEST_F(HeldFolderTest, IsResized) {
  const auto client = agent();
  const KeptMemory folder = openIn(*client, 2 * kFolderMiB);
  const OwnedFd file = create(folder, "one", 4 * kFolderMiB);
  EXPECT_EQ(openIn(*client, 4 * kFolderMiB - 1).record.bytes, 4 * kFolderMiB);
  ASSERT_EQ(fallocate(file.get(), 0, 0, 4 * kFolderMiB), 0);
  EXPECT_EQ(client->openFolder("files", 2 * kFolderMiB).code(), ErrorCode::kOutOfSpace);
  EXPECT_EQ(client->openFolder("files", 0).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(client->openFolder("", kFolderMiB).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(client->takeMemory("files")->record.bytes, 4 * kFolderMiB);
  ASSERT_TRUE(
      client->keepMemory({.name = "arena", .bytes = 4096, .generation = 1}, memory(4096)).ok());
  EXPECT_EQ(client->openFolder("arena", kFolderMiB).code(), ErrorCode::kConflict);
  EXPECT_EQ(connect()->openFolder("files", kFolderMiB).code(), ErrorCode::kInvalidArgument);
}

// The first holder has ended and let go of everything.
TEST_F(HeldFolderTest, IsGivenToTheNextHolder) {
  auto client = agent();
  KeptMemory folder = openIn(*client, 2 * kFolderMiB);
  write(folder, "one", "first");
  // The record that the agent has is older than the size.
  openIn(*client, 4 * kFolderMiB);
  restart({});
  client = agent();
  ASSERT_TRUE(client->keepMemory(folder.record, folder.descriptor).ok());
  EXPECT_TRUE(client->keepMemory(folder.record, folder.descriptor).ok()) << "again";
  folder.descriptor.reset();
  client.reset();
  client = agent();
  const KeptMemory taken = openIn(*client, 4 * kFolderMiB);
  EXPECT_TRUE(taken.record.folder);
  EXPECT_EQ(taken.record.bytes, 4 * kFolderMiB);
  EXPECT_EQ(textOf(taken, "one"), "first");
}

TEST_F(HeldFolderTest, IsHandedOver) {
  restart({.touchBytes = 64 * kFolderMiB});
  {
    const auto client = agent();
    const KeptMemory folder = openIn(*client, 8 * kFolderMiB);
    write(folder, "one", "first");
    ASSERT_TRUE(client->touchFile("files", create(folder, "two", 4096), 0, 4096).ok());
  }
  takeOver();
  const auto client = agent();
  const auto taken = client->takeMemory("files");
  ASSERT_TRUE(taken.ok()) << taken.error().message;
  EXPECT_TRUE(taken->record.folder);
  EXPECT_TRUE(taken->record.touched);
  EXPECT_EQ(textOf(*taken, "one"), "first");
  EXPECT_EQ(openIn(*client, 16 * kFolderMiB).record.bytes, 16 * kFolderMiB) << "by the next one";
}

TEST_F(HeldFolderTest, GoesWhenItsOwnerStaysAway) {
  std::atomic<bool> dropped{false};
  restart({.agentAbsence = std::chrono::seconds(1), .log = [&](const std::string& line) {
             if (line.find("dropped 1 memories of 'a'") != std::string::npos) dropped = true;
           }});
  openIn(*agent(), kFolderMiB);
  EXPECT_TRUE(eventually([&] { return dropped.load(); }));
  EXPECT_TRUE(agent()->listMemory()->empty());
  endServer();
}

TEST_F(HeldFolderTest, OnlyFoldersAreKeptAsSuch) {
  const auto client = agent();
  const KeptMemory folder = openIn(*client, kFolderMiB);
  ASSERT_EQ(mkdirat(folder.descriptor.get(), "below", 0700), 0);
  const HolderMemory record{.name = "other", .bytes = kFolderMiB, .generation = 1, .folder = true};
  const auto keep = [&](const OwnedFd& descriptor) {
    return client->keepMemory(record, descriptor).code();
  };
  EXPECT_EQ(keep(memory(kFolderMiB)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(keep(OwnedFd(open("/proc", O_PATH | O_CLOEXEC))), ErrorCode::kInvalidArgument);
  EXPECT_EQ(keep(OwnedFd(openat(folder.descriptor.get(), "below", O_PATH | O_CLOEXEC))),
            ErrorCode::kInvalidArgument);
  HolderMemory file = record;
  file.folder = false;
  EXPECT_EQ(client->keepMemory(file, folder.descriptor).code(), ErrorCode::kInvalidArgument);
}

TEST_F(HeldFolderTest, HasFilesWhoseRoomTheHolderTakes) {
  restart({.touchBytes = 64 * kFolderMiB});
  const auto client = agent();
  const KeptMemory folder = openIn(*client, 32 * kFolderMiB);
  const OwnedFd file = create(folder, "one", 16 * kFolderMiB + 5);
  const auto huge = client->touchFile("files", file, 0, 16 * kFolderMiB + 5, 4 * kFolderMiB);
  ASSERT_TRUE(huge.ok()) << huge.error().message;
  EXPECT_EQ(roomOf(file), 16 * kFolderMiB + 4096);
  EXPECT_LE(*huge, 16 * kFolderMiB);
  EXPECT_EQ(*huge % (2 * kFolderMiB), 0u);
  EXPECT_TRUE(client->touchFile("files", file, 0, 16 * kFolderMiB).ok()) << "again";
  EXPECT_EQ(roomOf(file), 16 * kFolderMiB + 4096);
  const OwnedFd both = create(folder, "two", 4096, O_RDWR);
  EXPECT_TRUE(client->touchFile("files", both, 0, 4096).ok());
  EXPECT_TRUE(client->takeMemory("files")->record.touched);
}

TEST_F(HeldFolderTest, HasNoRoomForMoreThanItsSize) {
  restart({.touchBytes = 64 * kFolderMiB});
  const auto client = agent();
  const KeptMemory folder = openIn(*client, 4 * kFolderMiB);
  const OwnedFd file = create(folder, "one", 8 * kFolderMiB);
  EXPECT_TRUE(client->touchFile("files", file, 0, 4 * kFolderMiB).ok());
  const auto refused = client->touchFile("files", file, 4 * kFolderMiB, 4 * kFolderMiB);
  EXPECT_EQ(refused.code(), ErrorCode::kOutOfSpace);
  openIn(*client, 8 * kFolderMiB);
  EXPECT_TRUE(client->touchFile("files", file, 4 * kFolderMiB, 4 * kFolderMiB).ok());
}

TEST_F(HeldFolderTest, CountsAsTouchedMemory) {
  restart({.touchBytes = 16 * kFolderMiB});
  const auto client = agent();
  const OwnedFd arena = memory(8 * kFolderMiB);
  ASSERT_TRUE(
      client->keepMemory({.name = "arena", .bytes = 8 * kFolderMiB, .generation = 1}, arena).ok());
  ASSERT_TRUE(client->touchMemory("arena", 0, 8 * kFolderMiB).ok());
  const KeptMemory folder = openIn(*client, 12 * kFolderMiB);
  const OwnedFd file = create(folder, "one", kFolderMiB);
  EXPECT_EQ(client->touchFile("files", file, 0, kFolderMiB).code(), ErrorCode::kOutOfSpace);
  openIn(*client, 8 * kFolderMiB);
  EXPECT_TRUE(client->touchFile("files", file, 0, kFolderMiB).ok());
  restart({});
  const auto other = agent();
  ASSERT_TRUE(other->keepMemory(folder.record, folder.descriptor).ok());
  EXPECT_EQ(other->touchFile("files", file, 0, kFolderMiB).code(), ErrorCode::kUnsupported);
}

TEST_F(HeldFolderTest, TouchesNothingButItsFiles) {
  restart({.touchBytes = 64 * kFolderMiB});
  const auto client = agent();
  const KeptMemory folder = openIn(*client, 8 * kFolderMiB);
  const auto other = client->openFolder("others", 8 * kFolderMiB);
  ASSERT_TRUE(other.ok());
  const OwnedFd file = create(folder, "one", kFolderMiB),
                foreign = create(*other, "one", kFolderMiB);
  const auto code = [&](const OwnedFd& given, std::uint64_t offset, std::uint64_t bytes) {
    return client->touchFile("files", given, offset, bytes, ~std::uint64_t{0}).code();
  };
  EXPECT_EQ(code(foreign, 0, 4096), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(memory(kFolderMiB), 0, 4096), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(folder.descriptor, 0, 4096), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(OwnedFd(open(pathIn(folder, "one").c_str(), O_RDONLY | O_CLOEXEC)), 0, 4096),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(OwnedFd(open(pathIn(folder, "one").c_str(), O_PATH | O_CLOEXEC)), 0, 4096),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(file, kFolderMiB, 4096), ErrorCode::kInvalidArgument) << "behind its end";
  EXPECT_EQ(code(file, 1, 4096), ErrorCode::kInvalidArgument) << "not on a page";
  EXPECT_EQ(code(file, 0, 4095), ErrorCode::kInvalidArgument) << "neither a page nor to the end";
  EXPECT_EQ(code(file, ~std::uint64_t{0} - 4095, 8192), ErrorCode::kInvalidArgument);
  EXPECT_EQ(roomOf(file), 0u);
  EXPECT_EQ(roomOf(foreign), 0u);
  EXPECT_EQ(client->touchFile("none", file, 0, 4096).code(), ErrorCode::kNotFound);
  EXPECT_EQ(client->touchMemory("files", 0, 4096).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(connect()->touchFile("files", file, 0, 4096).code(), ErrorCode::kInvalidArgument);
}

TEST_F(HeldFolderTest, IsMissingFromAHolderOfTheReleaseBefore) {
  endServer();
  const OwnedFd listener = holder_testing::listeningAt(socketPath());
  OwnedFd peer;
  std::thread before([&] {
    peer.reset(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    (void)receiveDatagram(peer.get(), 0);
    HolderReply reply;
    reply.sequence = 1;
    reply.hello = HolderHello{.features = {0x1ff, 0}};
    (void)sendDatagram(peer.get(), encode(reply), {}, 0);
  });
  const auto client = HolderClient::connect(socketPath(), kHang);
  before.join();
  ASSERT_TRUE(client.ok()) << client.error().message;
  const auto refused = (*client)->openFolder("files", kFolderMiB);
  EXPECT_EQ(refused.code(), ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().message.find("folders"), std::string::npos);
  const OwnedFd file = memory(4096);
  EXPECT_EQ((*client)->touchFile("files", file, 0, 4096).code(), ErrorCode::kUnsupported);
  EXPECT_EQ((*client)->keepMemory({.name = "files", .folder = true}, file).code(),
            ErrorCode::kUnsupported);
  EXPECT_TRUE((*client)->alive()) << "it was not asked";
}

}  // namespace
}  // namespace hearth
