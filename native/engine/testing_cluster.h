// Several engines in one process on loopback, each with its own cache directory, and datasets of
// files in a temporary folder. For tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "base/testing/eventually.h"
#include "engine/engine.h"
#include "reactor/blocking_call.h"

namespace hearth::testing_cluster {

// A folder that the destructor removes.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hearth-engine-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    // Views are read-only folders.
    for (auto it = std::filesystem::recursive_directory_iterator(path_, ignored);
         it != std::filesystem::recursive_directory_iterator(); it.increment(ignored)) {
      if (it->is_directory(ignored)) chmod(it->path().c_str(), 0700);
    }
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] std::string path(const std::string& below = "") const {
    return below.empty() ? path_ : path_ + "/" + below;
  }

 private:
  std::string path_;
};

// Pseudo-random bytes, the same for the same seed.
inline std::vector<char> pattern(std::size_t size, unsigned seed) {
  std::vector<char> bytes(size);
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  return bytes;
}

// A directory origin with the files given by name and size.
class Origin {
 public:
  void add(const std::string& name, std::size_t size) {
    const std::string file = folder_.path(name);
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    const std::vector<char> bytes = pattern(size, static_cast<unsigned>(names_.size() + 1));
    std::ofstream(file, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    names_.push_back(name);
    total_ += size;
  }
  [[nodiscard]] const std::string& folder() const { return root_; }
  [[nodiscard]] std::uint64_t bytes() const { return total_; }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] std::string bytesOf(const std::string& name) const {
    std::ifstream file(folder_.path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  // As an agent would list it.
  [[nodiscard]] std::vector<std::byte> manifest() const {
    ManifestBuilder builder(false);
    for (const std::string& name : names_) {
      struct stat about {};
      EXPECT_EQ(stat(folder_.path(name).c_str(), &about), 0);
      const auto ns = [](const timespec& time) {
        return std::to_string(time.tv_sec * 1'000'000'000LL + time.tv_nsec);
      };
      ManifestRow row;
      row.path = name;
      row.size = static_cast<std::uint64_t>(about.st_size);
      row.validator = "stat:" + ns(about.st_mtim) + ":" + ns(about.st_ctim);
      for (const std::uint64_t field : {std::uint64_t{about.st_ino}, std::uint64_t{about.st_nlink},
                                        std::uint64_t{about.st_mode & 07777},
                                        std::uint64_t{about.st_uid}, std::uint64_t{about.st_gid}})
        row.validator += ":" + std::to_string(field);
      const std::string identity = folder_.path(name) + row.validator;
      row.key.bytes = Sha256::of(std::as_bytes(std::span(identity)));
      builder.add(std::move(row));
    }
    Result<std::vector<std::byte>> bytes = builder.build();
    EXPECT_TRUE(bytes.ok());
    return std::move(*bytes);
  }

 private:
  TemporaryFolder folder_;
  std::string root_ = folder_.path();
  std::vector<std::string> names_;
  std::uint64_t total_ = 0;
};

class Agent {
 public:
  // `events`: called on a shard's thread; ignored by default. `folder`: of the cache; empty: one of
  // its own. `adjust`: changes the options.
  explicit Agent(
      std::string name, std::uint64_t budget = 4ull << 30, EventSink events = [](EngineEvent) {},
      std::string folder = "", std::function<void(EngineOptions&)> adjust = {})
      : name_(std::move(name)),
        budget_(budget),
        events_(std::move(events)),
        folder_(std::move(folder)),
        adjust_(std::move(adjust)) {
    if (folder_.empty()) folder_ = cache_.path();
    start();
  }
  Agent(std::string name, ScrubOptions scrub)
      : name_(std::move(name)),
        budget_(4ull << 30),
        scrub_(scrub),
        events_([](EngineEvent) {}),
        folder_(cache_.path()) {
    start();
  }
  // `adjust`: changes the options.
  Agent(std::string name, std::function<void(EngineOptions&)> adjust)
      : name_(std::move(name)),
        budget_(4ull << 30),
        events_([](EngineEvent) {}),
        folder_(cache_.path()),
        adjust_(std::move(adjust)) {
    start();
  }
  ~Agent() { stop(); }

  void start() {
    EngineOptions options;
    options.node = name_;
    options.incarnation = "1";
    options.cluster = "test";
    options.secret.assign(32, std::byte{7});
    options.listen = {{"127.0.0.1", 0}};
    options.cacheDirectories = {{folder_, budget_, 0}};
    options.shards = 2;
    options.scrub = scrub_;
    if (adjust_) adjust_(options);
    Result<std::unique_ptr<Engine>> opened = Engine::open(std::move(options), events_);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    engine_ = std::move(*opened);
  }
  void stop() {
    if (engine_ != nullptr) engine_->close();
    engine_.reset();
  }

  [[nodiscard]] Engine& engine() { return *engine_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] ClusterMember member() const {
    return {{name_, "1", engine_->addresses()}, "", "", true};
  }
  // Awaits an engine's task on its home shard.
  template <class T>
  T await(Task<T> task) {
    return runOn(engine_->home(), std::move(task));
  }
  void setCluster(std::vector<ClusterMember> members) {
    struct Wrap {
      static Task<bool> run(Engine& engine, std::vector<ClusterMember> all) {
        co_await engine.setCluster(std::move(all));
        co_return true;
      }
    };
    await(Wrap::run(*engine_, std::move(members)));
  }
  // Stores the manifest here and sets the location of its bytes.
  std::shared_ptr<Dataset> add(const Origin& origin) {
    Result<std::shared_ptr<Dataset>> added = await(engine_->manifests().add(origin.manifest()));
    EXPECT_TRUE(added.ok()) << (added.ok() ? "" : added.error().message);
    Location base;
    base.path = origin.folder();
    base.below = base.path;
    (*added)->locations.setBase(std::move(base));
    return *added;
  }
  void beginWarm(std::shared_ptr<Dataset> dataset, Verification verify = Verification::kChecksum) {
    WarmOptions options;
    options.job = "warm";
    options.entries = filesOf(*dataset->manifest);
    options.dataset = std::move(dataset);
    options.verify = verify;
    const Status begun = engine_->warm(std::move(options));
    EXPECT_TRUE(begun.ok());
  }
  WarmProgress awaitWarm() {
    WarmProgress progress;
    eventually([&] {
      progress = engine_->findJob("warm")->progress();
      return progress.state != WarmState::kRunning && progress.state != WarmState::kVerifying;
    });
    return progress;
  }

 private:
  TemporaryFolder cache_;
  std::string name_;
  std::uint64_t budget_;
  ScrubOptions scrub_;
  EventSink events_;
  std::string folder_;
  std::function<void(EngineOptions&)> adjust_;
  std::unique_ptr<Engine> engine_;
};

inline void connect(std::vector<Agent*> agents) {
  std::vector<ClusterMember> members;
  for (Agent* const agent : agents) members.push_back(agent->member());
  for (Agent* const agent : agents) agent->setCluster(members);
}

// Others do not wait for an agent that is late on a busy machine if another agent has the same
// bytes. So tests look for the giver of bytes in one of so many tries, each with a file of its own.
inline constexpr int kTries = 10;

// True: no agent was so short of processor time that it gave no sign of life for half a second.
// Others would have gone on without it, and taken from the origin what it has.
inline bool undisturbed(const std::vector<Agent*>& agents) {
  return std::all_of(agents.begin(), agents.end(), [](Agent* agent) {
    return agent->await(agent->engine().statistics()).directoryUnanswered == 0;
  });
}

}  // namespace hearth::testing_cluster
