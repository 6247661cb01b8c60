// Programs whose requests take longer than the volume's deadline, or whose agent stands still.
#include <deque>
#include <future>
#include <latch>

#include "volume_mount/testing/volume_fixture.h"

namespace hearth::volume_testing {
namespace {

constexpr auto kDeadline = std::chrono::milliseconds(300);
// Longer than the agent's thread has to wait for the machine.
constexpr auto kPatient = std::chrono::seconds(1);
constexpr auto kLong = std::chrono::minutes(10);

class VolumeDeadline : public VolumeMountTest {
 protected:
  // The thread that answers the requests of both nodes, as in an agent that was stopped.
  class Stopped {
   public:
    explicit Stopped(Reactor& reactor) {
      reactor.post([this] {
        standing_.count_down();
        over_.wait();
        ended_.count_down();
      });
      standing_.wait();
    }
    ~Stopped() {
      over_.count_down();
      ended_.wait();
    }
    Stopped(const Stopped&) = delete;
    Stopped& operator=(const Stopped&) = delete;

   private:
    std::latch standing_{1}, over_{1}, ended_{1};
  };

  // Until the holder can see them.
  void setLimits(Clock::duration limit) {
    a_.files->limit = b_.files->limit = limit;
    EXPECT_TRUE(eventually([&] {
      const Clock::time_point latest = Clock::now() + limit;
      return a_.watch->until() <= latest && b_.watch->until() <= latest;
    }));
  }
  void TearDown() override {
    VolumeMountTest::TearDown();  // ends what they wait for
    programs_.clear();
  }
  std::future<int>& call(std::function<int()> made) {
    return programs_.emplace_back(std::async(
        std::launch::async, [made = std::move(made)] { return made() < 0 ? errno : 0; }));
  }
  std::deque<std::future<int>> programs_;
  bool isThere(const std::string& name) {
    bool found = false;
    onReactor(
        [&] { found = volume_->led.tree.lookUp(tree::kRootInode, name).inode != tree::kNoInode; });
    return found;
  }
};

TEST_F(VolumeDeadline, ACallThatTakesLongerEndsAndItsLateAnswerIsDropped) {
  a_.files->keepsAnswers = true;
  a_.files->limit = kPatient;
  EXPECT_EQ(call([&] { return mkdir(at(a_, "folder").c_str(), 0755); }).get(), ETIMEDOUT);
  EXPECT_TRUE(isThere("folder")) << "it was executed";
  const int file = open(at(a_, "file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  EXPECT_EQ(file, -1);
  EXPECT_EQ(errno, ETIMEDOUT);
  const auto inode = [&] { return volume_->led.tree.lookUp(tree::kRootInode, "file").inode; };
  EXPECT_TRUE(isThere("file"));
  a_.files->keepsAnswers = false;
  EXPECT_TRUE(eventually([&] {
    bool open = true;
    onReactor([&] { open = a_.files->isOpen(inode()) || a_.files->writersOf(inode()) != 0; });
    return !open;
  })) << "a file that no program got does not stay open";
  writeFile(at(a_, "file"), "bytes");
  EXPECT_EQ(bytesOf(at(b_, "file")), "bytes");
}

TEST_F(VolumeDeadline, RequestsOfAnAgentThatStandsStillEndAndItGoesOnAfterwards) {
  OwnedFd file(open(at(a_, "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_TRUE(file);
  ASSERT_EQ(write(file.get(), "before", 6), 6);
  const ino_t inode = statOf(at(a_, "file")).st_ino;
  const auto writers = [&] {
    std::uint32_t count = 0;
    onReactor([&] { count = a_.files->writersOf(tree::InodeId{inode}); });
    return count;
  };
  setLimits(kDeadline);
  {
    const Stopped still(*reactor_);
    // From when it goes on.
    a_.files->limit = b_.files->limit = kLong;
    call([&] { return mkdir(at(a_, "folder").c_str(), 0755); });
    call([&] { return fsync(file.get()); });
    call([&] {
      struct stat info {};
      return stat(at(a_, "file").c_str(), &info);
    });
    call([&] { return unlink(at(b_, "file").c_str()); });
    for (auto& program : programs_) {
      ASSERT_EQ(program.wait_for(kHang), std::future_status::ready);
      EXPECT_EQ(program.get(), EIO);
    }
    EXPECT_EQ(pwrite(file.get(), "after ", 6, 0), 6) << "by passthrough";
    // Its FLUSH ends with EIO; its RELEASE waits for the agent.
    EXPECT_EQ(close(file.release()), -1);
  }
  EXPECT_TRUE(eventually([&] { return writers() == 0; })) << "the agent got the RELEASE";
  EXPECT_EQ(bytesOf(at(b_, "file")), "after ");
  EXPECT_EQ(mkdir(at(a_, "other").c_str(), 0755), 0);
  EXPECT_EQ(bytesOf(at(a_, "file")), "after ");
}

}  // namespace
}  // namespace hearth::volume_testing
