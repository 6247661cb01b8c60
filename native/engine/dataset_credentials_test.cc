// Datasets of the same files: bytes are shared, locations are not.
#include <condition_variable>
#include <future>

#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {
namespace {

// The datasets whose locations an agent was asked for.
class LocationRequests {
 public:
  EventSink events() {
    return [this](const EngineEvent& event) {
      if (event.kind != EngineEvent::Kind::kLocations) return;
      const std::lock_guard lock(mutex_);
      datasets_.push_back(event.dataset);
      changed_.notify_all();
    };
  }
  void await(const std::string& dataset) {
    std::unique_lock lock(mutex_);
    const bool came = changed_.wait_for(lock, kHang, [&] {
      return std::find(datasets_.begin(), datasets_.end(), dataset) != datasets_.end();
    });
    EXPECT_TRUE(came) << "no event asked for locations of " << dataset;
  }
  std::vector<std::string> datasets() {
    const std::lock_guard lock(mutex_);
    return datasets_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> datasets_;
};

struct DatasetCredentialsTest : testing::Test {
  DatasetCredentialsTest() { origin.add("model", 100'000); }

  std::shared_ptr<Dataset> of(Agent& agent, const std::string& id) {
    const auto added = agent.await(agent.engine().manifests().add(origin.manifest()));
    EXPECT_TRUE(added.ok());
    return agent.engine().manifests().find((*added)->manifest->digest(), id);
  }
  void allow(Dataset& dataset) {
    Location base;
    base.path = base.below = origin.folder();
    dataset.locations.setBase(std::move(base));
  }
  static void refuse(Dataset& dataset) {
    dataset.locations.fail(model(dataset), {ErrorCode::kPermissionDenied, "the bucket refuses"});
  }
  static std::uint32_t model(const Dataset& dataset) { return *dataset.manifest->lookUp("model"); }
  static std::future<ErrorCode> read(Agent& agent, std::shared_ptr<Dataset> dataset) {
    return std::async(std::launch::async, [&agent, dataset] {
      const auto bytes =
          agent.await(agent.engine().contents().read(dataset, model(*dataset), 0, 100'000));
      return bytes.code();
    });
  }
  // Our dataset wants the chunk while the other one fetches it, which alone is refused.
  void expectRefusedToThemAlone(Agent& theirAgent, std::shared_ptr<Dataset> theirs, Agent& myAgent,
                                std::shared_ptr<Dataset> mine, std::chrono::milliseconds wait) {
    allow(*mine);
    auto first = read(theirAgent, theirs);
    requests.await("theirs");
    auto second = read(myAgent, mine);
    std::this_thread::sleep_for(wait);
    refuse(*theirs);
    EXPECT_EQ(first.get(), ErrorCode::kPermissionDenied);
    EXPECT_EQ(second.get(), ErrorCode::kOk);
  }

  Origin origin;
  LocationRequests requests;
};

TEST_F(DatasetCredentialsTest, AsksForLocationsAsTheReadersOwnDataset) {
  Agent agent("one", 4ull << 30, requests.events());
  const auto theirs = of(agent, "theirs"), mine = of(agent, "mine");
  allow(*theirs);
  auto reading = read(agent, mine);
  requests.await("mine");
  refuse(*mine);
  EXPECT_EQ(reading.get(), ErrorCode::kPermissionDenied) << "by the rights of others";
  EXPECT_EQ(read(agent, theirs).get(), ErrorCode::kOk);
  EXPECT_EQ(requests.datasets(), std::vector<std::string>{"mine"});
  EXPECT_EQ(read(agent, mine).get(), ErrorCode::kOk) << "what is here needs no origin";
}

TEST_F(DatasetCredentialsTest, AnOpenFileOfOthersDoesNotLendItsRights) {
  Agent agent("one", 4ull << 30, requests.events());
  const auto theirs = of(agent, "theirs"), mine = of(agent, "mine");
  allow(*theirs);
  Shard& shard = agent.engine().commons().owner(theirs->manifest->entry(model(*theirs)).key);
  const auto open = [&shard](std::shared_ptr<Dataset> dataset) {
    struct Each {
      static Task<std::shared_ptr<FileFetch>> run(Shard& shard, FileReference file) {
        co_await shard.reactor->enter();
        const Result<std::shared_ptr<FileFetch>> opened =
            co_await shard.fetcher->open(std::move(file));
        co_return *opened;
      }
    };
    const std::uint32_t entry = model(*dataset);
    return runOn(*shard.reactor, Each::run(shard, FileReference::of(dataset, entry)));
  };
  const auto held = open(theirs);
  auto reading = read(agent, mine);
  requests.await("mine");
  refuse(*mine);
  EXPECT_EQ(reading.get(), ErrorCode::kPermissionDenied);
  EXPECT_EQ(open(theirs), held);
}

TEST_F(DatasetCredentialsTest, FetchesAsItsOwnWhatOthersWereRefused) {
  Agent agent("one", 4ull << 30, requests.events());
  expectRefusedToThemAlone(agent, of(agent, "theirs"), agent, of(agent, "mine"),
                           std::chrono::milliseconds(50));
}

// The other agent has the grant of the chunk.
TEST_F(DatasetCredentialsTest, FetchesWhatAnotherAgentWasRefused) {
  Agent a("a", 4ull << 30, requests.events()), b("b");
  connect({&a, &b});
  expectRefusedToThemAlone(a, of(a, "theirs"), b, of(b, "mine"), std::chrono::milliseconds(200));
}

TEST_F(DatasetCredentialsTest, ForgetsLocationsOfOtherCredentials) {
  Agent agent("one", 4ull << 30, requests.events());
  const auto mine = of(agent, "mine");
  allow(*mine);
  mine->locations.clear();
  auto reading = read(agent, mine);
  requests.await("mine");
  allow(*mine);
  EXPECT_EQ(reading.get(), ErrorCode::kOk);
}

}  // namespace
}  // namespace hearth::testing_cluster
