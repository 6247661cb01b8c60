#include "fetch/file_fetch.h"

#include <algorithm>

namespace hearth {

void addToRuns(std::vector<ChunkRun>& runs, std::uint32_t chunk) {
  const bool extends = !runs.empty() && runs.back().end() == chunk &&
                       runs.back().count < kRunChunks &&
                       runs.back().stripe() == chunk / kChunksPerStripe;
  if (extends) {
    ++runs.back().count;
  } else {
    runs.push_back({chunk, 1});
  }
}

bool KeyFetch::awaited() const {
  return std::any_of(files.begin(), files.end(), [](const std::weak_ptr<FileFetch>& each) {
    const std::shared_ptr<FileFetch> file = each.lock();
    return file != nullptr && file->awaited();
  });
}

bool KeyFetch::coming() const {
  return std::any_of(flights.begin(), flights.end(),
                     [](const auto& flight) { return !flight.second->isOver(); });
}

std::shared_ptr<LoadedChunk> KeyFetch::storing(std::uint32_t chunk) const {
  const auto flight = flights.find(chunk);
  const bool storing =
      flight != flights.end() && flight->second->state() == ChunkFlight::State::kLanded;
  return storing ? loaded.find(chunk) : nullptr;
}

ChunkMask KeyFetch::held(std::uint32_t stripe) const {
  ChunkMask mask = residentChunks(*cache, stripe).onDisk;
  for (std::uint32_t i = 0; !flights.empty() && i < kChunksPerStripe; ++i) {
    const auto flight = flights.find(stripe * kChunksPerStripe + i);
    if (flight != flights.end() && flight->second->state() == ChunkFlight::State::kLanded)
      mask |= bitOf(i);
  }
  return mask;
}

void KeyFetch::end(std::uint32_t chunk, ChunkFlight& flight, ChunkFlight::Reason reason,
                   const Status& status) {
  if (!flight.end(reason, status)) return;
  // A chunk that was lost again may have a newer flight by now.
  const auto known = flights.find(chunk);
  if (known != flights.end() && known->second.get() == &flight) flights.erase(known);
}

bool servableWhole(const FileFetch& fetch) {
  return fetch.cache->complete() &&
         (!fetch.reference.about.sourceDigest.has_value() || fetch.cache->verifiedWhole());
}

ResidentChunks residentChunks(const CachedFile& file, std::uint32_t stripe) {
  ResidentChunks resident;
  for (std::uint32_t i = 0; i < kChunksPerStripe; ++i) {
    const std::uint32_t chunk = stripe * kChunksPerStripe + i;
    if (chunk < file.chunkCount() && file.resident(chunk)) resident.onDisk |= bitOf(chunk);
  }
  return resident;
}

}  // namespace hearth
