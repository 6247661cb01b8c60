// Files that an origin refuses to give.
#include <filesystem>
#include <future>
#include <mutex>
#include <thread>

#include "engine/testing_cluster.h"
#include "mount/dataset_source.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::uint64_t kSize = 400u << 20;

// Answers the events of an agent on a thread of its own, as JavaScript does, with a refusal.
class Refuser {
 public:
  ~Refuser() {
    ended_ = true;
    thread_.join();
  }
  void onEvent(EngineEvent event) {
    if (event.kind != EngineEvent::Kind::kLocations) return;
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(event));
    ++asked_;
  }
  void refuseFor(std::shared_ptr<Dataset> dataset) {
    const std::lock_guard lock(mutex_);
    dataset_ = std::move(dataset);
  }
  [[nodiscard]] int asked() const { return asked_; }

 private:
  void answer() {
    while (!ended_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const std::lock_guard lock(mutex_);
      for (const EngineEvent& event : std::exchange(waiting_, {})) {
        for (const std::uint32_t entry : event.entries) {
          dataset_->locations.fail(entry, {ErrorCode::kPermissionDenied, "not for you"});
        }
      }
    }
  }

  std::mutex mutex_;
  std::vector<EngineEvent> waiting_;
  std::shared_ptr<Dataset> dataset_;
  std::atomic<int> asked_{0};
  std::atomic<bool> ended_{false};
  std::thread thread_{[this] { answer(); }};
};

TEST(RefusedFile, IsAskedForOnceAndNotPieceByPiece) {
  Origin origin;
  origin.add("large", 1);
  std::filesystem::resize_file(origin.folder() + "/large", kSize);
  Refuser refuser;
  Agent agent("one", 4ull << 30,
              [&refuser](EngineEvent event) { refuser.onEvent(std::move(event)); });
  const auto added = agent.await(agent.engine().manifests().add(origin.manifest()));
  ASSERT_TRUE(added.ok());
  const std::shared_ptr<Dataset> dataset = *added;
  refuser.refuseFor(dataset);
  DatasetSource source(*agent.engine().commons().mounting, dataset, "test", false);
  const auto opened = source.openFile(filesOf(*dataset->manifest).front());
  ASSERT_TRUE(opened.ok());

  const auto begun = Clock::now();
  (*opened)->willNeed(0, kSize);
  for (std::uint64_t offset = 0; offset < kSize; offset += kChunkBytes) {
    std::promise<ErrorCode> came;
    (*opened)->read(offset, 4096, [&](const auto& bytes) {
      came.set_value(bytes.ok() ? ErrorCode::kOk : bytes.error().code);
    });
    EXPECT_EQ(came.get_future().get(), ErrorCode::kPermissionDenied);
  }
  // After a while the agent asks again.
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - begun);
  EXPECT_LE(refuser.asked(), 1 + 2 * seconds.count());

  Location base;
  base.path = origin.folder();
  base.below = base.path;
  dataset->locations.setBase(std::move(base));
  std::promise<bool> came;
  (*opened)->read(0, 4096, [&](const auto& bytes) { came.set_value(bytes.ok()); });
  EXPECT_TRUE(came.get_future().get());
}

}  // namespace
}  // namespace hearth::testing_cluster
