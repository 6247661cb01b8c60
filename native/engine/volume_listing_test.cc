// Datasets of files that were published in a volume: listed from its leader, read from the node
// that wrote them.
#include "engine/volume_listing.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <future>

#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {
namespace {

constexpr tree::WideId kVolume{7}, kStore{8};

// An agent, which remembers the questions and reports of its engine.
class VolumeNode {
 public:
  explicit VolumeNode(const std::string& name)
      : agent_(
            name, 4ull << 30, [this](EngineEvent event) { note(std::move(event)); }, path_) {}

  [[nodiscard]] const std::string& folder() const { return path_; }

  Agent& agent() { return agent_; }
  [[nodiscard]] std::shared_ptr<Volume> volume() { return calls().find(kVolume); }
  VolumeCalls& calls() { return agent_.engine().volumes(); }
  void open(bool leads) {
    const auto set = [](VolumeCalls& calls) -> Task<bool> {
      std::vector<VolumeOptions> volumes{{.id = kVolume,
                                          .store = kStore,
                                          .name = "kv",
                                          .deadline = std::chrono::seconds(10),
                                          .limits = {}}};
      co_await calls.set(std::move(volumes));
      co_return true;
    };
    agent_.await(set(calls()));
    if (leads) ASSERT_TRUE(agent_.await(calls().lead({kVolume, 1, std::int64_t{1} << 60})).ok());
    calls().setLeader(kVolume, LeaderClient::Leader{"a", 1});
  }
  // Of the volume's sessions, on its thread.
  template <class T>
  T inVolume(Task<T> task) {
    return runOn(*volume()->shard.reactor, std::move(task));
  }
  void closeWriter(tree::InodeId inode) {
    const auto close = [](VolumeSessions& files, tree::InodeId of) -> Task<bool> {
      co_await files.closeWriter(of);
      co_return true;
    };
    inVolume(close(volume()->sessions, inode));
  }
  bool sealed() {
    return eventually([&] { return agent_.await(calls().statistics()).at(0).sessions == 0; });
  }
  [[nodiscard]] std::size_t count(EngineEvent::Kind kind) {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count(kinds_, kind));
  }

 private:
  void note(EngineEvent event) {
    const std::lock_guard lock(mutex_);
    kinds_.push_back(event.kind);
  }
  TemporaryFolder folder_;
  std::string path_ = folder_.path();
  std::mutex mutex_;
  std::vector<EngineEvent::Kind> kinds_;
  Agent agent_;
};

class VolumeListingTest : public testing::Test {
 protected:
  VolumeListingTest() {
    connect({&a_.agent(), &b_.agent(), &c_.agent()});
    a_.open(true);
    b_.open(false);
    c_.open(false);
  }
  static tree::Place top(const std::string& name) { return {tree::kRootInode, name}; }
  // A program's file that is written, and closed by finish().
  struct Written {
    tree::InodeId inode = tree::kNoInode;
    OwnedFd file;
  };
  static Written begin(VolumeNode& node, const std::string& name, const std::vector<char>& bytes) {
    OpenedVolumeFile made = node.inVolume(
        node.volume()->sessions.create({.place = top(name), .mode = 0644, .opens = true}, true));
    EXPECT_EQ(made.error, 0);
    const std::string path = "/proc/self/fd/" + std::to_string(made.session.get());
    Written written{made.attributes.id, OwnedFd(::open(path.c_str(), O_RDWR | O_CLOEXEC))};
    EXPECT_EQ(::pwrite(written.file.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(node.inVolume(node.volume()->sessions.publish(written.inode)), 0);
    return written;
  }
  static void finish(VolumeNode& node, Written written) {
    written.file.reset();
    node.closeWriter(written.inode);
  }
  static void put(VolumeNode& node, const std::string& name, const std::vector<char>& bytes) {
    finish(node, begin(node, name, bytes));
    EXPECT_TRUE(node.sealed());
  }
  static PublishedFolder list(VolumeNode& node, tree::InodeId folder = tree::kRootInode) {
    const VolumeListing listing(node.agent().engine().home(), node.volume());
    auto listed = node.agent().await(listing.list(folder, 0, true));
    EXPECT_TRUE(listed.ok()) << listed.error().message;
    return std::move(*listed);
  }
  // The volume's root as a dataset of `node`, whose locations name a.
  static std::shared_ptr<Dataset> datasetOf(VolumeNode& node) {
    ManifestBuilder builder(false);
    for (const PublishedEntry& entry : list(node).entries) {
      builder.add({.path = entry.name,
                   .size = entry.attributes.size,
                   .key = entry.key,
                   .validator = "volume:kv:1"});
    }
    auto bytes = builder.build();
    EXPECT_TRUE(bytes.ok());
    auto added = node.agent().await(node.agent().engine().manifests().add(std::move(*bytes)));
    EXPECT_TRUE(added.ok());
    locate(**added, "a");
    return *added;
  }
  // The same revision on another node.
  static std::shared_ptr<Dataset> datasetLike(VolumeNode& node, const Dataset& other) {
    const std::span<const std::byte> all = other.manifest->bytes();
    auto added = node.agent().await(
        node.agent().engine().manifests().add(std::vector(all.begin(), all.end())));
    EXPECT_TRUE(added.ok());
    locate(**added, "a");
    return *added;
  }
  static void locate(Dataset& dataset, const std::string& at) {
    Location location;
    location.node = at;
    for (const std::uint32_t entry : filesOf(*dataset.manifest))
      dataset.locations.set(entry, location);
  }
  static Result<std::vector<std::byte>> read(VolumeNode& node, std::shared_ptr<Dataset> dataset,
                                             const std::string& name) {
    const std::uint32_t entry = *dataset->manifest->lookUp(name);
    return node.agent().await(
        node.agent().engine().contents().read(std::move(dataset), entry, 0, 1ull << 30));
  }
  static void expectBytes(const Result<std::vector<std::byte>>& read,
                          const std::vector<char>& bytes) {
    ASSERT_TRUE(read.ok()) << read.error().message;
    ASSERT_EQ(read->size(), bytes.size());
    EXPECT_EQ(std::memcmp(read->data(), bytes.data(), bytes.size()), 0);
  }

  VolumeNode a_{"a"}, b_{"b"}, c_{"c"};
};

TEST_F(VolumeListingTest, PathsAreFoundAndFoldersListed) {
  const ChangeReply folder =
      b_.inVolume(b_.volume()->client.change(tree::MakeFolder{.place = top("models")}));
  ASSERT_EQ(folder.answer.error, 0);
  ASSERT_EQ(b_.inVolume(b_.volume()->client.change(tree::MakeSymlink{
                            .place = {folder.answer.inode, "link"}, .target = "w"}))
                .answer.error,
            0);
  put(b_, "w", pattern(70'000, 1));
  const VolumeListing listing(c_.agent().engine().home(), c_.volume());
  const auto found = c_.agent().await(listing.lookUp("/models/"));
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->id, folder.answer.inode);
  EXPECT_EQ(c_.agent().await(listing.lookUp("models/none")).code(), ErrorCode::kNotFound);
  EXPECT_EQ(c_.agent().await(listing.lookUp("w/x")).code(), ErrorCode::kNotFound);
  const PublishedFolder inside = list(c_, found->id);
  ASSERT_EQ(inside.entries.size(), 1u);
  EXPECT_EQ(inside.entries[0].target, "w");
  const PublishedFolder root = list(c_);
  ASSERT_EQ(root.entries.size(), 2u);
  EXPECT_EQ(root.entries[1].attributes.size, 70'000u);
  const auto contents = c_.agent().await(
      listing.contents({root.entries[1].attributes.id, tree::InodeId{12345}, found->id}));
  ASSERT_TRUE(contents.ok()) << contents.error().message;
  ASSERT_TRUE(contents->at(0));
  EXPECT_EQ(contents->at(0)->key, root.entries[1].key);
  EXPECT_EQ(contents->at(0)->node, "b");
  EXPECT_FALSE(contents->at(1) || contents->at(2));
  EXPECT_EQ(c_.agent().await(listing.list(tree::InodeId{12345}, 0, true)).code(),
            ErrorCode::kOriginChanged);
  const VolumeListing unknown(c_.agent().engine().home(), nullptr);
  EXPECT_EQ(c_.agent().await(unknown.lookUp("")).code(), ErrorCode::kNotFound);
}

TEST_F(VolumeListingTest, ADatasetAndAMountOfTheVolumeShareTheBytes) {
  const std::vector<char> bytes = pattern((9 << 20) + 12'345, 2);
  put(a_, "w", bytes);
  const auto dataset = datasetOf(b_);
  expectBytes(read(b_, dataset, "w"), bytes);
  const tree::InodeId inode = list(b_).entries[0].attributes.id;
  const auto isBacked = [&] {
    const auto mounted = b_.inVolume(b_.volume()->sessions.openToRead(inode, std::nullopt));
    return mounted.reading != nullptr && mounted.reading->backing().ok();
  };
  EXPECT_TRUE(eventually(isBacked));
  // On the node that wrote it, nothing is read from elsewhere.
  expectBytes(read(a_, datasetOf(a_), "w"), bytes);
  EXPECT_EQ(a_.agent().await(a_.agent().engine().statistics()).peerBytesReceived, 0u);
}

TEST_F(VolumeListingTest, APublishedFileIsReadWhileItsWriterHasItOpen) {
  const std::vector<char> bytes = pattern((5 << 20) + 3, 3);
  Written written = begin(a_, "w", bytes);
  expectBytes(read(b_, datasetOf(b_), "w"), bytes);
  finish(a_, std::move(written));
  EXPECT_TRUE(a_.sealed());
}

TEST_F(VolumeListingTest, TheNodeThatWroteAFileReadsItOnceItIsSealed) {
  const std::vector<char> bytes = pattern((5 << 20) + 3, 4);
  Written written = begin(a_, "w", bytes);
  const auto dataset = datasetOf(a_);
  auto reading = std::async(std::launch::async, [&] { return read(a_, dataset, "w"); });
  // The reader has the key's cache file before the sealed one becomes it.
  const ContentKey key = dataset->manifest->entry(*dataset->manifest->lookUp("w")).key;
  EngineCommons& commons = a_.agent().engine().commons();
  const auto wants = [](Shard& owner, ContentKey of) -> Task<bool> {
    co_await owner.reactor->enter();
    co_return owner.wanted->find(of) != nullptr;
  };
  ASSERT_TRUE(eventually([&] {
    Shard& owner = commons.owner(key);
    return runOn(*owner.reactor, wants(owner, key));
  }));
  finish(a_, std::move(written));
  expectBytes(reading.get(), bytes);
  EXPECT_TRUE(a_.sealed());
}

TEST_F(VolumeListingTest, APinOfADatasetKeepsWhatTheVolumeLetsGo) {
  const std::vector<char> before = pattern((4 << 20) + 5, 7);
  put(a_, "w", before);
  const auto old = datasetOf(a_);
  a_.agent().engine().contents().pin(*old, std::nullopt, "job");
  put(a_, "w", pattern((4 << 20) + 5, 8));
  const std::string sealed = a_.folder() + "/volumes/" + hexOf(kVolume) + "/sealed";
  const auto names = [&] {
    return std::distance(std::filesystem::directory_iterator(sealed),
                         std::filesystem::directory_iterator());
  };
  EXPECT_TRUE(eventually([&] { return names() == 1; }));
  expectBytes(read(b_, datasetLike(b_, *old), "w"), before);
}

TEST_F(VolumeListingTest, ContentThatTheVolumeHasNoMoreIsReported) {
  const std::vector<char> before = pattern((4 << 20) + 5, 5), after = pattern((4 << 20) + 5, 6);
  put(a_, "w", before);
  const auto old = datasetOf(b_);
  const auto held = datasetOf(c_);
  ASSERT_EQ(old->manifest->digest(), held->manifest->digest());
  expectBytes(read(c_, held, "w"), before);
  put(a_, "w", after);
  const ContentKey key = old->manifest->entry(*old->manifest->lookUp("w")).key;
  ASSERT_TRUE(eventually([&] { return a_.agent().engine().commons().cache->sizeOf(key) == 0; }));
  // Another agent still has it.
  expectBytes(read(b_, old, "w"), before);
  const auto fresh = datasetOf(b_);
  EXPECT_NE(fresh->manifest->digest(), old->manifest->digest());
  expectBytes(read(b_, fresh, "w"), after);
  // When nobody has it, the agent is asked whether the volume does.
  for (VolumeNode* const node : {&b_, &c_}) {
    const auto evicted = [&] {
      (void)node->agent().await(node->agent().engine().contents().evict(old, std::nullopt));
      return node->agent().engine().commons().cache->sizeOf(key) == 0;
    };
    ASSERT_TRUE(eventually(evicted));
  }
  auto reading = std::async(std::launch::async, [&] { return read(b_, old, "w"); });
  ASSERT_TRUE(eventually([&] { return b_.count(EngineEvent::Kind::kLocations) != 0; }));
  old->locations.fail(*old->manifest->lookUp("w"),
                      {ErrorCode::kOriginChanged, "the volume kv has other bytes"});
  const auto failed = reading.get();
  EXPECT_EQ(failed.code(), ErrorCode::kOriginChanged);
  EXPECT_NE(failed.error().message.find("the volume kv has other bytes"), std::string::npos);
  EXPECT_EQ(b_.count(EngineEvent::Kind::kOriginChanged), 1u);
}

}  // namespace
}  // namespace hearth::testing_cluster
