// The longest operation of 16 programs that read and write files of a scratch volume while
// something that they need stands still: it ends by the volume's deadline.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <thread>

#include "engine/testing_cluster.h"
#include "engine/testing_holder.h"
#include "engine/testing_memory_pressure.h"
#include "engine/testing_stopped.h"
#include "engine/volume_calls.h"
#include "files/testing/faulty_file_system.h"
#include "fuse/testing/mount_fixture.h"

namespace hearth::testing_cluster {
namespace {

using testing_support::DiskFaults;
using testing_support::FaultyFileSystem;

const tree::WideId kFaultyVolume{5};
constexpr auto kVolumeDeadline = std::chrono::seconds(2);
constexpr auto kSlack = std::chrono::seconds(1);
constexpr std::int64_t kForEver = std::int64_t{1} << 60;
constexpr int kPrograms = 16;
constexpr int kFiles = 480;
constexpr std::size_t kFileBytes = 64 << 10;

// A call of a program: how long the longest took, and the errors that there were.
class Calls {
 public:
  // -1 and its errno are errors; any other result is not.
  int time(const char* name, const std::function<int()>& call) {
    const Clock::time_point begun = Clock::now();
    const int result = call();
    const int error = result < 0 ? errno : 0;
    const std::lock_guard lock(mutex_);
    if (const Clock::duration took = Clock::now() - begun; took > longest_) {
      longest_ = took;
      name_ = name;
    }
    ++count_;
    if (error != 0) errors_.insert(error);
    return result;
  }
  struct Seen {
    Clock::duration longest{};
    const char* name = "";
    std::uint64_t count = 0;
    std::set<int> errors;
  };
  Seen seen() const {
    const std::lock_guard lock(mutex_);
    return {longest_, name_, count_, errors_};
  }

 private:
  mutable std::mutex mutex_;
  Clock::duration longest_{};
  const char* name_ = "";
  std::uint64_t count_ = 0;
  std::set<int> errors_;
};

// An ext4 file system in a file, which can be frozen: calls that change it wait.
class FrozenDisk {
 public:
  explicit FrozenDisk(const std::string& folder) : path_(folder + "/disk") {
    const std::string image = folder + "/image";
    std::filesystem::create_directory(path_);
    const std::string made = "truncate -s 256M " + image + " && mkfs.ext4 -q -F " + image +
                             " && mount -o loop " + image + " " + path_ + " 2>/dev/null";
    mounted_ = std::system(made.c_str()) == 0;
    if (mounted_) root_.reset(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  ~FrozenDisk() {
    thaw();
    root_.reset();
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  FrozenDisk(const FrozenDisk&) = delete;
  FrozenDisk& operator=(const FrozenDisk&) = delete;

  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  void freeze() { EXPECT_EQ(ioctl(root_.get(), FIFREEZE, 0), 0) << strerror(errno); }
  void thaw() {
    if (root_) (void)ioctl(root_.get(), FITHAW, 0);
  }

 private:
  const std::string path_;
  bool mounted_ = false;
  OwnedFd root_;
};

class VolumeFaults : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = fuse_testing::whyNoMounts(); !why.empty()) GTEST_SKIP() << why;
    holder_.start();
    for (const char* const name : {"near", "far"})
      std::filesystem::create_directory(folder_.path(name));
  }
  void begin(const std::string& nearDisk = {}) {
    const auto options = [this](EngineOptions& options) {
      options.holder = holder_.socket();
      options.formerAgentsTimeout = std::chrono::milliseconds(0);  // one process
    };
    far_ = std::make_unique<Agent>("far", [this, options](EngineOptions& adjusted) {
      options(adjusted);
      adjusted.cacheDirectories = {{folder_.path("farDisk"), std::uint64_t{4} << 30, 0}};
      adjusted.files = [faults = faults_](Reactor& reactor) {
        return std::make_unique<FaultyFileSystem>(reactor, faults);
      };
    });
    near_ = std::make_unique<Agent>(
        "near", 1ull << 28, [](EngineEvent) {}, nearDisk, options);
    connect({near_.get(), far_.get()});
    for (Agent* const agent : {near_.get(), far_.get()}) {
      const auto set = [](Engine& engine) -> Task<bool> {
        co_await engine.setVolumes({{.id = kFaultyVolume,
                                     .store = {4},
                                     .name = "kv",
                                     .deadline = kVolumeDeadline,
                                     .limits = {}}});
        co_return true;
      };
      agent->await(set(agent->engine()));
    }
    ASSERT_TRUE(far_->await(calls(*far_).lead({kFaultyVolume, 1, kForEver})).ok());
    for (Agent* const agent : {near_.get(), far_.get()}) {
      calls(*agent).setLeader(kFaultyVolume, {{"far", 1}});
      const auto mounted = agent->await(agent->engine().mounts().mountVolume(
          {.target = folder_.path(agent->name()), .volume = kFaultyVolume, .source = "volume:kv"}));
      ASSERT_TRUE(mounted.ok()) << mounted.error().message;
    }
    const std::string bytes(kFileBytes, 'x');
    for (int file = 0; file < kFiles; ++file) {
      // On a machine that is busy with other things a call may come to its deadline.
      ASSERT_TRUE(eventually([&] {
        const int made = open((folder_.path("far/") + std::to_string(file)).c_str(),
                              O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (made < 0) return false;
        const ssize_t count = write(made, bytes.data(), bytes.size());
        return close(made) == 0 && count == static_cast<ssize_t>(kFileBytes);
      }));
    }
  }
  void TearDown() override {
    for (const char* const name : {"near", "far"})
      umount2(folder_.path(name).c_str(), MNT_FORCE | MNT_DETACH);
    near_.reset();
    far_.reset();
    holder_.stop();
  }
  static VolumeCalls& calls(Agent& agent) { return agent.engine().volumes(); }

  // One round of a program, on names that are its own; false: a call failed.
  bool writeOnce(int program, std::uint64_t round) {
    const std::string path = folder_.path("near/w") + std::to_string(program);
    const std::string name = path + "-" + std::to_string(round % 8);
    static constexpr std::array<char, 4096> kPage{};
    bool good = false;
    int file = -1;
    calls_.time("open",
                [&] { return file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644); });
    if (file >= 0) {
      // By passthrough.
      good = pwrite(file, kPage.data(), kPage.size(), 0) == static_cast<ssize_t>(kPage.size());
      good = calls_.time("close", [&] { return close(file); }) == 0 && good;
    }
    return good && calls_.time("rename", [&] { return rename(path.c_str(), name.c_str()); }) == 0;
  }
  bool readOnce(int program, std::uint64_t round) {
    const std::string path =
        folder_.path("near/") +
        std::to_string((static_cast<std::uint64_t>(program) + 8 * round) % kFiles);
    struct stat info {};
    if (calls_.time("stat", [&] { return stat(path.c_str(), &info); }) != 0) return false;
    int file = -1;
    calls_.time("open", [&] { return file = open(path.c_str(), O_RDONLY | O_CLOEXEC); });
    if (file < 0) return false;
    std::vector<char> bytes(kFileBytes);
    const int got = calls_.time(
        "read", [&] { return static_cast<int>(pread(file, bytes.data(), bytes.size(), 0)); });
    calls_.time("close", [&] { return close(file); });
    return got == static_cast<int>(kFileBytes);
  }
  // Runs all programs until `fault` has lasted for three deadlines. When it is `over`, they get
  // what they ask for again.
  void run(const std::function<void()>& fault, const std::function<void()>& over) {
    std::atomic<bool> ends{false};
    std::atomic<std::uint64_t> rounds{0};
    std::vector<std::thread> programs;
    for (int program = 0; program < kPrograms; ++program) {
      programs.emplace_back([&, program] {
        for (std::uint64_t round = 0; !ends; ++round) {
          (void)(program % 2 == 0 ? writeOnce(program, round) : readOnce(program, round));
          ++rounds;
        }
      });
    }
    EXPECT_TRUE(eventually([&] { return rounds > 4 * kPrograms; }));
    fault();
    std::this_thread::sleep_for(3 * kVolumeDeadline);
    ends = true;
    if (over) over();
    for (std::thread& program : programs) program.join();
    report();
    if (over) {
      EXPECT_TRUE(eventually([&] { return writeOnce(0, 0); }));
      EXPECT_TRUE(eventually([&] { return readOnce(1, 0); }));
    }
  }
  void report() {
    const Calls::Seen seen = calls_.seen();
    const double longest = std::chrono::duration<double>(seen.longest).count();
    std::string errors;
    for (const int error : seen.errors) errors += std::string(" ") + strerrorname_np(error);
    std::printf("%llu calls, the longest (%s) %.2f s of %.0f; errors:%s\n",
                static_cast<unsigned long long>(seen.count), seen.name, longest,
                std::chrono::duration<double>(kVolumeDeadline).count(), errors.c_str());
    EXPECT_LE(seen.longest, kVolumeDeadline + kSlack);
    EXPECT_FALSE(seen.errors.empty()) << "the fault was not felt";
  }

  // Of requests that were answered without their calls, as the metrics count them.
  VolumeStatistics counted() {
    const auto statistics = [](Engine& engine) { return engine.volumes().statistics(); };
    return near_->await(statistics(near_->engine())).front();
  }

  TemporaryFolder folder_;
  TestingHolder holder_{folder_.path("holder.sock")};
  const std::shared_ptr<DiskFaults> faults_ = std::make_shared<DiskFaults>(folder_.path("farDisk"));
  std::unique_ptr<Agent> near_, far_;
  Calls calls_;
};

TEST_F(VolumeFaults, TheAgentOfTheProgramsIsStopped) {
  ASSERT_NO_FATAL_FAILURE(begin());
  std::optional<Stopped> stopped;
  run([&] { stopped.emplace(*near_); }, [&] { stopped.reset(); });
  EXPECT_TRUE(eventually([&] { return counted().unserved != 0; }));
}

TEST_F(VolumeFaults, TheLeaderIsStopped) {
  ASSERT_NO_FATAL_FAILURE(begin());
  std::optional<Stopped> stopped;
  run([&] { stopped.emplace(*far_); }, [&] { stopped.reset(); });
}

TEST_F(VolumeFaults, TheLeaderHasGone) {
  ASSERT_NO_FATAL_FAILURE(begin());
  run([&] { far_->stop(); }, nullptr);
}

TEST_F(VolumeFaults, TheDiskOfTheLogHangs) {
  ASSERT_NO_FATAL_FAILURE(begin());
  std::vector<testing_support::DiskCall> all;
  for (std::size_t i = 0; i < kDiskOperations; ++i)
    all.push_back(static_cast<testing_support::DiskCall>(i));
  run([&] { faults_->hang(all); }, [&] { faults_->resume(); });
}

TEST_F(VolumeFaults, TheMemoryIsFull) {
  ASSERT_NO_FATAL_FAILURE(begin());
  std::vector<std::unique_ptr<MemoryPressure>> full;
  run(
      [&] {
        for (const auto& shard : near_->engine().commons().shards)
          full.push_back(std::make_unique<MemoryPressure>(*shard));
      },
      [&] { full.clear(); });
}

TEST_F(VolumeFaults, TheDiskOfSessionFilesHangs) {
  FrozenDisk disk(folder_.path());
  if (!disk.mounted()) GTEST_SKIP() << "needs a loop device";
  ASSERT_NO_FATAL_FAILURE(begin(disk.path()));
  run([&] { disk.freeze(); }, [&] { disk.thaw(); });
  EXPECT_NE(counted().overdue, 0U);
}

}  // namespace
}  // namespace hearth::testing_cluster
