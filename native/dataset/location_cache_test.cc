#include "dataset/location_cache.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

struct LocationCacheTest : testing::Test {
  LocationCacheTest() {
    ManifestBuilder builder(false);
    for (const char* path : {"a b/c?.bin", "plain"}) {
      ManifestRow row;
      row.path = path;
      row.size = 1;
      row.key.bytes[0] = static_cast<std::uint8_t>(path[0]);
      builder.add(std::move(row));
    }
    manifest = *Manifest::parse(*builder.build());
    locations = std::make_unique<LocationCache>(
        manifest, "mine", [this](EngineEvent event) { asked.push_back(std::move(event)); });
    odd = *manifest->lookUp("a b/c?.bin");
    plain = *manifest->lookUp("plain");
  }
  Result<Location> find(std::uint32_t entry) {
    return reactor->runUntilComplete(locations->find(*reactor, entry));
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  std::shared_ptr<const Manifest> manifest;
  std::vector<EngineEvent> asked;
  std::unique_ptr<LocationCache> locations;
  std::uint32_t odd = 0, plain = 0;
};

TEST_F(LocationCacheTest, JoinsTheBaseWithTheEncodedPath) {
  Location base;
  base.url = "https://host/models";
  locations->setBase(base);
  EXPECT_EQ(find(odd)->url, "https://host/models/a%20b/c%3F.bin");
  Location folder;
  folder.path = "/data/";
  locations->setBase(folder);
  EXPECT_EQ(find(odd)->path, "/data/a b/c?.bin") << "paths of directories are not encoded";
  EXPECT_TRUE(asked.empty());
}

Task<bool> findBoth(Reactor& reactor, LocationCache& locations, std::uint32_t a, std::uint32_t b) {
  struct Each {
    static Task<void> run(Reactor& reactor, LocationCache& locations, std::uint32_t entry,
                          bool& ok) {
      const Result<Location> found = co_await locations.find(reactor, entry);
      ok = found.ok() && found->url == "https://host/" + std::to_string(entry);
    }
    static Task<void> answer(Reactor& reactor, LocationCache& locations, std::uint32_t a,
                             std::uint32_t b) {
      co_await reactor.sleep(std::chrono::milliseconds(20));
      for (const std::uint32_t entry : {a, b}) {
        Location location;
        location.url = "https://host/" + std::to_string(entry);
        locations.set(entry, location);
      }
    }
  };
  bool first = false, again = false, second = false;
  Gate gate(reactor);
  gate.spawn(Each::run(reactor, locations, a, first));
  gate.spawn(Each::run(reactor, locations, a, again));
  gate.spawn(Each::run(reactor, locations, b, second));
  gate.spawn(Each::answer(reactor, locations, a, b));
  co_await gate.close();
  co_return first&& again&& second;
}

TEST_F(LocationCacheTest, AsksOnceForAllThatOneTurnWants) {
  EXPECT_TRUE(reactor->runUntilComplete(findBoth(*reactor, *locations, odd, plain)));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].entries, (std::vector<std::uint32_t>{odd, plain}));
  EXPECT_EQ(asked[0].dataset, "mine");
}

TEST_F(LocationCacheTest, AsksAgainForWhatHasExpiredOrWasRefused) {
  Location location;
  location.url = "https://host/x";
  locations->set(plain, location);
  EXPECT_TRUE(find(plain).ok());
  locations->expire(plain);
  locations->close({ErrorCode::kCancelled, "end"});
  EXPECT_EQ(find(plain).code(), ErrorCode::kCancelled);
  location.expiresAtMs = 1;  // long ago
  locations->set(plain, location);
  EXPECT_EQ(find(plain).code(), ErrorCode::kCancelled);
}

TEST_F(LocationCacheTest, ForgetsWhatHasExpiredAndTheOldestOfTooMany) {
  Location location;
  location.url = "https://host/x";
  location.expiresAtMs = 1;
  for (std::uint32_t entry = 0; entry < 100; ++entry) locations->set(entry, location);
  location.expiresAtMs = 0;
  locations->set(100, location);
  locations->sweep();
  EXPECT_EQ(locations->kept(), 1u);
  for (std::uint32_t entry = 0; entry < 2 * LocationCache::kMaxKept; ++entry) {
    locations->set(entry, location);
  }
  EXPECT_EQ(locations->kept(), LocationCache::kMaxKept);
  EXPECT_TRUE(find(2 * LocationCache::kMaxKept - 1).ok());
}

TEST(LocationCache, AsksAheadOfAReaderWhoGoesThroughAFolder) {
  ManifestBuilder builder(false);
  constexpr int kFiles = 600;
  for (int i = 0; i < kFiles; ++i) {
    ManifestRow row;
    row.path = "file" + std::to_string(1000 + i);
    row.size = 1;
    row.key.bytes[0] = static_cast<std::uint8_t>(i);
    row.key.bytes[1] = static_cast<std::uint8_t>(i >> 8);
    builder.add(std::move(row));
  }
  const std::shared_ptr<const Manifest> manifest = *Manifest::parse(*builder.build());
  auto reactor = std::move(*Reactor::create());
  std::size_t requests = 0;
  LocationCache* answered = nullptr;
  LocationCache locations(manifest, "mine", [&](const EngineEvent& event) {
    ++requests;
    Location location;
    location.url = "https://host/x";
    for (const std::uint32_t entry : event.entries) answered->set(entry, location);
    for (const std::uint32_t entry : event.ahead) answered->set(entry, location);
  });
  answered = &locations;
  for (int i = 0; i < kFiles; ++i) {
    const std::uint32_t entry = *manifest->lookUp("file" + std::to_string(1000 + i));
    EXPECT_TRUE(reactor->runUntilComplete(locations.find(*reactor, entry)).ok());
  }
  EXPECT_LE(requests, 16u) << "of one each it takes milliseconds a file";
  EXPECT_GE(requests, 2u);
}

}  // namespace
}  // namespace hearth
