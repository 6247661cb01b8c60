// Values under keys, when clients go, agents stand still, and messages lie.
#include <gtest/gtest.h>

#include "base/testing/eventually.h"
#include "client_tests/testing_kv.h"
#include "engine/testing_stopped.h"
#include "transport/raw_peer.h"
#include "wire/client_message.h"
#include "wire/object_message.h"

namespace hearth::testing_client {
namespace {

struct KvFailuresTest : testing::Test {
  KvFailuresTest() { useToken(volumeCapability()); }
  ~KvFailuresTest() override { unsetenv("HEARTH_TOKEN"); }

  // Names of files in a folder of the volume; none where there is no folder.
  std::vector<std::string> namesIn(Agent& agent, std::vector<std::string> folders) {
    const std::shared_ptr<Volume> volume = agent.engine().volumes().find(VolumeCluster::kVolume);
    return runOn(*volume->shard.reactor, listed(volume->sessions, std::move(folders)));
  }
  // Values that agents are writing.
  std::vector<std::string> unfinished(Agent& agent) {
    return namesIn(agent, {".kv", "writing",
                           hearth::hexOf(Sha256::of(std::as_bytes(std::span(agent.name()))))});
  }
  static Task<std::vector<std::string>> listed(VolumeFiles& files,
                                               std::vector<std::string> folders) {
    tree::InodeId folder = tree::kRootInode;
    for (const std::string& name : folders) {
      const QueryReply found = co_await files.query(LookUpQuery{{folder, name}});
      if (!found.attributes) co_return std::vector<std::string>();
      folder = found.attributes->id;
    }
    const QueryReply list = co_await files.query(ListQuery{folder, 0, kMaxListed});
    std::vector<std::string> names;
    for (const ListedEntry& entry : list.entries) names.push_back(entry.name);
    co_return names;
  }

  VolumeCluster cluster;
};

TEST_F(KvFailuresTest, AClientThatGoesInThePutLeavesAWholeValueOrNothing) {
  const std::vector<char> bytes = pattern(48u << 20, 1);
  KvClient reader(addressOf(cluster.c));
  for (int i = 0; i < 8; ++i) {
    const std::string key = "key " + std::to_string(i);
    {
      KvClient writer(addressOf(cluster.b));
      std::vector<KvClient::Value> values{{key, bytes}};
      ASSERT_EQ(writer.submit(hearth_kv_put, values), 0);
      hearth_kv_completion done{};
      done.size = sizeof done;
      eventually([&] {
        return VolumeCluster::rangesOf(cluster.b) != 0 ||
               hearth_kv_poll(writer.kv(), &done, 1) == 1;
      });
      // The context goes first, with what is on its way.
      xfer_gd2fs_close(writer.context());
      writer.closeSpace();
    }
    eventually([&] { return VolumeCluster::rangesOf(cluster.b) == 0; });
    if (reader.ask(hearth_kv_exists, {key}) == 0) {
      (void)reader.get(key, bytes.size(), ENOENT);
    } else {
      EXPECT_EQ(reader.get(key, bytes.size()), bytes) << "it had finished";
    }
    EXPECT_TRUE(eventually([&] { return unfinished(cluster.b).empty(); }));
  }
  EXPECT_TRUE(eventually([&] { return VolumeCluster::sessionsOf(cluster.b) == 0; }));
}

TEST_F(KvFailuresTest, TheFirstPutRemovesWhatAnEarlierAgentHasNotFinished) {
  // Its next start publishes what an agent that was killed has written.
  const Sha256Digest node = Sha256::of(std::as_bytes(std::span(cluster.b.name())));
  const std::string left = "/volume/kv/.kv/writing/" + hearth::hexOf(node) + "/left";
  KvClient client(addressOf(cluster.b)), other(addressOf(cluster.c));
  ASSERT_EQ(xfer_gd2fs_create(other.context(), nullptr, left.c_str(), 0, 0), 0);
  xfer_gd2fs_completion made{};
  ASSERT_EQ(xfer_gd2fs_wait(other.context(), &made, 1, -1), 1);
  ASSERT_EQ(made.status, 0u);
  ASSERT_EQ(unfinished(cluster.b).size(), 1u);
  ASSERT_EQ(other.put("k", pattern(100, 1)), 0);
  EXPECT_EQ(unfinished(cluster.b).size(), 1u) << "the folder is that of another node";
  ASSERT_EQ(client.put("l", pattern(100, 1)), 0);
  EXPECT_TRUE(unfinished(cluster.b).empty());
}

TEST_F(KvFailuresTest, ABatchEndsByItsTimeoutWhileTheAgentStandsStill) {
  KvClient client(addressOf(cluster.b));
  ASSERT_EQ(client.put("k", pattern(100, 1)), 0);
  const Stopped stopped(cluster.b);
  for (const KvClient::Call call :
       {hearth_kv_put, hearth_kv_get, hearth_kv_exists, hearth_kv_prefix}) {
    for (const std::size_t size : {std::size_t{100}, std::size_t{kChunkBytes}}) {
      std::vector<KvClient::Value> values{{"k", std::vector<char>(size)},
                                          {"l", std::vector<char>(size)}};
      const Clock::time_point begun = Clock::now();
      ASSERT_EQ(client.submit(call, values, 150), 0);
      EXPECT_EQ(client.finish(values).status, ETIMEDOUT);
      EXPECT_GE(Clock::now() - begun, std::chrono::milliseconds(150));
      EXPECT_EQ(values[0].status, ETIMEDOUT);
    }
  }
  EXPECT_EQ(hearth_kv_drain(client.kv(), -1), 0);
}

TEST_F(KvFailuresTest, ACancelledBatchIsThereAtOnce) {
  KvClient client(addressOf(cluster.b));
  ASSERT_EQ(client.put("k", pattern(100, 1)), 0);
  std::vector<KvClient::Value> values{{"k", std::vector<char>(100)},
                                      {"big", std::vector<char>(8u << 20)}};
  for (const KvClient::Call call : {hearth_kv_put, hearth_kv_get, hearth_kv_exists}) {
    const Stopped stopped(cluster.b);
    ASSERT_EQ(client.submit(call, values), 0);
    EXPECT_EQ(hearth_kv_cancel(client.kv(), &client), 0) << "no batch has that id";
    EXPECT_EQ(hearth_kv_cancel(client.kv(), &values), 1);
    EXPECT_EQ(hearth_kv_cancel(client.kv(), &values), 0) << "it has ended";
    const hearth_kv_completion done = client.finish(values);
    EXPECT_EQ(done.status, ECANCELED);
    EXPECT_EQ(values[0].status, ECANCELED);
  }
  EXPECT_EQ(hearth_kv_drain(client.kv(), -1), 0) << "the agent goes on";
  EXPECT_EQ(client.get("k", 100), pattern(100, 1));
}

TEST_F(KvFailuresTest, ClosingASpaceEndsWhatItHasInFlight) {
  KvClient client(addressOf(cluster.b));
  std::vector<KvClient::Value> values{{"big", pattern(64u << 20, 1)}};
  ASSERT_EQ(client.submit(hearth_kv_put, values), 0);
  client.closeSpace();
  EXPECT_TRUE(eventually([&] { return VolumeCluster::rangesOf(cluster.b) == 0; }));
}

TEST_F(KvFailuresTest, AClosedContextEndsBatchesAndRefusesOthers) {
  KvClient client(addressOf(cluster.b));
  std::vector<KvClient::Value> values{{"big", pattern(64u << 20, 1)}};
  ASSERT_EQ(client.submit(hearth_kv_put, values), 0);
  xfer_gd2fs_close(client.context());
  const hearth_kv_completion done = client.finish(values);
  EXPECT_TRUE(done.status == ECANCELED || done.status == 0) << done.status;
  EXPECT_EQ(done.flags, 0u);
  EXPECT_EQ(client.submit(hearth_kv_exists, values), -EBADF);
}

TEST_F(KvFailuresTest, RefusesCallsThatMakeNoSense) {
  KvClient client(addressOf(cluster.b));
  char byte = 'x';
  hearth_kv_item item{};
  hearth_kv_batch batch{};
  const auto refused = [&](KvClient::Call call, auto change) {
    item = {};
    item.size = sizeof item;
    item.key = &byte;
    item.key_bytes = 1;
    batch = {};
    batch.size = sizeof batch;
    batch.items = &item;
    batch.count = 1;
    change();
    return call(client.kv(), &batch);
  };
  const auto all = [&](auto change) {
    for (const KvClient::Call call :
         {hearth_kv_put, hearth_kv_get, hearth_kv_exists, hearth_kv_prefix, hearth_kv_delete})
      EXPECT_EQ(refused(call, change), -EINVAL);
  };
  all([&] { batch.size = 8; });
  all([&] { batch.flags = 1; });
  all([&] { batch.count = 0; });
  all([&] { batch.count = HEARTH_KV_MAX_ITEMS + 1; });
  all([&] { item.size = sizeof item - 8; });
  all([&] { item.size = sizeof item + 1; });
  all([&] { item.key_bytes = 0; });
  all([&] { item.key_bytes = HEARTH_KV_MAX_KEY_BYTES + 1; });
  all([&] { item.key = nullptr; });
  for (const KvClient::Call call : {hearth_kv_put, hearth_kv_get})
    EXPECT_EQ(refused(call, [] {}), -EINVAL) << "no memory";
  const xfer_gd2fs_sge unknown{&byte, 1, nullptr};
  EXPECT_EQ(refused(hearth_kv_put,
                    [&] {
                      item.sges = &unknown;
                      item.sge_count = 1;
                    }),
            -EFAULT);
  EXPECT_EQ(hearth_kv_put(client.kv(), nullptr), -EINVAL);
  EXPECT_EQ(hearth_kv_put(nullptr, &batch), -EINVAL);
  for (const char* const volume : {"", ".", "..", "a/b"}) {
    hearth_kv_space space{};
    space.size = sizeof space;
    space.volume = volume;
    space.fingerprint = &byte;
    space.fingerprint_bytes = 1;
    EXPECT_EQ(hearth_kv_open(client.context(), &space), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST_F(KvFailuresTest, MemoryThatIsNotThereIsAStatus) {
  KvClient client(addressOf(cluster.b));
  for (const std::size_t size : {std::size_t{100}, std::size_t{kChunkBytes}}) {
    for (const KvClient::Call call : {hearth_kv_put, hearth_kv_get}) {
      const std::string key = "key " + std::to_string(size);
      if (call == hearth_kv_get) ASSERT_EQ(client.put(key, pattern(size, 1)), 0);
      // NOLINTNEXTLINE(performance-no-int-to-ptr): no mapping is there.
      void* const nowhere = reinterpret_cast<void*>(std::uintptr_t{1} << 46);
      const xfer_gd2fs_sge sge{nowhere, size,
                               xfer_gd2fs_reg_iomem(client.context(), nowhere, size, nullptr)};
      hearth_kv_item item{};
      item.size = sizeof item;
      item.key = key.data();
      item.key_bytes = key.size();
      item.sges = &sge;
      item.sge_count = 1;
      hearth_kv_batch batch{};
      batch.size = sizeof batch;
      batch.items = &item;
      batch.count = 1;
      ASSERT_EQ(call(client.kv(), &batch), 0);
      hearth_kv_completion done{};
      done.size = sizeof done;
      ASSERT_EQ(hearth_kv_wait(client.kv(), &done, 1, -1), 1);
      EXPECT_EQ(item.status, EFAULT);
    }
  }
}

// A peer that sends what no library does.
struct LyingClient {
  explicit LyingClient(Agent& agent) : peer(agent.engine().addresses().front()) {
    const Result<CapabilityToken> token = signCapability(volumeCapability(), kSecret);
    EXPECT_TRUE(peer.joinAsClient(*token, "liar"));
    EXPECT_TRUE(peer.expect<Credit>());
  }
  ErrorCode ask(ClientMessage type, std::vector<std::byte> body) {
    ControlRequest request;
    request.type = static_cast<std::uint16_t>(type);
    request.body = std::move(body);
    EXPECT_TRUE(peer.send(encodeFrame(request, ++last)));
    const std::optional<ControlAnswer> answer = peer.expect<ControlAnswer>();
    EXPECT_TRUE(answer.has_value());
    return answer ? answer->code : ErrorCode::kInternal;
  }

  RawPeer peer;
  std::uint64_t last = 0;
};

TEST_F(KvFailuresTest, LyingLengthsAreRefusedAndLeaveNothing) {
  LyingClient liar(cluster.b);
  const ObjectName name{{"kv", {1}}, {2}};
  std::vector<std::byte> put =
      encode(PutRequest{name, 100, InlineValue{std::vector<std::byte>(100), 0}});
  EXPECT_EQ(liar.ask(ClientMessage::kPut, put), ErrorCode::kCorrupt) << "the checksum";
  put.pop_back();
  EXPECT_EQ(liar.ask(ClientMessage::kPut, put), ErrorCode::kProtocolError);
  EXPECT_EQ(liar.ask(ClientMessage::kPut, encode(PutRequest{name, 0, std::nullopt})),
            ErrorCode::kProtocolError);
  std::vector<std::byte> keys = encode(KeysRequest{name.space, {{1}, {2}}});
  keys.resize(keys.size() - 32);
  for (const ClientMessage type : {ClientMessage::kExist, ClientMessage::kDelete})
    EXPECT_EQ(liar.ask(type, keys), ErrorCode::kProtocolError);
  std::vector<std::byte> get = encode(GetRequest{name, 0});
  get.back() = std::byte{0xff};
  EXPECT_EQ(liar.ask(ClientMessage::kGet, get), ErrorCode::kProtocolError);
  // A value that is announced and never comes.
  EXPECT_EQ(liar.ask(ClientMessage::kPut, encode(PutRequest{name, 1u << 20, std::nullopt})),
            ErrorCode::kOk);
  EXPECT_EQ(unfinished(cluster.b).size(), 1u);
  EXPECT_EQ(liar.ask(ClientMessage::kGet, encode(GetRequest{name, 0})), ErrorCode::kNotFound);
  EXPECT_TRUE(eventually([&] { return unfinished(cluster.b).empty(); }));
}

}  // namespace
}  // namespace hearth::testing_client
