// The keys of one shard that this agent wants, and the chunks of these and other keys that are in
// the cache or on their way. On the shard's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "directory/directory_ports.h"
#include "fetch/file_fetch.h"

namespace hearth {

class WantedKeys final : public LocalChunks {
 public:
  // `cache` must remain live while this object is used.
  explicit WantedKeys(ContentCache& cache) : cache_(cache) {}

  // The key is wanted while `fetch` lives.
  void add(const ContentKey& key, const std::shared_ptr<KeyFetch>& fetch);
  // The key's fetch; null: the key is not wanted.
  [[nodiscard]] std::shared_ptr<KeyFetch> find(const ContentKey& key);
  // The key's cache file, wanted or not; null: there is none here.
  [[nodiscard]] std::shared_ptr<CachedFile> cached(const ContentKey& key);

  [[nodiscard]] AgentReport report(const ContentKey& key) override;
  [[nodiscard]] std::optional<ChunkMask> held(const ContentKey& key, std::uint32_t stripe) override;
  void beginRelease(const ContentKey& key, const std::string& home,
                    std::uint64_t request) override {
    asked_[key] = {home, request};
  }
  void endRelease(const ContentKey& key, std::uint64_t request) override;
  void noteUse(const ContentKey& key, std::int64_t usedAtMs) override;

 private:
  ContentCache& cache_;
  std::unordered_map<ContentKey, std::weak_ptr<KeyFetch>, ContentKeyHash> wanted_;
  std::size_t sweepAt_ = 1024;
  // Open questions for leave to evict: the home that was asked, and the number of the question.
  std::unordered_map<ContentKey, std::pair<std::string, std::uint64_t>, ContentKeyHash> asked_;
};

}  // namespace hearth
