#include "cache/cache_entry.h"

namespace hearth {

CacheEntry::CacheEntry(const ContentKey& contentKey, std::uint64_t bytes, CacheDirectory& home,
                       bool isExecutable)
    : key(contentKey),
      size(bytes),
      directory(home),
      executable(isExecutable),
      chunks_(chunksOf(bytes)) {}

bool CacheEntry::allClaimed() const {
  for (std::uint32_t chunk = 0; chunk < chunkCount(); ++chunk) {
    if (state(chunk) == ChunkState::kResident) return false;
  }
  return true;
}

std::vector<std::uint32_t> CacheEntry::blockChecksums(std::uint32_t chunk) const {
  std::vector<std::uint32_t> checksums(blocksOf(chunkBytes(chunk)));
  for (std::uint32_t block = 0; block < checksums.size(); ++block)
    checksums[block] = blockChecksum(chunk, block);
  return checksums;
}

bool CacheEntry::fullyClaimed() const {
  for (std::uint32_t chunk = 0; chunk < chunkCount(); ++chunk) {
    if (state(chunk) != ChunkState::kClaimed) return false;
  }
  return true;
}

bool CacheEntry::spoil(std::uint32_t chunk) {
  ChunkState now = state(chunk);
  while (now == ChunkState::kResident || now == ChunkState::kClaimed) {
    // First, so that no reader sees the spoiled chunk in a verified file.
    generation_.fetch_add(1, std::memory_order_acq_rel);
    if (!chunks_[chunk].state.compare_exchange_weak(now, ChunkState::kSpoiled,
                                                    std::memory_order_acq_rel))
      continue;
    residentChunks_.fetch_sub(1, std::memory_order_acq_rel);
    residentBytes_.fetch_sub(static_cast<std::int64_t>(chunkBytes(chunk)),
                             std::memory_order_relaxed);
    return true;
  }
  return false;
}

void CacheEntry::markClaimed(std::uint32_t chunk) {
  ChunkState expected = ChunkState::kResident;
  chunks_[chunk].state.compare_exchange_strong(expected, ChunkState::kClaimed,
                                               std::memory_order_acq_rel);
}

void CacheEntry::markVerified(const Sha256Digest& digest, std::uint64_t generation) {
  verifiedDigest_ = digest == Sha256Digest{} ? nullptr : std::make_unique<Sha256Digest>(digest);
  verifiedGeneration_.store(generation, std::memory_order_release);
}

Sha256Digest CacheEntry::verifiedDigest() const {
  return verifiedDigest_ ? *verifiedDigest_ : Sha256Digest{};
}

void CacheEntry::endWrite(std::uint32_t chunk, std::span<const std::uint32_t> checksums) {
  setChecksums(chunk, checksums);
  setState(chunk, ChunkState::kResident);
  countResident(chunk);
}

void CacheEntry::restore(std::uint32_t chunk, std::span<const std::uint32_t> checksums,
                         bool doubtful) {
  setChecksums(chunk, checksums);
  setState(chunk, doubtful ? ChunkState::kDoubtful : ChunkState::kClaimed);
  if (!doubtful) countResident(chunk);
  noteClaim();
}

bool CacheEntry::settleDoubt(std::uint32_t chunk, bool good) {
  ChunkState expected = ChunkState::kDoubtful;
  const ChunkState to = good ? ChunkState::kResident : ChunkState::kSpoiled;
  if (!chunks_[chunk].state.compare_exchange_strong(expected, to, std::memory_order_acq_rel))
    return false;
  if (good) countResident(chunk);
  return true;
}

void CacheEntry::later(std::atomic<std::int64_t>& time, std::int64_t toMs) {
  std::int64_t known = time.load(std::memory_order_relaxed);
  while (known < toMs && !time.compare_exchange_weak(known, toMs, std::memory_order_relaxed)) {
  }
}

void CacheEntry::setChecksums(std::uint32_t chunk, std::span<const std::uint32_t> checksums) {
  auto& at = chunks_[chunk].checksums;
  if (!at) at = std::make_unique<std::atomic<std::uint32_t>[]>(checksums.size());
  for (std::size_t block = 0; block < checksums.size(); ++block) {
    at[block].store(checksums[block], std::memory_order_relaxed);
  }
}

// After the state, so that complete() is never true too early; whoever spoils the chunk in between
// makes the counters negative for a moment.
void CacheEntry::countResident(std::uint32_t chunk) {
  residentBytes_.fetch_add(static_cast<std::int64_t>(chunkBytes(chunk)), std::memory_order_relaxed);
  residentChunks_.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace hearth
