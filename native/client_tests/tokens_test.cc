// Rights to read: tokens that agents refuse, and datasets that a token does not name.
#include <filesystem>
#include <fstream>

#include "base/testing/eventually.h"
#include "client_tests/testing_client.h"

namespace hearth::testing_client {
namespace {

struct TokensTest : ClientTest {
  TokensTest() {
    ours.add("model", kBlockBytes);
    theirs.add("secret", kBlockBytes);
    agent.engine().nameDatasets({{"ours", agent.add(ours)}, {"theirs", agent.add(theirs)}});
  }
  // errno of a connection that is refused; 0 when it is not.
  int refusal() {
    const xfer_gd2fs_options given = options(addressOf(agent));
    ctx = xfer_gd2fs_connect(&given);
    return ctx == nullptr ? errno : 0;
  }

  Origin ours, theirs;
  Agent agent{"agent"};
};

TEST_F(TokensTest, OfAnotherDatasetReadNothing) {
  useToken(capabilityOf({"ours"}));
  open(addressOf(agent));
  EXPECT_EQ(codeOf("/dataset/ours/model"), 0u);
  EXPECT_EQ(codeOf("/dataset/theirs/secret"), static_cast<unsigned>(EACCES));
  EXPECT_EQ(codeOf("/dataset/none/secret"), static_cast<unsigned>(EACCES)) << "not which exist";
  xfer_gd2fs_stat st{};
  EXPECT_EQ(xfer_gd2fs_fstat(ctx, nullptr, "/dataset/theirs/secret", &st), 0);
  EXPECT_EQ(XFER_GD2FS_STATUS_CODE(next().status), static_cast<unsigned>(EACCES));
  EXPECT_EQ(st.size, 0u);
}

TEST_F(TokensTest, OfAllDatasetsReadEach) {
  useToken(capabilityOf({std::string(kAnyDataset)}));
  open(addressOf(agent));
  EXPECT_EQ(codeOf("/dataset/ours/model"), 0u);
  EXPECT_EQ(codeOf("/dataset/theirs/secret"), 0u);
  EXPECT_EQ(codeOf("/dataset/none/model"), static_cast<unsigned>(ENOENT));
}

TEST_F(TokensTest, WithoutTheRightToReadReadNothing) {
  Capability capability = capabilityOf({"ours"});
  capability.rights = static_cast<std::uint32_t>(CapabilityRight::kAdvise);
  useToken(capability);
  open(addressOf(agent));
  EXPECT_EQ(codeOf("/dataset/ours/model"), static_cast<unsigned>(EACCES));
}

TEST_F(TokensTest, ThatAreForgedExpiredOrOfAnotherClusterAreRefused) {
  useToken(capabilityOf({"ours"}), std::vector<std::byte>(32, std::byte{8}));
  EXPECT_EQ(refusal(), EACCES) << "another secret";
  Capability expired = capabilityOf({"ours"});
  expired.expiresAtMs = msFromNow(-std::chrono::seconds(1));
  useToken(expired);
  EXPECT_EQ(refusal(), EACCES);
  Capability foreign = capabilityOf({"ours"});
  foreign.cluster = "other";
  useToken(foreign);
  EXPECT_EQ(refusal(), EACCES);
  Capability ofOtherNode = capabilityOf({"ours"});
  ofOtherNode.node = "other";
  useToken(ofOtherNode);
  EXPECT_EQ(refusal(), EACCES);
  setenv("HEARTH_TOKEN", "no token", 1);
  EXPECT_EQ(refusal(), EACCES);
}

TEST_F(TokensTest, OfOtherNodesAreRefused) {
  Capability ofOthers = capabilityOf({"ours"});
  ofOthers.nodes = {"home", "other"};
  useToken(ofOthers);
  EXPECT_EQ(refusal(), EACCES);
  ofOthers.nodes = {"home", "agent"};
  useToken(ofOthers);
  open(addressOf(agent));
  EXPECT_EQ(codeOf("/dataset/ours/model"), 0u);
}

TEST_F(TokensTest, ThatAreRevokedEndReadsOfProgramsThatHaveThem) {
  Capability ofPod = capabilityOf({"ours"});
  ofPod.podNamespace = "team";
  ofPod.pod = "a-uid";
  useToken(ofPod);
  open(addressOf(agent));
  EXPECT_EQ(codeOf("/dataset/ours/model"), 0u);
  agent.await(revoke(agent.engine(), {.pods = {"team/a-uid"}}));
  EXPECT_EQ(codeOf("/dataset/ours/model"), static_cast<unsigned>(EACCES));
  agent.await(revoke(agent.engine(), {}));
  EXPECT_TRUE(eventually([&] { return codeOf("/dataset/ours/model") == 0; }));
}

TEST_F(TokensTest, OfAFileAreReadAgainWhenTheFormerHasExpired) {
  const TemporaryFolder folder;
  const auto write = [&](const Capability& capability) {
    const std::string aside = folder.path("aside");
    std::ofstream(aside) << textOf(*signCapability(capability, kSecret));
    std::filesystem::rename(aside, folder.path("token"));
  };
  setenv("HEARTH_TOKEN_FILE", folder.path("token").c_str(), 1);
  Capability former = capabilityOf({"ours"});
  former.expiresAtMs = msFromNow(std::chrono::seconds(1));
  write(former);
  // A slow machine may take longer to connect.
  if (refusal() == 0) {
    // Of another dataset, so that a read of that dataset tells which token the agent has seen.
    write(capabilityOf({"theirs"}));
    EXPECT_TRUE(eventually([&] { return codeOf("/dataset/theirs/secret") == 0; }));
    EXPECT_EQ(codeOf("/dataset/ours/model"), static_cast<unsigned>(EACCES));
  }
  unsetenv("HEARTH_TOKEN_FILE");
}

TEST_F(TokensTest, ChangedClaimsMakeAForgery) {
  Result<CapabilityToken> token = signCapability(capabilityOf({"ours"}), kSecret);
  ASSERT_TRUE(token.ok());
  token->claims = *encodeCapability(capabilityOf({"theirs"}));
  setenv("HEARTH_TOKEN", textOf(*token).c_str(), 1);
  EXPECT_EQ(refusal(), EACCES);
}

TEST_F(TokensTest, AnotherClusterIdIsRefused) {
  useToken(capabilityOf({"ours"}));
  xfer_gd2fs_options given = options(addressOf(agent));
  given.cluster_id = "other";
  EXPECT_EQ(xfer_gd2fs_connect(&given), nullptr);
  EXPECT_EQ(errno, EACCES);
}

TEST_F(TokensTest, WhatADatasetLosesItsNameCannotBeReadAnyMore) {
  useToken(capabilityOf({"ours"}));
  open(addressOf(agent));
  EXPECT_EQ(codeOf("/dataset/ours/model"), 0u);
  agent.engine().nameDatasets({});
  EXPECT_EQ(codeOf("/dataset/ours/model"), static_cast<unsigned>(ENOENT));
}

TEST_F(TokensTest, OptionsThatMakeNoSenseAreRefused) {
  useToken(capabilityOf({"ours"}));
  const auto refused = [this](auto change) {
    xfer_gd2fs_options given = options(addressOf(agent));
    change(given);
    errno = 0;
    return xfer_gd2fs_connect(&given) == nullptr ? errno : 0;
  };
  EXPECT_EQ(xfer_gd2fs_connect(nullptr), nullptr);
  EXPECT_EQ(refused([](auto& given) { given.cp_address = nullptr; }), EINVAL);
  EXPECT_EQ(refused([](auto& given) { given.cp_address = "http://127.0.0.1"; }), EINVAL);
  EXPECT_EQ(refused([](auto& given) { given.cp_address = "gd2fs://host:1"; }), EINVAL);
  EXPECT_EQ(refused([](auto& given) { given.cp_address = "gd2fs://127.0.0.1:0"; }), EINVAL);
  EXPECT_EQ(refused([](auto& given) { given.dp_address = "udp://127.0.0.1"; }), EINVAL);
  EXPECT_EQ(refused([](auto& given) { given.dp_address = "tcp://192.0.2.1"; }), EINVAL);
  EXPECT_EQ(refused([](auto& given) { given.cluster_id = nullptr; }), EINVAL);
  EXPECT_EQ(refused([](auto& given) { given.iothread_count = 1000; }), EINVAL);
}

// The files that csi-node writes into a pod's volume.
struct PodVolumeTest : TokensTest {
  PodVolumeTest() {
    setenv("HEARTH_CLIENT_ACCESS", volume.path().c_str(), 1);
    const Result<CapabilityToken> token = signCapability(capabilityOf({"ours"}), kSecret);
    EXPECT_TRUE(token.ok());
    write("token", textOf(*token));
    write("addresses", "gd2fs://127.0.0.1:1," + addressOf(agent));
    write("cluster", "test\n");
  }
  ~PodVolumeTest() override {
    for (const char* const name : {"HEARTH_CLIENT_ACCESS", "HEARTH_CPADDR", "HEARTH_CLUSTER"})
      unsetenv(name);
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(volume.path(name)) << text;
  }
  // Connects with what a program gives, and returns errno.
  int connectWith(const char* addresses, const char* cluster) {
    xfer_gd2fs_close(std::exchange(ctx, nullptr));
    const xfer_gd2fs_options given{.cp_address = addresses, .cluster_id = cluster};
    ctx = xfer_gd2fs_connect(&given);
    return ctx == nullptr ? errno : 0;
  }

  TemporaryFolder volume;
};

TEST_F(PodVolumeTest, AProgramThatGivesNothingConnectsByItsFiles) {
  for (const char* const none : {static_cast<const char*>(nullptr), ""}) {
    ASSERT_EQ(connectWith(none, none), 0);
    EXPECT_EQ(codeOf("/dataset/ours/model"), 0u);
  }
}

TEST_F(PodVolumeTest, WhatTheProgramOrTheEnvironmentGivesGoesBeforeTheFiles) {
  const std::string good = addressOf(agent);
  write("addresses", "gd2fs://127.0.0.1:1");
  write("cluster", "another");
  EXPECT_EQ(connectWith(good.c_str(), "test"), 0);
  setenv("HEARTH_CPADDR", good.c_str(), 1);
  EXPECT_EQ(connectWith(nullptr, nullptr), EACCES) << "the cluster of the file";
  setenv("HEARTH_CLUSTER", "test", 1);
  EXPECT_EQ(connectWith(nullptr, nullptr), 0);
  EXPECT_EQ(connectWith("gd2fs://127.0.0.1:1", nullptr), EHOSTUNREACH);
}

TEST_F(PodVolumeTest, AProgramLearnsOfAgentsThatComeWhileItRuns) {
  write("addresses", addressOf(agent));
  ASSERT_EQ(connectWith(nullptr, nullptr), 0);
  EXPECT_EQ(codeOf("/dataset/ours/model"), 0u);
  Agent next("next");
  next.engine().nameDatasets({{"ours", next.add(ours)}});
  agent.stop();
  write("addresses", addressOf(next));
  EXPECT_EQ(codeOf("/dataset/ours/model"), 0u);
}

TEST_F(PodVolumeTest, AProgramAsksItsAgentsAlsoWhileTheFileIsUnreadable) {
  write("addresses", "gd2fs://127.0.0.1:1," + addressOf(agent));
  ASSERT_EQ(connectWith(nullptr, nullptr), 0);
  write("addresses", "no list");
  EXPECT_EQ(codeOf("/dataset/ours/model"), 0u);
}

TEST_F(PodVolumeTest, WithoutFilesBothOptionsAreRequired) {
  const std::string good = addressOf(agent);
  std::filesystem::remove(volume.path("addresses"));
  EXPECT_EQ(connectWith(nullptr, nullptr), EINVAL);
  EXPECT_EQ(connectWith(good.c_str(), nullptr), 0);
  std::filesystem::remove(volume.path("cluster"));
  EXPECT_EQ(connectWith(good.c_str(), nullptr), EINVAL);
}

}  // namespace
}  // namespace hearth::testing_client
