// Walks through a whole manifest, and the quick calls of the shard meanwhile.
#include "dataset/manifest_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <future>

#include "files/posix_file_system.h"
#include "reactor/synchronization.h"
#include "transport/testing/unreachable_transport.h"

namespace hearth {
namespace {

// Gives each ready agent's answer to readManifest(), and nothing else.
class Peers final : public testing_rails::UnreachableTransport {
 public:
  Task<Result<std::vector<std::byte>>> readManifest(std::string node, Sha256Digest,
                                                    Clock::time_point) override {
    co_return manifests.at(node);
  }

  std::map<std::string, std::vector<std::byte>> manifests;
};

std::unique_ptr<ManifestBuilder> builderOf(const std::string& path) {
  auto builder = std::make_unique<ManifestBuilder>(false);
  ManifestRow row;
  row.path = path;
  row.size = 1;
  row.validator = "etag:1";
  builder->add(std::move(row));
  return builder;
}

std::vector<std::byte> bytesOf(const std::string& path) { return *builderOf(path)->build(); }

struct ManifestStoreTest : testing::Test {
  ManifestStoreTest() {
    std::string name = (std::filesystem::temp_directory_path() / "hearth-dataset-XXXXXX").string();
    folder = mkdtemp(name.data());
    store = std::make_unique<ManifestStore>(
        ManifestPorts{*reactor, diskFiles, pool, view, peers, folder,
                      [this](EngineEvent event) { lines.push_back(std::move(event.message)); }});
  }
  ~ManifestStoreTest() override {
    store->close();
    std::filesystem::remove_all(folder);
  }
  [[nodiscard]] std::string pathOf(const Sha256Digest& digest) const {
    return folder + "/" + hexOf(digest);
  }
  // Takes every thread of the pool until `released` is set.
  void holdPool() {
    for (int i = 0; i < kThreads; ++i) pool.run([this] { held.wait(); });
  }

  static constexpr int kThreads = 2;
  std::string folder;
  std::vector<std::string> lines;
  std::promise<void> released;
  std::shared_future<void> held = released.get_future().share();
  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  PosixFileSystem files{*reactor};
  ThreadPool pool{{.threads = kThreads}}, diskThreads{{.threads = kThreads}};
  PosixFileSystem diskFiles{*reactor, diskThreads};
  std::shared_ptr<const ClusterView> view =
      std::make_shared<const ClusterView>("self", std::vector<ClusterMember>());
  Peers peers;
  std::unique_ptr<ManifestStore> store;
};

// An open and a write as the cache does them.
Task<Status> quickCalls(FileSystem& files, std::string path) {
  OpenFlags flags;
  flags.write = flags.create = true;
  flags.mode = 0600;
  Result<std::unique_ptr<File>> file = co_await files.open(path, flags);
  if (!file.ok()) co_return file.error();
  const std::vector<std::byte> bytes(4096);
  co_return co_await (*file)->writeAt(bytes, 0);
}

// A manifest on a disk that answers late is a FIFO whose other end is not open yet.
TEST_F(ManifestStoreTest, ManifestsThatAreOpenedHoldUpNoQuickCalls) {
  std::vector<Sha256Digest> late(8);
  for (std::size_t i = 0; i < late.size(); ++i) {
    late[i][0] = static_cast<std::uint8_t>(i + 1);
    ASSERT_EQ(mkfifo(pathOf(late[i]).c_str(), 0600), 0);
  }
  struct Run {
    static Task<void> one(ManifestStore& store, Sha256Digest digest, std::size_t& ended) {
      const auto opened = co_await store.open(digest);
      EXPECT_EQ(opened.code(), ErrorCode::kNotFound);
      ++ended;
    }
    static Task<void> all(ManifestStoreTest& test, const std::vector<Sha256Digest>& late) {
      std::size_t ended = 0;
      Gate gate(*test.reactor);
      for (const Sha256Digest& digest : late) gate.spawn(one(*test.store, digest, ended));
      const Status called = co_await quickCalls(test.files, test.folder + "/quick");
      EXPECT_TRUE(called.ok());
      EXPECT_EQ(ended, 0u) << "no manifest came before the quick calls";
      // Opened for both ways so that this waits for none of them.
      std::vector<int> others;
      for (const Sha256Digest& digest : late) {
        others.push_back(open(test.pathOf(digest).c_str(), O_RDWR | O_CLOEXEC));
        EXPECT_EQ(write(others.back(), "x", 1), 1);  // for the read of the first byte
      }
      co_await gate.close();
      EXPECT_EQ(ended, late.size());
      for (const int other : others) close(other);
    }
  };
  reactor->runUntilComplete(Run::all(*this, late));
}

// Neither built nor parsed on the helpers or the shard: nothing ends while the pool for slow work
// is taken, however many quick calls pass.
TEST_F(ManifestStoreTest, ManifestsAreBuiltAndParsedOnThePoolForSlowWork) {
  struct Run {
    static Task<void> one(Task<Result<std::shared_ptr<Dataset>>> adding, std::size_t& ended) {
      const auto added = co_await adding;
      EXPECT_TRUE(added.ok());
      ++ended;
    }
    static Task<void> all(ManifestStoreTest& test) {
      std::size_t ended = 0;
      test.holdPool();
      Gate gate(*test.reactor);
      gate.spawn(one(test.store->add(bytesOf("parsed")), ended));
      gate.spawn(one(test.store->add(builderOf("built")), ended));
      for (int i = 0; i < 1000; ++i) {
        const Status called = co_await quickCalls(test.files, test.folder + "/quick");
        EXPECT_TRUE(called.ok());
      }
      EXPECT_EQ(ended, 0u);
      test.released.set_value();
      co_await gate.close();
      EXPECT_EQ(ended, 2u);
    }
  };
  reactor->runUntilComplete(Run::all(*this));
}

// One that is made while the same one is removed is there afterwards as a whole, or not at all.
TEST_F(ManifestStoreTest, OneThatIsMadeAndRemovedAtTheSameTimeIsThereWholeOrNotAtAll) {
  struct Run {
    static Task<void> add(ManifestStore& store) {
      const auto added = co_await store.add(bytesOf("same"));
      EXPECT_TRUE(added.ok());
    }
    static Task<void> remove(ManifestStore& store, Sha256Digest digest) {
      const Status removed = co_await store.remove(digest);
      EXPECT_TRUE(removed.ok());
    }
    static Task<void> open(ManifestStore& store, Sha256Digest digest) {
      [[maybe_unused]] const auto opened = co_await store.open(digest);
    }
    static Task<void> all(ManifestStoreTest& test, Sha256Digest digest, unsigned round) {
      Gate gate(*test.reactor);
      for (unsigned call = 0; call < 12; ++call) {
        switch ((round * 7 + call * call) % 3) {
          case 0:
            gate.spawn(add(*test.store));
            break;
          case 1:
            gate.spawn(remove(*test.store, digest));
            break;
          default:
            gate.spawn(open(*test.store, digest));
        }
        for (unsigned turn = 0; turn < (round + call) % 4; ++turn) {
          [[maybe_unused]] const Status called =
              co_await quickCalls(test.files, test.folder + "/quick");
        }
      }
      co_await gate.close();
    }
  };
  const Sha256Digest digest = Sha256::of(bytesOf("same"));
  for (unsigned round = 0; round < 50; ++round) {
    reactor->runUntilComplete(Run::all(*this, digest, round));
    EXPECT_EQ(store->find(digest) != nullptr, std::filesystem::exists(pathOf(digest))) << round;
    EXPECT_FALSE(std::filesystem::exists(pathOf(digest) + ".tmp"));
  }
  EXPECT_TRUE(lines.empty());
}

TEST_F(ManifestStoreTest, WhoHasARemovedOneIsGivenLocationsWhenItIsOpenedAgain) {
  const Sha256Digest digest = Sha256::of(bytesOf("same"));
  const auto add = [&] { return *reactor->runUntilComplete(store->add(bytesOf("same"))); };
  const auto remove = [&] {
    const Status removed = reactor->runUntilComplete(store->remove(digest));
    EXPECT_TRUE(removed.ok());
    EXPECT_EQ(store->find(digest, "a"), nullptr);
  };
  std::ignore = add();
  const std::shared_ptr<Dataset> mounted = store->find(digest, "a");
  const std::weak_ptr<Dataset> other = store->find(digest, "b");
  remove();
  EXPECT_TRUE(other.expired());
  std::ignore = add();
  EXPECT_EQ(store->find(digest, "a"), mounted);
  remove();
  // The failure to find its locations reaches it, too.
  EXPECT_EQ(store->findUsed(digest, "a"), mounted);
  EXPECT_EQ(store->findUsed(digest, "b"), nullptr);
  store->close();
  EXPECT_FALSE(mounted->sources.now()->sources.empty());
}

TEST_F(ManifestStoreTest, APeersManifestIsComparedWithItsDigest) {
  const std::vector<std::byte> right = bytesOf("right");
  peers.manifests["a"] = bytesOf("wrong");
  peers.manifests["b"] = std::vector<std::byte>(100);
  peers.manifests["c"] = right;
  std::vector<ClusterMember> members;
  for (const auto& [node, bytes] : peers.manifests)
    members.push_back({{node, "1", {}}, "", "", true});
  view = std::make_shared<const ClusterView>("self", members);
  const auto opened = reactor->runUntilComplete(store->open(Sha256::of(right)));
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE((*opened)->manifest->lookUp("right").has_value());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_NE(lines[0].find("another digest"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("invalid manifest"), std::string::npos) << lines[1];
  EXPECT_TRUE(std::filesystem::exists(pathOf(Sha256::of(right))));
}

}  // namespace
}  // namespace hearth
