#include "fetch/wanted_keys.h"

#include <algorithm>
#include <tuple>

namespace hearth {
namespace {

// Other agents may put a file's last use at most so far ahead of now, whatever they say.
constexpr auto kMaxAhead = std::chrono::hours(72);

}  // namespace

void WantedKeys::noteUse(const ContentKey& key, std::int64_t usedAtMs) {
  const auto latest = (WallClock::now() + kMaxAhead).time_since_epoch();
  const auto latestMs = std::chrono::duration_cast<std::chrono::milliseconds>(latest).count();
  cache_.noteClusterUse(key, std::min<std::int64_t>(usedAtMs, latestMs));
}

// The end of a question may arrive after the next question began.
void WantedKeys::endRelease(const ContentKey& key, std::uint64_t request) {
  const auto asked = asked_.find(key);
  if (asked != asked_.end() && asked->second.second == request) asked_.erase(asked);
}

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
  if (const std::shared_ptr<KeyFetch> fetch = find(key)) return fetch->held(stripe);
  const std::shared_ptr<CachedFile> file = cache_.find(key);
  if (file == nullptr) return std::nullopt;
  // Nobody wants the key, so no chunk is on its way from memory to the file.
  return residentChunks(*file, stripe).onDisk;
}

AgentReport WantedKeys::report(const ContentKey& key) {
  AgentReport report;
  const std::shared_ptr<KeyFetch> fetch = find(key);
  if (fetch != nullptr) {
    report.wants = fetch->coming();
    for (const auto& [chunk, flight] : fetch->flights) {
      if (flight->state() == ChunkFlight::State::kFromOrigin) report.fetching.push_back(chunk);
    }
  }
  const std::shared_ptr<CachedFile> file = fetch != nullptr ? fetch->cache : cache_.find(key);
  report.copy = CopyState{.stored = true, .asked = {}};
  if (const auto asked = asked_.find(key); asked != asked_.end())
    std::tie(report.copy->asked, report.copy->request) = asked->second;
  if (file == nullptr) return report;
  report.copy->stored = file->durable();
  for (std::uint32_t stripe = 0; stripe * kChunksPerStripe < file->chunkCount(); ++stripe) {
    const ChunkMask onDisk = residentChunks(*file, stripe).onDisk;
    report.held.push_back(fetch != nullptr ? fetch->held(stripe) : onDisk);
    if (report.held.back() != onDisk) report.copy->stored = false;
  }
  return report;
}

}  // namespace hearth
