// What the agent asks about the bytes of a dataset: how much is here, keep it, drop it, check it,
// read it. Called and continued on the home shard's thread. Entries: nothing means all files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dataset/dataset.h"
#include "engine/shard.h"
#include "fetch/fetcher.h"
#include "manifest/manifest_walk.h"

namespace hearth {

using EntryList = std::optional<std::vector<std::uint32_t>>;

struct Residency {
  std::uint64_t bytesTotal = 0, bytesResident = 0;
  std::uint32_t filesTotal = 0, filesComplete = 0;
  std::string viewPath;
};

struct Evicted {
  std::uint64_t bytesFreed = 0;
  std::uint64_t memoryBytes = 0;  // that were in memory, of these files and of others that stay
  std::uint32_t filesFreed = 0;
  std::uint32_t pinned = 0, inUse = 0, published = 0, failed = 0;  // that stay
  [[nodiscard]] std::uint32_t kept() const { return pinned + inUse + published + failed; }
};

struct Verified {
  std::uint64_t bytes = 0;
  Sha256Digest sha256{};
  std::uint64_t originBytes = 0, peerBytes = 0;  // fetched for this call
};

class ContentCalls {
 public:
  // Both must remain live while this object is used.
  ContentCalls(EngineCommons& commons, Shard& home) : commons_(commons), home_(home) {}

  [[nodiscard]] Task<Residency> residency(std::shared_ptr<Dataset> dataset);
  void pin(const Dataset& dataset, const EntryList& entries, const std::string& owner);
  void unpin(const Dataset& dataset, const std::string& owner);
  [[nodiscard]] Task<Evicted> evict(std::shared_ptr<Dataset> dataset, EntryList entries);
  // As DONTNEED asks for, which is counted: evict(), or what is in memory alone, where no reader is
  // on its way to it.
  [[nodiscard]] Task<Evicted> letGo(std::shared_ptr<Dataset> dataset, EntryList entries,
                                    LetGo what);
  // One file, by an application. False when it is kept; never what the origin is known to lack.
  [[nodiscard]] Task<bool> letGoOfFile(std::shared_ptr<Dataset> dataset, std::uint32_t entry,
                                       LetGo what);
  void setLastUse(const Dataset& dataset, std::int64_t usedAtMs);
  // Fetches what is missing, checks every block, hashes, compares with the origin's digest where it
  // is known and, when asked, with the origin's bytes. kCorrupt when anything differs.
  [[nodiscard]] Task<Result<Verified>> verify(std::shared_ptr<Dataset> dataset, std::uint32_t entry,
                                              bool withOrigin);
  // The view of a complete dataset, when every file is what its digest says: waits for those that
  // are still compared. Errors as ContentCache::buildView; kCorrupt.
  [[nodiscard]] Task<Result<std::string>> buildView(std::shared_ptr<Dataset> dataset);
  // A copy of [offset, offset + length), cut at the file's end; fetches what is missing.
  [[nodiscard]] Task<Result<std::vector<std::byte>>> read(std::shared_ptr<Dataset> dataset,
                                                          std::uint32_t entry, std::uint64_t offset,
                                                          std::uint64_t length);

  // Fills `into` with [offset, offset + its size), straight from the agents that hold it where it
  // is not here, and keeps none of that (Fetcher::readInto).
  [[nodiscard]] Task<Status> read(std::shared_ptr<Dataset> dataset, std::uint32_t entry,
                                  std::uint64_t offset, MemoryVector into);

 private:
  static Task<Result<Verified>> verifyHere(Shard& owner, FileReference file, bool withOrigin);
  static Task<Status> compareHere(Shard& owner, FileReference file);
  static Task<Result<std::vector<std::byte>>> readHere(Shard& owner, FileReference file,
                                                       std::uint64_t offset, std::uint64_t length);
  static Task<Status> readIntoHere(Shard& owner, FileReference file, std::uint64_t offset,
                                   MemoryVector into);
  // `memoryBytes` grows by what was in memory.
  static Task<Result<EvictOutcome>> evictHere(Shard& owner, ContentKey key, std::uint64_t size,
                                              std::uint64_t& memoryBytes);
  // Counts the bytes that go.
  Task<Evicted> release(std::shared_ptr<Dataset> dataset, EntryList entries, LetGo what);
  Task<Evicted> forgetMemory(const Dataset& dataset, EntryList entries);

  EngineCommons& commons_;
  Shard& home_;
};

}  // namespace hearth
