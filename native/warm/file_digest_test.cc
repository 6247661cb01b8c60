// Hashing takes its time, and none waits for it that did not ask for it.
#include "warm/file_digest.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "base/testing/eventually.h"

namespace hearth {
namespace {

// Reads of it end when they are let go, as those of a slow disk would.
class HeldBackFile final : public CachedFile {
 public:
  HeldBackFile(std::uint64_t size, Reactor& reactor, ThreadPool& pool)
      : bytes_(size, std::byte{7}), reactor_(reactor), pool_(pool) {}

  void release() {
    const std::lock_guard lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }

  const ContentKey& key() const override { return key_; }
  std::uint64_t size() const override { return bytes_.size(); }
  bool resident(std::uint32_t) const override { return true; }
  bool residentRange(std::uint64_t, std::uint64_t) const override { return true; }
  std::uint64_t residentBytes() const override { return bytes_.size(); }
  bool complete() const override { return true; }
  Task<Status> onDisk(std::function<void()> work) override {
    auto call = [&work] { return work(), 0; };
    co_await reactor_.offload(pool_, call);
    co_return Status();
  }
  Result<int> descriptor() override { return Error{ErrorCode::kUnsupported, "it has none"}; }
  std::string path() const override { return {}; }
  Result<std::span<const std::byte>> verified(std::uint64_t offset, std::uint64_t length) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return free_; });
    return std::span<const std::byte>(bytes_).subspan(offset, length);
  }
  Result<std::span<const std::byte>> inPlace(std::uint64_t offset, std::uint64_t length) override {
    return verified(offset, length);
  }
  bool verifiedInMemory(std::uint64_t, std::span<std::byte>) override { return false; }
  Status readWhole(std::span<std::byte>) override { return {}; }
  bool inPageCache(std::uint64_t, std::uint64_t) override { return true; }
  Task<Status> readChunk(std::uint32_t, std::span<std::byte>,
                         std::shared_ptr<const void>) override {
    co_return Status();
  }
  std::vector<std::uint32_t> blockChecksums(std::uint32_t) const override { return {}; }
  void touch() override {}
  Task<Status> writeChunk(std::uint32_t, std::span<const std::byte>, std::span<const std::uint32_t>,
                          std::shared_ptr<const void>) override {
    co_return Status();
  }
  Task<Status> claimed() override { co_return Status(); }
  bool durable() const override { return true; }
  bool verifiedWhole() const override { return false; }
  std::uint64_t generation() const override { return 1; }
  void discard() override {}
  Task<Status> recordVerified(Sha256Digest, std::uint64_t) override { co_return Status(); }
  Task<Result<std::uint64_t>> scrub(ScrubWatch) override { co_return std::uint64_t{0}; }
  Task<Result<std::uint32_t>> scrubChunk(std::uint32_t) override { co_return 0u; }

 private:
  const ContentKey key_{};
  const std::vector<std::byte> bytes_;
  Reactor& reactor_;
  ThreadPool& pool_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool free_ = false;
};

Task<void> hashInto(Reactor& reactor, ThreadPool& pool, std::shared_ptr<CachedFile> file,
                    std::size_t& ended, Sha256Digest& digest) {
  BandwidthLimiter disk({});
  const Result<Sha256Digest> hashed = co_await digestOf(reactor, pool, disk, std::move(file));
  if (hashed.ok()) digest = *hashed;
  ++ended;
}

Task<bool> quickCallInTime(Reactor& reactor) {
  Event done(reactor);
  struct Call {
    static Task<void> run(Reactor& on, Event& ended) {
      auto nothing = [] { return 0; };
      co_await on.offload(nothing);
      ended.set();
    }
  };
  Gate calls(reactor);
  calls.spawn(Call::run(reactor, done));
  const bool inTime = co_await done.waitUntil(Clock::now() + kHang);
  if (inTime) co_await calls.close();
  co_return inTime;
}

TEST(FileDigest, QuickCallsDoNotWaitForHashes) {
  auto created = Reactor::create();
  ASSERT_TRUE(created.ok());
  Reactor& reactor = **created;
  ThreadPool pool({.threads = 2});
  const auto file = std::make_shared<HeldBackFile>(3 * kChunkBytes + 1000, reactor, pool);
  constexpr std::size_t kHashes = 8;
  std::size_t ended = 0;
  std::vector<Sha256Digest> digests(kHashes);
  struct Wrap {
    static Task<bool> run(Reactor& on, ThreadPool& threads, std::shared_ptr<HeldBackFile> held,
                          std::size_t& count, std::vector<Sha256Digest>& into) {
      Gate hashes(on);
      for (Sha256Digest& digest : into) hashes.spawn(hashInto(on, threads, held, count, digest));
      const bool inTime = co_await quickCallInTime(on);
      EXPECT_EQ(count, 0u);
      held->release();
      co_await hashes.close();
      co_return inTime;
    }
  };
  EXPECT_TRUE(reactor.runUntilComplete(Wrap::run(reactor, pool, file, ended, digests)))
      << "a call that does nothing waited for files that are hashed";
  EXPECT_EQ(ended, kHashes);
  const std::vector<std::byte> whole(3 * kChunkBytes + 1000, std::byte{7});
  for (const Sha256Digest& digest : digests) EXPECT_EQ(digest, Sha256::of(whole));
}

}  // namespace
}  // namespace hearth
