// Plain files of hubs: their git ids prove the bytes, whatever ETags servers give.
#include <openssl/evp.h>

#include <deque>
#include <mutex>

#include "engine/loopback_server.h"

namespace hearth::testing_cluster {
namespace {

constexpr std::uint64_t kFileBytes = 9u << 20;  // several chunks

std::string gitIdOf(const std::vector<char>& bytes) {
  const std::string header = "blob " + std::to_string(bytes.size()) + '\0';
  std::vector<char> all(header.begin(), header.end());
  all.insert(all.end(), bytes.begin(), bytes.end());
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  EVP_Digest(all.data(), all.size(), digest, &length, EVP_sha1(), nullptr);
  std::string text;
  for (unsigned at = 0; at < length; ++at) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += kDigits[digest[at] >> 4];
    text += kDigits[digest[at] & 15];
  }
  return text;
}

struct GitMirrorsTest : testing::Test {
  RangeServer& serve(const std::vector<char>& all, std::string tag) {
    return servers.emplace_back(
        kFileBytes,
        [&all](int fd, std::uint64_t first, std::uint64_t last) {
          RangeServer::send(fd, {all.data() + first, static_cast<std::size_t>(last - first + 1)});
        },
        std::move(tag));
  }
  // Adds the dataset of the first server, with the other servers as mirrors.
  void add() {
    ManifestBuilder builder(false);
    ManifestRow row;
    row.path = "tokenizer.json";
    row.size = kFileBytes;
    row.validator = "git:" + gitIdOf(bytes);
    row.key.bytes = Sha256::of(std::as_bytes(std::span(row.validator)));
    builder.add(std::move(row));
    const auto added = agent.await(agent.engine().manifests().add(*builder.build()));
    ASSERT_TRUE(added.ok());
    dataset = agent.engine().manifests().find((*added)->manifest->digest(), "hub");
    std::vector<MirrorPlace> mirrors;
    for (std::size_t at = 1; at < servers.size(); ++at)
      mirrors.push_back({.name = servers[at].url()});
    dataset->sources.setMirrors(mirrors);
    for (std::size_t at = 0; at < servers.size(); ++at)
      dataset->sources.locations(at)->setBase(servers[at].location());
  }
  Result<std::vector<std::byte>> read(std::uint64_t offset, std::uint64_t length) {
    const std::uint32_t entry = *dataset->manifest->lookUp("tokenizer.json");
    return agent.await(agent.engine().contents().read(dataset, entry, offset, length));
  }
  void expectRight() {
    const auto got = read(0, kFileBytes);
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(std::memcmp(got->data(), bytes.data(), bytes.size()), 0);
  }

  const std::vector<char> bytes = pattern(kFileBytes, 1);
  const std::vector<char> others = pattern(kFileBytes, 2);
  std::deque<RangeServer> servers;
  Agent agent{"a"};
  std::shared_ptr<Dataset> dataset;
};

struct GitTagsTest : GitMirrorsTest, testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Tags, GitTagsTest, testing::Values("", "W/\"weak\"", "\"its own\""));

TEST_P(GitTagsTest, ProveNothingAndDoNoHarm) {
  serve(bytes, GetParam());
  add();
  expectRight();
  EXPECT_GT(servers[0].requests(), 0);
}

TEST_F(GitMirrorsTest, AMirrorServesWhileTheFirstIsAway) {
  serve(bytes, "").stop();
  serve(bytes, "W/\"of the mirror\"");
  add();
  expectRight();
  EXPECT_GT(servers[1].requests(), 0);
}

TEST_F(GitMirrorsTest, ServesNoOtherStateOfAMirror) {
  serve(bytes, "");
  serve(others, "");
  add();
  for (std::uint64_t offset = 0; offset < kFileBytes; offset += 3u << 20) {
    const auto got = read(offset, 3u << 20);
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(std::memcmp(got->data(), bytes.data() + offset, got->size()), 0);
  }
}

TEST_F(GitMirrorsTest, ServesNoOtherStateOfTheFirst) {
  serve(others, "");
  serve(bytes, "");
  add();
  expectRight();
}

TEST_F(GitMirrorsTest, ServesNothingWhereAllHaveOtherBytes) {
  serve(others, "\"1\"");
  serve(others, "\"1\"");
  add();
  EXPECT_FALSE(read(0, kFileBytes).ok());
  EXPECT_FALSE(read(4u << 20, 1000).ok()) << "nothing of them was kept";
  const ContentKey key = dataset->manifest->entry(*dataset->manifest->lookUp("tokenizer.json")).key;
  EXPECT_FALSE(agent.engine().commons().cache->verifiedWhole(key));
}

}  // namespace
}  // namespace hearth::testing_cluster
