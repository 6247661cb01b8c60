// An agent that reads requests and stops, and a holder that ends them.
#include "holder/unserved_requests.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <deque>
#include <functional>
#include <future>
#include <span>

#include "holder/fuse_backing.h"
#include "holder/fuse_mount.h"
#include "holder/mount_watch.h"
#include "holder/testing/holder_fixture.h"

namespace hearth {
namespace {

constexpr auto kShort = std::chrono::milliseconds(100);
constexpr auto kLong = std::chrono::minutes(10);

class UnservedRequestsTest : public holder_testing::HolderTest {
 protected:
  struct Message {
    fuse_in_header header{};
    [[nodiscard]] std::uint64_t number() const { return header.unique & ~kFuseUniqueResend; }
    [[nodiscard]] bool resent() const { return (header.unique & kFuseUniqueResend) != 0; }
  };

  void SetUp() override {
    HolderTest::SetUp();
    if (IsSkipped()) return;
    agent_ = connect("a");
    auto mounted = agent_->mount({.target = mnt(), .source = "volume", .writable = true});
    ASSERT_TRUE(mounted.ok()) << mounted.error().message;
    mount_.emplace(std::move(*mounted));
    watch_.emplace(MountWatch::map(mount_->shared).value());
    ASSERT_EQ(next().header.opcode, FUSE_INIT);
    fuse_init_out out{};
    out.major = 7;
    out.minor = 41;
    out.max_write = 4096;
    const std::uint64_t flags = FUSE_INIT_EXT | FUSE_PARALLEL_DIROPS | 1ULL << 39;
    out.flags = static_cast<std::uint32_t>(flags);
    out.flags2 = static_cast<std::uint32_t>(flags >> 32);
    ASSERT_TRUE(answer(last_, 0, out));
  }
  void TearDown() override {
    if (mount_) (void)abortFuseConnection(mount_->record.minor);
    programs_.clear();
    HolderTest::TearDown();
  }

  // The next request but those for attributes of the root; it stays unanswered.
  Message next() {
    Message message;
    const auto come = [&] {
      const ssize_t bytes = ::read(mount_->device.get(), buffer_.data(), buffer_.size());
      if (bytes < static_cast<ssize_t>(sizeof message.header)) return false;
      std::memcpy(&message.header, buffer_.data(), sizeof message.header);
      if (message.header.opcode != FUSE_GETATTR) return true;
      fuse_attr_out root{};
      root.attr_valid = 1000;
      root.attr.ino = 1;
      root.attr.nlink = 2;
      root.attr.mode = S_IFDIR | 0755;
      EXPECT_TRUE(answer(message, 0, root));
      return false;
    };
    EXPECT_TRUE(eventually(come));
    last_ = message;
    return message;
  }
  bool write(std::uint64_t unique, std::int32_t code, std::span<const std::byte> body) {
    fuse_out_header header{};
    header.len = static_cast<std::uint32_t>(sizeof header + body.size());
    header.error = code;
    header.unique = unique;
    const iovec parts[2] = {{&header, sizeof header},
                            {const_cast<std::byte*>(body.data()), body.size()}};
    return writev(mount_->device.get(), parts, body.empty() ? 1 : 2) ==
           static_cast<ssize_t>(header.len);
  }
  template <class T>
  bool answer(const Message& request, std::int32_t code, const T& body) {
    return write(request.header.unique, code, std::as_bytes(std::span(&body, 1)));
  }
  // It looks at its mounts after each of its clients' requests, before the next one.
  void holderLooks() {
    for (int requests = 0; requests < 2; ++requests) ASSERT_TRUE(agent_->list().ok());
  }
  // Makes a program's call in another thread; its errno.
  std::future<int>& call(std::function<int()> made) {
    return programs_.emplace_back(std::async(
        std::launch::async, [made = std::move(made)] { return made() < 0 ? errno : 0; }));
  }
  std::future<int>& lookUp(const std::string& name) {
    return call([path = mnt() + "/" + name] {
      struct stat info {};
      return ::stat(path.c_str(), &info);
    });
  }
  static bool ends(std::future<int>& program) {
    return program.wait_for(kHang) == std::future_status::ready;
  }

  std::array<std::byte, 1 << 17> buffer_{};
  std::unique_ptr<HolderClient> agent_;
  std::optional<HeldMount> mount_;
  std::optional<MountWatch> watch_;
  Message last_;
  std::deque<std::future<int>> programs_;  // that end with the connection
};

TEST_F(UnservedRequestsTest, ARequestThatAStoppedAgentHasReadEnds) {
  auto& program = lookUp("name");
  const Message request = next();
  ASSERT_EQ(request.header.opcode, FUSE_LOOKUP);
  watch_->serve(Clock::now(), kShort);
  ASSERT_TRUE(ends(program));
  EXPECT_EQ(program.get(), EIO);
  EXPECT_EQ(watch_->ended(), 1U);
  fuse_entry_out late{};
  late.nodeid = 2;
  late.attr.ino = 2;
  late.attr.mode = S_IFREG | 0644;
  EXPECT_FALSE(answer(request, 0, late));
  EXPECT_EQ(errno, ENOENT) << "the kernel knows no such request any more";
  // Nobody has read these.
  for (const char* const name : {"one", "two"}) {
    auto& other = lookUp(name);
    ASSERT_TRUE(ends(other));
    EXPECT_EQ(other.get(), EIO);
  }
  watch_->serve(Clock::now(), kLong);
  holderLooks();
  auto& served = lookUp("three");
  EXPECT_TRUE(write(next().header.unique, -ENOENT, {}));
  EXPECT_EQ(served.get(), ENOENT);
}

TEST_F(UnservedRequestsTest, AMountThatIsServedOrNotWatchedIsLeftAlone) {
  auto& program = lookUp("name");
  const Message request = next();
  holderLooks();
  watch_->serve(Clock::now(), kLong);
  holderLooks();
  EXPECT_TRUE(write(request.header.unique, -ENOENT, {}));
  EXPECT_EQ(program.get(), ENOENT);
  EXPECT_EQ(watch_->ended(), 0U);
}

TEST_F(UnservedRequestsTest, AReleaseIsLeftForTheAgent) {
  int file = -1;
  auto& program = call([&] { return file = ::open(mnt().c_str(), O_RDONLY | O_DIRECTORY); });
  while (next().header.opcode != FUSE_OPENDIR) write(last_.header.unique, -ENOSYS, {});
  ASSERT_TRUE(answer(last_, 0, fuse_open_out{}));
  ASSERT_EQ(program.get(), 0);
  close(file);
  const Message release = next();
  ASSERT_EQ(release.header.opcode, FUSE_RELEASEDIR);
  const std::uint64_t left = watch_->left();
  watch_->serve(Clock::now(), kShort);
  ASSERT_TRUE(eventually([&] { return watch_->left() != left; }));
  watch_->serve(Clock::now(), kLong);
  ASSERT_TRUE(write(0, kFuseNotifyResend, {}));
  const Message again = next();
  EXPECT_EQ(again.number(), release.number());
  EXPECT_TRUE(again.resent());
  EXPECT_TRUE(write(again.header.unique, 0, {}));
}

TEST_F(UnservedRequestsTest, TheNextHolderGoesOnWithIt) {
  auto& program = lookUp("name");
  (void)next();
  watch_->serve(Clock::now(), kLong);
  HolderOptions options;
  options.takeOver = true;
  options.socketPath = socketPath();
  auto successor = HolderServer::create(std::move(options));
  ASSERT_TRUE(successor.ok()) << successor.error().message;
  thread_.join();
  server_ = std::move(*successor);
  thread_ = std::thread([this] { server_->run(); });
  watch_->serve(Clock::now(), kShort);
  ASSERT_TRUE(ends(program));
  EXPECT_EQ(program.get(), EIO);
}

}  // namespace
}  // namespace hearth
