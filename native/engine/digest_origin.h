// For tests: an origin of which nothing but the digest of its file shows a change.
#pragma once

#include <fstream>

#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {

// One file in a folder, listed with the digest of the bytes that it then had, and nothing that
// would show that it changed: what hubs and plain HTTP servers give.
class DigestOrigin {
 public:
  static constexpr std::size_t kSize = 22'000'000;  // six chunks

  explicit DigestOrigin(unsigned seed, std::size_t size = kSize) : listed_(pattern(size, seed)) {
    write(listed_);
  }

  void write(const std::vector<char>& bytes) {
    std::ofstream(folder_.path("model"), std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  void restore() { write(listed_); }
  void remove() { std::filesystem::remove(folder_.path("model")); }
  [[nodiscard]] const std::vector<char>& listed() const { return listed_; }

  std::shared_ptr<Dataset> addTo(Agent& agent) const {
    ManifestBuilder builder(false);
    ManifestRow row;
    row.path = "model";
    row.size = listed_.size();
    row.sourceDigest = Sha256::of(std::as_bytes(std::span(listed_)));
    row.key.bytes = *row.sourceDigest;
    builder.add(std::move(row));
    auto manifest = builder.build();
    EXPECT_TRUE(manifest.ok());
    auto added = agent.await(agent.engine().manifests().add(std::move(*manifest)));
    EXPECT_TRUE(added.ok());
    Location base;
    base.path = base.below = folder_.path();
    (*added)->locations.setBase(std::move(base));
    return *added;
  }

 private:
  TemporaryFolder folder_;
  const std::vector<char> listed_;
};

inline std::uint32_t fileOf(const Dataset& dataset) { return filesOf(*dataset.manifest)[0]; }

}  // namespace hearth::testing_cluster
