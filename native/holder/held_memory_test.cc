// Memory that outlives its agent.
#include "holder/held_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "holder/testing/holder_fixture.h"
#include "holder/testing/other_process.h"

namespace hearth {
namespace {

class HeldMemoryTest : public holder_testing::HolderTest {};

TEST_F(HeldMemoryTest, KeepsMemoryForTheNextAgent) {
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

// A process that attaches as "a", keeps memory, closes its connection and lives on.
class LingeringAgent {
 public:
  LingeringAgent(const std::string& socketPath, const OwnedFd& memory) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const OwnedFd from(ends[0]);
    OwnedFd to(ends[1]);
    pid_ = fork();
    if (pid_ == 0) {
      auto client = HolderClient::connect(socketPath);
      const bool kept =
          client.ok() && (*client)->attach("a").ok() &&
          (*client)->keepMemory({.name = "arena", .bytes = 4096, .generation = 1}, memory).ok();
      if (client.ok()) client->reset();
      if (!kept || write(to.get(), "k", 1) != 1) _exit(1);
      pause();
      _exit(0);
    }
    to.reset();
    char kept = 0;
    EXPECT_EQ(read(from.get(), &kept, 1), 1) << "it could not keep memory";
  }
  ~LingeringAgent() { end(); }
  LingeringAgent(const LingeringAgent&) = delete;
  LingeringAgent& operator=(const LingeringAgent&) = delete;
  void end() { holder_testing::endChild(pid_); }

 private:
  pid_t pid_ = 0;
};

// Its threads may write into the memory until it has ended, whatever its connection does.
TEST_F(HeldMemoryTest, SaysWhetherTheProcessBeforeHasEnded) {
  const OwnedFd arena = memory(4096);
  LingeringAgent before(socketPath(), arena);
  std::unique_ptr<HolderClient> client = connect();
  ASSERT_TRUE(eventually([&] { return client->attach("a").ok(); }));
  EXPECT_NE(client->holder().features[0] & kHolderWatchesUsers, 0u);
  const auto kept = client->takeMemory("arena");
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_TRUE(kept->record.attached);
  EXPECT_FALSE(kept->record.usersGone);
  before.end();
  EXPECT_TRUE(client->takeMemory("arena")->record.usersGone);
  EXPECT_TRUE(client->listMemory()->front().usersGone);
  // This process connects once more: as another agent it has been one before, and lives.
  client = connect();
  ASSERT_TRUE(eventually([&] { return client->reattach("a").ok(); }));
  EXPECT_TRUE(client->takeMemory("arena")->record.usersGone) << "it continues";
  client = connect();
  ASSERT_TRUE(eventually([&] { return client->attach("a").ok(); }));
  EXPECT_FALSE(client->takeMemory("arena")->record.usersGone);
}

}  // namespace
}  // namespace hearth
