// Directory origins whose file system hangs, as one of a network whose server has gone does.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>

#include "base/testing/eventually.h"
#include "origin/directory_calls.h"
#include "origin/origin_fixture.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

// The path that hangs, and the calls inside. Shared with calls that outlive the test's reads.
struct Hang {
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::size_t inside = 0, most = 0, returned = 0;

  void wait() {
    std::unique_lock lock(mutex);
    most = std::max(most, ++inside);
    changed.notify_all();
    changed.wait(lock, [this] { return over; });
    --inside;
    ++returned;
    changed.notify_all();
  }
  void end() {
    const std::lock_guard lock(mutex);
    over = true;
    changed.notify_all();
  }
};

// Every file has as many bytes 'x' as are read; below a folder named "gone" reads hang.
class HangingFiles final : public OriginFiles {
 public:
  explicit HangingFiles(std::shared_ptr<Hang> hang) : hang_(std::move(hang)) {}
  Result<std::unique_ptr<OriginFile>> open(const std::string&, const std::string& path) override {
    return std::unique_ptr<OriginFile>(
        std::make_unique<Opened>(path.starts_with("gone/") ? hang_ : nullptr));
  }

 private:
  class Opened final : public OriginFile {
   public:
    explicit Opened(std::shared_ptr<Hang> hang) : hang_(std::move(hang)) {}
    Result<OriginFileInfo> info() override { return OriginFileInfo{}; }
    Result<std::size_t> readAt(std::span<std::byte> into, std::uint64_t) override {
      if (hang_ != nullptr) hang_->wait();
      std::memset(into.data(), 'x', into.size());
      return into.size();
    }
    void willRead(std::uint64_t, std::uint64_t) override {}

   private:
    const std::shared_ptr<Hang> hang_;
  };
  const std::shared_ptr<Hang> hang_;
};

class DirectoryHangTest : public OriginFixture {
 protected:
  void SetUp() override {
    OriginFixture::SetUp();
    options.directories = std::make_shared<DirectoryCalls>(
        std::make_unique<HangingFiles>(hang),
        DirectoryCalls::Limits{
            .threads = 8, .threadsPerTree = 2, .stall = std::chrono::seconds(4)});
  }
  void TearDown() override {
    hang->end();
    OriginFixture::TearDown();
  }
  static Location at(const std::string& path) {
    Location location;
    location.path = "/srv/" + path;
    location.below = "/srv";
    return location;
  }
  const std::shared_ptr<Hang> hang = std::make_shared<Hang>();
};

INSTANTIATE_TEST_SUITE_P(Backends, DirectoryHangTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         &OriginFixture::backendName);

Task<void> readInto(OriginClient& client, Location location, std::span<std::byte> memory,
                    Status& status) {
  std::vector<std::span<std::byte>> pieces{memory};
  std::function<void(std::size_t)> filled = [](std::size_t) {};
  Task<Status> fetching =
      client.fetch(std::move(location), {}, 0, std::move(pieces), std::move(filled));
  status = co_await fetching;
}

TEST_P(DirectoryHangTest, FailsAfterAWhileAndNoOtherWaits) {
  std::vector<std::byte> lost(5'000'000), found(5'000'000);
  Status ofLost, ofFound;
  struct Wrap {
    static Task<void> run(Reactor& reactor, OriginClient& client, std::span<std::byte> a,
                          std::span<std::byte> b, Status& first, Status& second) {
      Gate reads(reactor);
      reads.spawn(readInto(client, at("gone/model"), a, first));
      reads.spawn(readInto(client, at("here/model"), b, second));
      auto nothing = [] { return 0; };
      co_await reactor.offload(nothing);
      co_await reads.close();
    }
  };
  run(Wrap::run(reactor(), client(), lost, found, ofLost, ofFound));
  EXPECT_TRUE(ofFound.ok()) << ofFound.error().message;
  EXPECT_EQ(found.back(), std::byte{'x'});
  ASSERT_EQ(ofLost.code(), ErrorCode::kUnavailable);
  EXPECT_NE(ofLost.error().message.find("/srv/gone/model"), std::string::npos);
  // The call returns at last, and its bytes go nowhere: the memory is others' by now.
  hang->end();
  {
    std::unique_lock lock(hang->mutex);
    ASSERT_TRUE(hang->changed.wait_for(lock, kHang, [this] { return hang->returned != 0; }));
  }
  options.directories.reset();
  EXPECT_EQ(lost.front(), std::byte{0});
}

TEST_P(DirectoryHangTest, EndsWhenNobodyWantsTheBytes) {
  Location location = at("gone/model");
  location.unwanted = [this] {
    const std::lock_guard lock(hang->mutex);
    return hang->inside != 0;
  };
  EXPECT_EQ(fetch(location, {}, 0, {10}).status.code(), ErrorCode::kCancelled);
}

TEST_P(DirectoryHangTest, HoldsFewThreadsAndThenRefusesAtOnce) {
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(fetch(at("gone/model" + std::to_string(i)), {}, 0, {10}).status.code(),
              ErrorCode::kUnavailable);
  }
  {
    const std::lock_guard lock(hang->mutex);
    EXPECT_LE(hang->most, 2u);
  }
  // All its threads hang: what is asked now is answered now.
  const auto refused = fetch(at("gone/other"), {}, 0, {10});
  EXPECT_NE(refused.status.error().message.find("does not answer"), std::string::npos)
      << refused.status.error().message;
  EXPECT_TRUE(fetch(at("here/model"), {}, 0, {10}).status.ok());
  // And when its server is back, all is well.
  hang->end();
  EXPECT_TRUE(eventually([&] { return fetch(at("gone/model"), {}, 0, {10}).status.ok(); }));
}

// As when one server has many models: it takes no thread that another tree needs.
TEST_P(DirectoryHangTest, ManyTreesThatHangLeaveThreadsToOthers) {
  constexpr int kTrees = 6;  // of two threads each; there are eight
  for (int i = 0; i < 2 * kTrees; ++i) {
    const auto call = [this](DirectoryCalls::Progress&) { hang->wait(); };
    ASSERT_TRUE(options.directories->run("/srv/gone" + std::to_string(i % kTrees), call).ok());
  }
  {
    std::unique_lock lock(hang->mutex);
    ASSERT_TRUE(hang->changed.wait_for(lock, kHang, [this] { return hang->inside >= 8; }));
  }
  EXPECT_TRUE(fetch(at("here/model"), {}, 0, {10}).status.ok());
}

TEST_P(DirectoryHangTest, EndsWhenTheClientCloses) {
  std::vector<std::byte> memory(10);
  Status status;
  struct Wrap {
    static Task<void> run(Reactor& reactor, OriginClient& client, std::span<std::byte> into,
                          Status& end) {
      Gate reads(reactor);
      reads.spawn(readInto(client, at("gone/model"), into, end));
      co_await client.close();
      co_await reads.close();
    }
  };
  run(Wrap::run(reactor(), client(), memory, status));
  EXPECT_EQ(status.code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace hearth
