// Engines that end while an origin hangs, and while they wait for one another.
#include <atomic>
#include <future>
#include <thread>

#include "directory/directory_message.h"
#include "engine/loopback_server.h"
#include "engine/testing_cluster.h"
#include "mount/dataset_source.h"
#include "transport/testing/forwarding_transport.h"
#include "transport/testing/memory_network.h"

namespace hearth::testing_cluster {
namespace {

// Files of a MiB that nobody will see.
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
  ASSERT_TRUE(source.advise(0, Advice::kWillNeed, 1).ok());
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
  ASSERT_TRUE(
      eventually([&] { return agent.await(agent.engine().statistics()).origin.requests >= 4; }));
  agent.engine().close();
  // Readers of a mount wait for the next agent. They would have got an error if the requests had
  // been given up one by one.
  for (std::future<ErrorCode>& reader : readers) EXPECT_EQ(reader.get(), ErrorCode::kCancelled);
}

// Counts the calls of one agent in which it waits for a chunk that another one fetches.
class CountedTransport final : public testing_rails::ForwardingTransport {
 public:
  CountedTransport(std::unique_ptr<PeerTransport> inner, std::atomic<int>& awaiting)
      : ForwardingTransport(std::move(inner)), awaiting_(awaiting) {}
  Task<Result<ControlMessage>> call(std::string node, ControlMessage request,
                                    RequestTimeouts timeouts) override {
    const bool awaits = request.type == static_cast<std::uint16_t>(DirectoryMessage::kAwait);
    if (awaits) ++awaiting_;
    Result<ControlMessage> answer =
        co_await ForwardingTransport::call(std::move(node), std::move(request), timeouts);
    if (awaits) --awaiting_;
    co_return answer;
  }

 private:
  std::atomic<int>& awaiting_;
};

// An agent, a file that it fetches, and one that it waits for the other agent to fetch.
struct Waiting {
  Waiting(const std::string& name, testing_rails::MemoryNetwork& network,
          const LoopbackServer& origin)
      : agent(name,
              [this, &network](EngineOptions& options) {
                options.transport = [this, make = network.factory()](
                                        Reactor& reactor, TransportOptions transport,
                                        PeerHandler& handler) -> std::unique_ptr<PeerTransport> {
                  return std::make_unique<CountedTransport>(
                      make(reactor, std::move(transport), handler), awaiting);
                };
              }),
        dataset(*agent.await(agent.engine().manifests().add(manifestOfHttp(2)))),
        source(*agent.engine().commons().mounting, dataset, "test", false) {
    Location base;
    base.url = origin.url();
    dataset->locations.setBase(std::move(base));
  }
  void read(std::size_t file) {
    const auto opened = source.openFile(filesOf(*dataset->manifest)[file]);
    ASSERT_TRUE(opened.ok());
    auto answered = std::make_shared<std::promise<ErrorCode>>();
    readers.push_back(answered->get_future());
    (*opened)->read(0, 4096, [answered, keep = *opened](Result<MappedBytes> bytes) {
      answered->set_value(bytes.code());
    });
  }
  [[nodiscard]] std::uint64_t requests() {
    return agent.await(agent.engine().statistics()).origin.requests;
  }

  std::atomic<int> awaiting{0};
  Agent agent;
  std::shared_ptr<Dataset> dataset;
  DatasetSource source;
  std::vector<std::future<ErrorCode>> readers;
};

// Neither waits for the other one to end first.
TEST(EngineClose, TwoEnginesThatWaitForEachOtherEnd) {
  const LoopbackServer silent;
  testing_rails::MemoryNetwork network({}, 1);
  Waiting a("a", network, silent), b("b", network, silent);
  connect({&a.agent, &b.agent});
  a.read(0);
  ASSERT_TRUE(eventually([&] { return a.requests() != 0; }));
  b.read(1);
  ASSERT_TRUE(eventually([&] { return b.requests() != 0; }));
  a.read(1);
  b.read(0);
  ASSERT_TRUE(eventually([&] { return a.awaiting != 0 && b.awaiting != 0; }));
  std::vector<std::thread> closing;
  for (Waiting* const each : {&a, &b}) {
    closing.emplace_back([each] { each->agent.engine().close(); });
  }
  for (std::thread& thread : closing) thread.join();
  for (Waiting* const each : {&a, &b}) {
    for (std::future<ErrorCode>& reader : each->readers)
      EXPECT_EQ(reader.get(), ErrorCode::kCancelled);
    for (const std::unique_ptr<Shard>& shard : each->agent.engine().commons().shards) {
      EXPECT_EQ(shard->peerBuffers->inUse(), 0u);
      EXPECT_EQ(shard->originBuffers->inUse(), 0u);
    }
  }
}

}  // namespace
}  // namespace hearth::testing_cluster
