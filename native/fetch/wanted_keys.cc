#include "fetch/wanted_keys.h"

#include <algorithm>

namespace hearth {

void WantedKeys::add(const ContentKey& key, const std::shared_ptr<KeyFetch>& fetch) {
  if (wanted_.size() >= sweepAt_) {
    std::erase_if(wanted_, [](const auto& entry) { return entry.second.expired(); });
    sweepAt_ = std::max<std::size_t>(1024, 2 * wanted_.size());
  }
  wanted_[key] = fetch;
}

std::shared_ptr<KeyFetch> WantedKeys::find(const ContentKey& key) {
  const auto found = wanted_.find(key);
  return found == wanted_.end() ? nullptr : found->second.lock();
}

std::shared_ptr<CachedFile> WantedKeys::cached(const ContentKey& key) {
  const std::shared_ptr<KeyFetch> fetch = find(key);
  return fetch != nullptr ? fetch->cache : cache_.find(key);
}

std::optional<ChunkMask> WantedKeys::held(const ContentKey& key, std::uint32_t stripe) {
  const std::shared_ptr<CachedFile> file = cached(key);
  if (file == nullptr) return std::nullopt;
  return heldOf(*file, stripe);
}

AgentReport WantedKeys::report(const ContentKey& key) {
  AgentReport report;
  if (const std::shared_ptr<KeyFetch> fetch = find(key)) {
    report.wants = !fetch->flights.empty();
    for (const auto& [chunk, flight] : fetch->flights) {
      if (flight->fromOrigin) report.fetching.push_back(chunk);
    }
  }
  const std::shared_ptr<CachedFile> file = cached(key);
  if (file == nullptr) return report;
  for (std::uint32_t stripe = 0; stripe * kChunksPerStripe < file->chunkCount(); ++stripe) {
    report.held.push_back(heldOf(*file, stripe));
  }
  return report;
}

}  // namespace hearth
