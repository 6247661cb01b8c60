// An engine that ends while an origin hangs.
#include <future>

#include "engine/loopback_server.h"
#include "engine/testing_cluster.h"
#include "mount/dataset_source.h"

namespace hearth::testing_cluster {
namespace {

using namespace std::chrono_literals;

// Files of a MiB, none of which anybody will see.
std::vector<std::byte> manifestOfHttp(int files) {
  ManifestBuilder builder(false);
  for (int i = 0; i < files; ++i) {
    ManifestRow row;
    row.path = "part" + std::to_string(100 + i);
    row.size = 1u << 20;
    row.validator = "etag:\"1\"";
    row.key.bytes = Sha256::of(std::as_bytes(std::span(row.path)));
    builder.add(std::move(row));
  }
  Result<std::vector<std::byte>> bytes = builder.build();
  EXPECT_TRUE(bytes.ok());
  return std::move(*bytes);
}

TEST(EngineClose, EndsWhileTheOriginOfEverythingHangs) {
  const LoopbackServer silent;  // takes connections and never answers
  Agent agent("one");
  const auto added = agent.await(agent.engine().manifests().add(manifestOfHttp(40)));
  ASSERT_TRUE(added.ok());
  const std::shared_ptr<Dataset> dataset = *added;
  Location base;
  base.url = silent.url();
  dataset->locations.setBase(std::move(base));
  DatasetSource source(*agent.engine().commons().mounting, dataset, "test", false);
  const std::vector<std::uint32_t> files = filesOf(*dataset->manifest);
  ASSERT_TRUE(source.advise(0, true, 1).ok());
  agent.beginWarm(dataset);
  std::vector<std::future<ErrorCode>> readers;
  for (int i = 0; i < 4; ++i) {
    auto opened = source.openFile(files[static_cast<std::size_t>(i)]);
    ASSERT_TRUE(opened.ok());
    (*opened)->willNeed(0, 1u << 20);
    auto answered = std::make_shared<std::promise<ErrorCode>>();
    readers.push_back(answered->get_future());
    (*opened)->read(0, 4096, [answered, keep = *opened](Result<MappedBytes> bytes) {
      answered->set_value(bytes.code());
    });
  }
  for (const auto until = Clock::now() + 30s;;) {
    if (agent.await(agent.engine().statistics()).origin.requests >= 4) break;
    ASSERT_LT(Clock::now(), until);
    std::this_thread::sleep_for(5ms);
  }
  const auto began = Clock::now();
  agent.engine().close();
  // By itself the first request is given up after half a minute, and then tried again.
  EXPECT_LT(Clock::now() - began, 10s);
  // Who waits at a mount waits for the next agent.
  for (std::future<ErrorCode>& reader : readers) EXPECT_EQ(reader.get(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace hearth::testing_cluster
