// All read calls of the interface, at the same time on several threads, while each of three agents
// is killed and comes back: every request ends once, with the right answer.
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "client_tests/testing/agent_process.h"
#include "client_tests/testing_client.h"

namespace hearth::testing_client {
namespace {

constexpr std::uint64_t kSurvivorBytes = 3 * kChunkBytes + 777;
constexpr std::size_t kMostRead = 1u << 20;
const std::string kModel = "/dataset/llm/model";

// A request of a program, and what belongs to it until it ends.
struct Asked {
  enum class Call : std::uint8_t { kRead, kStat, kList, kAdvise };
  static constexpr int kCalls = 4;

  Call call = Call::kRead;
  bool isInFlight = false;
  std::uint64_t number = 0;  // of all requests
  std::uint64_t offset = 0;
  std::size_t size = 0;
  std::vector<char> memory = std::vector<char>(kMostRead);
  xfer_gd2fs_iomem* iomem = nullptr;
  xfer_gd2fs_stat st{};
  std::array<xfer_gd2fs_dirent, 4> entries{};
};

class Workload {
 public:
  static constexpr std::size_t kInFlight = 16;

  Workload(xfer_gd2fs_ctx* ctx, std::string model) : ctx_(ctx), model_(std::move(model)) {
    for (Asked& asked : asked_) free_.push_back(&asked);
    for (unsigned seed = 1; seed <= 2; ++seed) {
      threads_.emplace_back([this, seed] { submit(seed); });
      threads_.emplace_back([this] { take(); });
    }
  }
  // Requests in flight end first.
  void finish() {
    {
      std::unique_lock lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return free_.size() == kInFlight; });
      ended_ = true;
    }
    for (std::thread& thread : threads_) thread.join();
  }
  // Until so many requests have ended that begin from now on.
  void awaitProgress(std::uint64_t count) {
    std::unique_lock lock(mutex_);
    const std::uint64_t from = submitted_;
    newer_ = 0;
    newerThan_ = from;
    changed_.wait(lock, [&] { return newer_ >= count; });
  }
  [[nodiscard]] bool exercisedEachCall() {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(endedOf_, [](std::uint64_t count) { return count != 0; });
  }

 private:
  void submit(unsigned seed) {
    std::mt19937_64 random(seed);
    for (;;) {
      Asked* asked = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stopping_ || !free_.empty(); });
        if (stopping_) return;
        asked = free_.back();
        free_.pop_back();
        asked->number = ++submitted_;
        asked->isInFlight = true;
      }
      // Half of all are reads.
      const auto call = random() % (2 * Asked::kCalls);
      asked->call = call < Asked::kCalls ? static_cast<Asked::Call>(call) : Asked::Call::kRead;
      EXPECT_EQ(begin(*asked, random), 0);
    }
  }
  int begin(Asked& asked, std::mt19937_64& random) {
    switch (asked.call) {
      case Asked::Call::kRead: {
        asked.offset = random() % kSurvivorBytes;
        asked.size = 3 + random() % (kMostRead - 3);
        char* const at = asked.memory.data();
        std::fill(asked.memory.begin(), asked.memory.end(), '\0');
        asked.iomem = xfer_gd2fs_reg_iomem(ctx_, at, kMostRead, nullptr);
        const std::size_t first = asked.size / 3, second = asked.size / 2;
        const std::array<xfer_gd2fs_sge, 3> sges{{{at, first, asked.iomem},
                                                  {at + first, second - first, asked.iomem},
                                                  {at + second, asked.size - second, asked.iomem}}};
        return static_cast<int>(xfer_gd2fs_preadv(ctx_, &asked, kModel.c_str(), asked.offset,
                                                  sges.data(), sges.size(), 0));
      }
      case Asked::Call::kStat:
        return xfer_gd2fs_fstat(ctx_, &asked, kModel.c_str(), &asked.st);
      case Asked::Call::kList:
        return xfer_gd2fs_list(ctx_, &asked, "/dataset/llm/folder", "a", asked.entries.data(),
                               asked.entries.size());
      case Asked::Call::kAdvise:
        return xfer_gd2fs_advise(ctx_, &asked, "/dataset/llm/folder", XFER_GD2FS_WILLNEED,
                                 XFER_GD2FS_NODE);
    }
  }
  void take() {
    std::array<xfer_gd2fs_completion, 3> done{};
    for (;;) {
      const int count = xfer_gd2fs_wait(ctx_, done.data(), done.size(), 20);
      ASSERT_GE(count, 0);
      for (int i = 0; i < count; ++i) check(done[static_cast<std::size_t>(i)]);
      const std::lock_guard lock(mutex_);
      if (ended_ && count == 0) return;
    }
  }
  void check(const xfer_gd2fs_completion& done) {
    Asked& asked = *static_cast<Asked*>(done.id);
    const unsigned code = XFER_GD2FS_STATUS_CODE(done.status);
    switch (asked.call) {
      case Asked::Call::kRead: {
        EXPECT_EQ(code, 0u);
        const std::size_t whole = std::min<std::size_t>(asked.size, kSurvivorBytes - asked.offset);
        EXPECT_EQ(done.value, whole);
        EXPECT_TRUE(model_.compare(asked.offset, whole, asked.memory.data(), whole) == 0)
            << "other bytes at " << asked.offset;
        EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx_, asked.iomem), 0);
        break;
      }
      case Asked::Call::kStat:
        EXPECT_EQ(code, 0u);
        EXPECT_EQ(asked.st.size, kSurvivorBytes);
        break;
      case Asked::Call::kList:
        EXPECT_EQ(code, 0u);
        EXPECT_EQ(done.value, 2u);
        EXPECT_STREQ(asked.entries[0].name, "b");
        EXPECT_STREQ(asked.entries[1].name, "c");
        break;
      case Asked::Call::kAdvise:
        // An agent takes no more than so much advice at a time.
        EXPECT_TRUE(code == 0 || code == EBUSY) << code;
        break;
    }
    const std::lock_guard lock(mutex_);
    EXPECT_TRUE(std::exchange(asked.isInFlight, false)) << "it has ended twice";
    ++endedOf_[static_cast<std::size_t>(asked.call)];
    if (asked.number > newerThan_) ++newer_;
    free_.push_back(&asked);
    changed_.notify_all();
  }

  xfer_gd2fs_ctx* const ctx_;
  const std::string model_;
  std::array<Asked, kInFlight> asked_;
  std::mutex mutex_;  // guards what follows, and Asked::isInFlight
  std::condition_variable changed_;
  std::vector<Asked*> free_;
  std::array<std::uint64_t, Asked::kCalls> endedOf_{};
  std::uint64_t submitted_ = 0, newerThan_ = 0, newer_ = 0;
  bool stopping_ = false, ended_ = false;
  std::vector<std::thread> threads_;
};

struct SurvivorsTest : ClientTest {
  SurvivorsTest() {
    origin.add("model", kSurvivorBytes);
    for (const char* const name : {"a", "b", "c"})
      origin.add(std::string("folder/") + name, kBlockBytes);
    origin.write();
    Capability capability = capabilityOf({"llm"});
    capability.rights |= static_cast<std::uint32_t>(CapabilityRight::kAdvise) |
                         static_cast<std::uint32_t>(CapabilityRight::kAdviseCluster);
    useToken(capability);
    for (int i = 0; i < 3; ++i) {
      agents.push_back(std::make_unique<AgentProcess>(origin, "agent-" + std::to_string(i),
                                                      "127.0.0." + std::to_string(i + 2)));
      addresses += (addresses.empty() ? "" : ",") + agents.back()->address();
    }
    joinAll();
  }
  void joinAll() {
    std::string cluster;
    for (const auto& agent : agents) cluster += agent->member() + " ";
    for (const auto& agent : agents)
      if (agent->runs()) agent->join(cluster);
  }
  // It answers clients.
  static void awaitAnswers(const AgentProcess& agent) {
    const std::string address = agent.address();
    xfer_gd2fs_options given{};
    given.cp_address = address.c_str();
    given.cluster_id = "test";
    given.iothread_count = 1;
    EXPECT_TRUE(eventually([&] {
      xfer_gd2fs_ctx* const answered = xfer_gd2fs_connect(&given);
      xfer_gd2fs_close(answered);
      return answered != nullptr;
    }));
  }

  SharedOrigin origin;
  std::vector<std::unique_ptr<AgentProcess>> agents;
  std::string addresses;
};

TEST_F(SurvivorsTest, AgentsThatAreKilledInTurnLoseNoRequest) {
  constexpr std::uint64_t kEnough = 2 * Workload::kInFlight;
  open(addresses);
  Workload workload(ctx, origin.bytesOf("model"));
  for (const auto& agent : agents) {
    workload.awaitProgress(kEnough);
    agent->kill();
    workload.awaitProgress(kEnough);
    agent->start();
    joinAll();
    awaitAnswers(*agent);
  }
  // Two at a time: the third one answers alone.
  agents[0]->kill();
  agents[1]->kill();
  workload.awaitProgress(kEnough);
  workload.finish();
  EXPECT_TRUE(workload.exercisedEachCall());
}

TEST_F(SurvivorsTest, WhenAllAreKilledEachCallSaysSo) {
  xfer_gd2fs_options given = options(addresses);
  given.timeout = 500;
  ctx = xfer_gd2fs_connect(&given);
  ASSERT_NE(ctx, nullptr);
  for (const auto& agent : agents) agent->kill();
  xfer_gd2fs_stat st{};
  xfer_gd2fs_dirent entry{};
  std::array<char, 8> bytes{};
  const xfer_gd2fs_sge sge{bytes.data(), bytes.size(),
                           xfer_gd2fs_reg_iomem(ctx, bytes.data(), bytes.size(), nullptr)};
  const char* const model = kModel.c_str();
  EXPECT_EQ(xfer_gd2fs_fstat(ctx, nullptr, model, &st), 0);
  EXPECT_EQ(xfer_gd2fs_preadv(ctx, nullptr, model, 0, &sge, 1, 0), 0);
  EXPECT_EQ(xfer_gd2fs_list(ctx, nullptr, "/dataset/llm", nullptr, &entry, 1), 0);
  EXPECT_EQ(
      xfer_gd2fs_advise(ctx, nullptr, "/dataset/llm", XFER_GD2FS_WILLNEED, XFER_GD2FS_CLUSTER), 0);
  for (int i = 0; i < 4; ++i) {
    const xfer_gd2fs_completion done = next();
    EXPECT_EQ(XFER_GD2FS_STATUS_CLASS(done.status), XFER_GD2FS_CLASS_CLUSTER);
    EXPECT_EQ(done.value, 0u);
  }
  EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, sge.iomem), 0);
}

}  // namespace
}  // namespace hearth::testing_client
