// Values under keys of a volume, through libgd2fs.
#include <gtest/gtest.h>
#include <poll.h>

#include "base/testing/eventually.h"
#include "client_tests/testing_kv.h"

extern "C" long hearth_put_and_get_from_c(const xfer_gd2fs_options* options, const char* volume,
                                          const void* key, size_t key_bytes, void* value,
                                          void* into, size_t size);

namespace hearth::testing_client {
namespace {

constexpr std::size_t kSmall = 4096;
constexpr std::size_t kOdd = 2 * kChunkBytes + 4321;

struct KvTest : testing::Test {
  KvTest() { useToken(volumeCapability(static_cast<std::uint32_t>(CapabilityRight::kDelete))); }
  ~KvTest() override { unsetenv("HEARTH_TOKEN"); }

  VolumeCluster cluster;
};

TEST_F(KvTest, EveryNodeGetsWhatOneHasPut) {
  KvClient writer(addressOf(cluster.b));
  for (const std::size_t size : {std::size_t{1}, kSmall, kMaxInlineBytes, kMaxInlineBytes + 1,
                                 std::size_t{kBlockBytes} + 7, kOdd}) {
    const std::string key = "key of " + std::to_string(size);
    const std::vector<char> bytes = pattern(size, static_cast<unsigned>(size));
    ASSERT_EQ(writer.put(key, bytes), 0);
    for (Agent* const agent : cluster.all()) {
      KvClient reader(addressOf(*agent));
      EXPECT_EQ(reader.get(key, size), bytes);
      EXPECT_EQ(reader.get(key, size + 100), bytes) << "longer memory";
    }
  }
}

TEST_F(KvTest, AProgramInCPutsAndGets) {
  std::vector<char> bytes = pattern(kOdd, 3), into(kOdd);
  const std::string address = addressOf(cluster.b);
  xfer_gd2fs_options options{};
  options.cp_address = address.c_str();
  options.cluster_id = "test";
  EXPECT_EQ(hearth_put_and_get_from_c(&options, "kv", "key", 3, bytes.data(), into.data(), kOdd),
            static_cast<long>(kOdd));
  EXPECT_EQ(into, bytes);
}

TEST_F(KvTest, ABatchSaysOfEachItemHowItEnded) {
  KvClient client(addressOf(cluster.a));
  std::vector<KvClient::Value> values;
  for (unsigned i = 0; i < 40; ++i)
    values.push_back({"k" + std::to_string(i), pattern(i % 2 == 0 ? kSmall : 70'000, i)});
  hearth_kv_completion done = client.run(hearth_kv_put, values);
  EXPECT_EQ(done.value, 40u);
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(done.flags, 0u);
  std::vector<KvClient::Value> wanted;
  for (const KvClient::Value& value : values)
    wanted.push_back({value.key, std::vector<char>(value.bytes.size())});
  wanted.push_back({"absent", std::vector<char>(10)});
  wanted.push_back({"k1", std::vector<char>(69'999)});
  wanted.push_back({"k0", std::vector<char>(kSmall - 1)});
  KvClient other(addressOf(cluster.c));
  done = other.run(hearth_kv_get, wanted);
  EXPECT_EQ(done.value, 40u);
  EXPECT_EQ(done.status, EMSGSIZE) << "ENOENT is no failure";
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(wanted[i].status, 0);
    EXPECT_EQ(wanted[i].bytes, values[i].bytes);
  }
  EXPECT_EQ(wanted[40].status, ENOENT);
  EXPECT_EQ(wanted[40].size, 0u);
  EXPECT_EQ(wanted[41].status, EMSGSIZE);
  EXPECT_EQ(wanted[41].size, 70'000u) << "what the memory has to hold";
  EXPECT_EQ(wanted[42].status, EMSGSIZE);
  EXPECT_EQ(wanted[42].size, kSmall);
}

TEST_F(KvTest, TheFirstPutOfAKeyStays) {
  for (const std::size_t size : {kSmall, kOdd}) {
    const std::string key = "twice " + std::to_string(size);
    const std::vector<char> first = pattern(size, 1);
    KvClient one(addressOf(cluster.b));
    KvClient two(addressOf(cluster.c));
    ASSERT_EQ(one.put(key, first), 0);
    EXPECT_EQ(one.put(key, pattern(size, 2)), 0);
    EXPECT_EQ(two.put(key, pattern(size + 5, 3)), 0);
    EXPECT_EQ(one.get(key, size + 10), first);
    EXPECT_EQ(two.get(key, size + 10), first);
  }
}

TEST_F(KvTest, PutsOfOneKeyAtOnceLeaveOneOfTheirValuesWhole) {
  KvClient one(addressOf(cluster.a)), two(addressOf(cluster.b)), three(addressOf(cluster.b));
  for (unsigned round = 0; round < 8; ++round) {
    const std::string key = "race " + std::to_string(round);
    std::vector<std::vector<KvClient::Value>> values;
    for (unsigned i = 0; i < 3; ++i)
      values.push_back({{key, pattern(kChunkBytes + 1000 * i, 10 * round + i)}});
    std::size_t next = 0;
    for (KvClient* const client : {&one, &two, &three})
      ASSERT_EQ(client->submit(hearth_kv_put, values[next++]), 0);
    next = 0;
    for (KvClient* const client : {&one, &two, &three}) {
      EXPECT_EQ(client->finish(values[next]).status, 0);
      EXPECT_EQ(values[next++][0].status, 0);
    }
    KvClient reader(addressOf(cluster.c));
    const std::vector<char> got = reader.get(key, 2 * kChunkBytes);
    EXPECT_EQ(std::ranges::count_if(values, [&](const auto& each) { return each[0].bytes == got; }),
              1);
  }
}

TEST_F(KvTest, KeySpacesAreApart) {
  KvClient one(addressOf(cluster.a), "weights-1", "team-a");
  ASSERT_EQ(one.put("k", pattern(kSmall, 1)), 0);
  KvClient other(addressOf(cluster.a), "weights-2", "team-a");
  KvClient salted(addressOf(cluster.a), "weights-1", "team-b");
  KvClient shifted(addressOf(cluster.a), "weights-1t", "eam-a");
  for (KvClient* const client : {&other, &salted, &shifted}) {
    (void)client->get("k", kSmall, ENOENT);
    EXPECT_EQ(client->ask(hearth_kv_exists, {"k"}), 0u);
  }
  KvClient same(addressOf(cluster.c), "weights-1", "team-a");
  EXPECT_EQ(same.ask(hearth_kv_exists, {"k"}), 1u);
}

TEST_F(KvTest, AsksWhichKeysAreThereAndDeletesThem) {
  KvClient client(addressOf(cluster.b));
  EXPECT_EQ(client.ask(hearth_kv_exists, {"a", "b"}), 0u) << "the space has nothing yet";
  EXPECT_EQ(client.ask(hearth_kv_delete, {"a"}), 0u);
  for (const char* const key : {"a", "b", "d"}) ASSERT_EQ(client.put(key, pattern(kSmall, 1)), 0);
  KvClient other(addressOf(cluster.c));
  EXPECT_EQ(other.ask(hearth_kv_exists, {"a", "b", "c", "d"}), 3u);
  EXPECT_EQ(other.ask(hearth_kv_prefix, {"a", "b", "c", "d"}), 2u);
  EXPECT_EQ(other.ask(hearth_kv_prefix, {"c", "a"}), 0u);
  EXPECT_EQ(other.ask(hearth_kv_delete, {"a", "c"}), 1u);
  EXPECT_EQ(client.ask(hearth_kv_exists, {"a", "b", "d"}), 2u);
  (void)client.get("a", kSmall, ENOENT);
  ASSERT_EQ(client.put("a", pattern(kSmall, 9)), 0);
  EXPECT_EQ(other.get("a", kSmall), pattern(kSmall, 9)) << "another value, after a delete";
}

TEST_F(KvTest, AsksForMoreKeysThanAMessageHolds) {
  KvClient client(addressOf(cluster.b));
  std::vector<std::string> keys;
  for (unsigned i = 0; i < HEARTH_KV_MAX_ITEMS; ++i) keys.push_back("k" + std::to_string(i));
  ASSERT_EQ(client.put(keys.front(), pattern(1, 1)), 0);
  ASSERT_EQ(client.put(keys.back(), pattern(1, 1)), 0);
  EXPECT_EQ(client.ask(hearth_kv_exists, keys), 2u);
  EXPECT_EQ(client.ask(hearth_kv_prefix, keys), 1u);
  EXPECT_EQ(client.ask(hearth_kv_delete, keys), 2u);
}

TEST_F(KvTest, TheDescriptorIsReadableWhileCompletionsWait) {
  KvClient client(addressOf(cluster.a));
  pollfd polled{.fd = hearth_kv_event_fd(client.kv()), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  std::vector<KvClient::Value> values{{"k", pattern(kSmall, 1)}};
  ASSERT_EQ(client.submit(hearth_kv_put, values), 0);
  EXPECT_EQ(poll(&polled, 1, 60'000), 1);
  hearth_kv_completion done{};
  EXPECT_EQ(hearth_kv_poll(client.kv(), &done, 1), -EINVAL) << "no size";
  done.size = sizeof done;
  EXPECT_EQ(hearth_kv_poll(client.kv(), &done, 1), 1);
  EXPECT_EQ(poll(&polled, 1, 0), 0);
  EXPECT_EQ(hearth_kv_poll(client.kv(), &done, 1), 0);
}

TEST_F(KvTest, ATokenGrantsEachRightOnItsOwn) {
  KvClient owner(addressOf(cluster.a));
  ASSERT_EQ(owner.put("k", pattern(kOdd, 1)), 0);
  const auto code = [](KvClient& client, KvClient::Call call) {
    std::vector<KvClient::Value> values{{"k", std::vector<char>(kOdd)}};
    (void)client.run(call, values);
    return values[0].status;
  };
  useToken(capabilityOf({"volume:kv"}));
  KvClient reader(addressOf(cluster.b));
  EXPECT_EQ(reader.get("k", kOdd), pattern(kOdd, 1));
  EXPECT_EQ(code(reader, hearth_kv_exists), 0);
  EXPECT_EQ(code(reader, hearth_kv_put), EACCES);
  EXPECT_EQ(code(reader, hearth_kv_delete), EACCES);
  useToken(capabilityOf({"volume:other", "*"}));
  KvClient stranger(addressOf(cluster.b));
  for (const KvClient::Call call : {hearth_kv_get, hearth_kv_exists, hearth_kv_prefix})
    EXPECT_EQ(code(stranger, call), EACCES);
}

}  // namespace
}  // namespace hearth::testing_client
