// A dataset that one agent can read from several servers of the test. For tests.
#pragma once

#include <deque>

#include "base/testing/moved_clock.h"
#include "engine/loopback_server.h"
#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {

inline constexpr std::uint64_t kMirrored = 24u << 20;  // three runs
// Shaped like tags that S3 makes of bytes; never compared with any bytes.
inline constexpr auto kTag = R"("5d41402abc4b2a76b9719d911017c592")";
inline constexpr auto kOtherTag = R"("7d793037a0760186574b0282f2f435e7")";

struct MirrorsTest : testing::Test {
  // A server's answer to a range: all of it.
  RangeServer::Body giving(const std::vector<char>& all) {
    return [&all](int fd, std::uint64_t first, std::uint64_t last) {
      RangeServer::send(fd, {all.data() + first, static_cast<std::size_t>(last - first + 1)});
    };
  }
  RangeServer& serve(RangeServer::Body body, std::string tag = kTag) {
    return servers.emplace_back(kMirrored, std::move(body), std::move(tag));
  }
  // Adds the dataset of the first server, with the other servers as mirrors.
  void add(bool digest = false, std::string validator = std::string("etag:") + kTag) {
    ManifestBuilder builder(false);
    ManifestRow row;
    row.path = "model";
    row.size = kMirrored;
    row.validator = std::move(validator);
    if (digest) row.sourceDigest = Sha256::of(std::as_bytes(std::span(bytes)));
    row.key.bytes = Sha256::of(std::as_bytes(std::span(bytes).first(100)));
    builder.add(std::move(row));
    const auto added = agent.await(agent.engine().manifests().add(*builder.build()));
    ASSERT_TRUE(added.ok());
    dataset = agent.engine().manifests().find((*added)->manifest->digest(), "mirrored");
    std::vector<MirrorPlace> mirrors;
    for (std::size_t at = 1; at < servers.size(); ++at)
      mirrors.push_back({.name = servers[at].url(), .sameTags = sameTags});
    dataset->sources.setMirrors(mirrors);
    dataset->absence.setBound(originWait);
    for (std::size_t at = 0; at < servers.size(); ++at) {
      dataset->sources.locations(at)->setBase(servers[at].location());
    }
  }
  // Reads the whole file, by default run by run. Between runs the agent may forget the file's
  // state.
  Result<std::vector<std::byte>> read(std::uint64_t step = 2 * kChunkBytes) {
    std::vector<std::byte> all;
    const std::uint32_t entry = *dataset->manifest->lookUp("model");
    while (all.size() < kMirrored) {
      const auto got =
          agent.await(agent.engine().contents().read(dataset, entry, all.size(), step));
      if (!got.ok()) return got.error();
      all.insert(all.end(), got->begin(), got->end());
    }
    return all;
  }
  void expectRight() {
    const auto got = read();
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(std::memcmp(got->data(), bytes.data(), bytes.size()), 0);
  }
  static Task<std::shared_ptr<FileFetch>> open(Shard& owner, FileReference file) {
    const auto opened = co_await owner.fetcher->open(std::move(file));
    co_return opened.ok() ? *opened : nullptr;
  }
  // Reads the whole file and expects it to be right once it was compared with its digest. Keeps it
  // open, so that the givers of its bytes stay known.
  void expectRightAtLast() {
    FileReference file = FileReference::of(dataset, *dataset->manifest->lookUp("model"));
    Shard& owner = agent.engine().commons().owner(file.about.key);
    const auto held = runOn(*owner.reactor, open(owner, std::move(file)));
    ASSERT_NE(held, nullptr);
    ASSERT_TRUE(read(kMirrored).ok());
    const ContentKey key = dataset->manifest->entry(*dataset->manifest->lookUp("model")).key;
    ASSERT_TRUE(eventually([&] { return agent.engine().commons().cache->verifiedWhole(key); }));
    expectRight();
  }
  [[nodiscard]] SourceStatistics of(std::size_t source) const {
    return dataset->sources.now()->ranking.statistics(Clock::now())[source];
  }
  [[nodiscard]] bool said(std::string_view text) const {
    const std::lock_guard lock(mutex);
    return std::any_of(lines.begin(), lines.end(),
                       [&](const auto& line) { return line.find(text) != line.npos; });
  }
  // How often its bytes were found to be wrong, and it was fetched again.
  [[nodiscard]] int timesWrong() const {
    const std::lock_guard lock(mutex);
    return static_cast<int>(std::count_if(lines.begin(), lines.end(), [](const auto& line) {
      return line.find("they were dropped") != line.npos;
    }));
  }

  const std::vector<char> bytes = pattern(kMirrored, 1);
  const std::vector<char> others = pattern(kMirrored, 2);
  std::atomic<bool> askedOfMirror{false};
  bool sameTags = true;  // of the mirrors
  std::chrono::milliseconds originWait{0};
  mutable std::mutex mutex;
  std::vector<std::string> lines;
  std::deque<RangeServer> servers;
  Agent agent{"a", 4ull << 30, [this](const EngineEvent& event) {
                const std::lock_guard lock(mutex);
                lines.push_back(event.message);
                if (event.kind == EngineEvent::Kind::kLocations && event.source == 1)
                  askedOfMirror = true;
              }};
  std::shared_ptr<Dataset> dataset;
};

}  // namespace hearth::testing_cluster
