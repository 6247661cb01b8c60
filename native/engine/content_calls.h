// The agent's calls about the bytes of a dataset: count, keep, drop, check and read them. Called
// and continued on the home shard's thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dataset/dataset.h"
#include "engine/shard.h"
#include "fetch/fetcher.h"
#include "manifest/manifest_walk.h"
#include "warm/bad_blocks.h"

namespace hearth {

// No list: all files.
using EntryList = std::optional<std::vector<std::uint32_t>>;

struct Residency {
  std::uint64_t bytesTotal = 0, bytesResident = 0;
  std::uint64_t bytesInMemory = 0;        // of files that are whole there
  std::uint64_t bytesComingToMemory = 0;  // of files that are being brought there
  std::uint32_t filesTotal = 0, filesComplete = 0;
  std::string viewPath;
};

struct Evicted {
  std::uint64_t bytesFreed = 0;
  std::uint64_t memoryBytes = 0;  // dropped from memory, of these files and of others that stay
  std::uint32_t filesFreed = 0;
  std::uint32_t pinned = 0, inUse = 0, published = 0, failed = 0;  // files that stay
  [[nodiscard]] std::uint32_t kept() const { return pinned + inUse + published + failed; }
};

struct Verified {
  std::uint64_t bytes = 0;
  Sha256Digest sha256{};
  std::uint64_t originBytes = 0, peerBytes = 0;  // fetched for this call
  // That were bad on the disk, or in the file's copy in memory, and were repaired; and their names.
  std::uint64_t repairedBlocks = 0;
  std::string repaired;  // empty: none
};

class ContentCalls {
 public:
  // Both must remain live while this object is used.
  ContentCalls(EngineCommons& commons, Shard& home) : commons_(commons), home_(home) {}

  [[nodiscard]] Task<Residency> residency(std::shared_ptr<Dataset> dataset);
  void pin(const Dataset& dataset, const EntryList& entries, const std::string& owner);
  void unpin(const Dataset& dataset, const std::string& owner);
  [[nodiscard]] Task<Evicted> evict(std::shared_ptr<Dataset> dataset, EntryList entries);
  // Does as DONTNEED asks, and counts it: evict(), or drops only memory where no reader is on its
  // way to the bytes.
  [[nodiscard]] Task<Evicted> letGo(std::shared_ptr<Dataset> dataset, EntryList entries,
                                    LetGo what);
  // Lets go of one file for an application. False: the file stays; a file that its origin is known
  // to lack always does.
  [[nodiscard]] Task<bool> letGoOfFile(std::shared_ptr<Dataset> dataset, std::uint32_t entry,
                                       LetGo what);
  void setLastUse(const Dataset& dataset, std::int64_t usedAtMs);
  // Fetches missing chunks, checks every block on the disk and repairs bad ones in place, hashes,
  // and compares with the origin's digest where it is known and, when asked, with the origin's
  // bytes. kCorrupt when anything differs. Errors name the blocks that were bad; a file whose
  // repair failed is not served as a whole.
  [[nodiscard]] Task<Result<Verified>> verify(std::shared_ptr<Dataset> dataset, std::uint32_t entry,
                                              bool withOrigin);
  // Builds the view of a complete dataset, after all comparisons with digests have ended. Errors as
  // ContentCache::buildView, and kCorrupt when a file is not what its digest says.
  [[nodiscard]] Task<Result<std::string>> buildView(std::shared_ptr<Dataset> dataset);
  // A copy of [offset, offset + length), cut at the file's end; fetches missing chunks.
  [[nodiscard]] Task<Result<std::vector<std::byte>>> read(std::shared_ptr<Dataset> dataset,
                                                          std::uint32_t entry, std::uint64_t offset,
                                                          std::uint64_t length);

  // Fills `into` with the file's bytes from `offset` on. Reads bytes that are not here straight
  // from the agents that hold them, and keeps none of these (Fetcher::readInto).
  [[nodiscard]] Task<Status> read(std::shared_ptr<Dataset> dataset, std::uint32_t entry,
                                  std::uint64_t offset, MemoryVector into);

 private:
  // `bad` gets the blocks that were bad on the disk, also before an error.
  static Task<Result<Verified>> verifyHere(Shard& owner, FileReference file, bool withOrigin,
                                           BadBlocks& bad);
  // The digest of a file whose every block was checked, and repaired where that was needed;
  // recorded where it is the origin's.
  static Task<Result<Sha256Digest>> checkedDigest(Shard& owner, std::shared_ptr<FileFetch> fetch,
                                                  FetchOptions options, BadBlocks& bad);
  static Task<Status> compareHere(Shard& owner, FileReference file);
  static Task<Result<std::vector<std::byte>>> readHere(Shard& owner, FileReference file,
                                                       std::uint64_t offset, std::uint64_t length);
  static Task<Status> readIntoHere(Shard& owner, FileReference file, std::uint64_t offset,
                                   MemoryVector into);
  // Adds the bytes dropped from memory to `memoryBytes`.
  static Task<Result<EvictOutcome>> evictHere(Shard& owner, ContentKey key, std::uint64_t size,
                                              std::uint64_t& memoryBytes);
  // Drops, and counts the bytes that go.
  Task<Evicted> release(std::shared_ptr<Dataset> dataset, EntryList entries, LetGo what);
  Task<Evicted> forgetMemory(const Dataset& dataset, EntryList entries);

  EngineCommons& commons_;
  Shard& home_;
};

}  // namespace hearth
