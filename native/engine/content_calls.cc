#include "engine/content_calls.h"

#include "directory/directory_client.h"
#include "directory/release_client.h"
#include "engine/peer_service.h"
#include "fetch/memory_tier.h"
#include "mount/demand_read.h"
#include "warm/file_digest.h"
#include "warm/file_repair.h"
#include "warm/file_verifier.h"

namespace hearth {
namespace {

constexpr std::uint64_t kLargestRead = 16u << 20;
// Of a file that goes on changing below its hash: its disk or memory is broken.
constexpr int kMostHashes = 4;

Result<FileReference> fileAt(std::shared_ptr<Dataset> dataset, std::uint32_t entry) {
  if (entry >= dataset->manifest->totals().entries) {
    return Error{ErrorCode::kInvalidArgument, "the manifest has no entry " + std::to_string(entry)};
  }
  FileReference file = FileReference::of(std::move(dataset), entry);
  if (file.about.kind != EntryKind::kFile) {
    return Error{ErrorCode::kInvalidArgument, file.path() + " is not a file"};
  }
  return file;
}

}  // namespace

Task<Residency> ContentCalls::residency(std::shared_ptr<Dataset> dataset) {
  // A million look-ups take a while: not on the shard.
  const ContentCache& cache = *commons_.cache;
  auto count = [&cache, &memory = *commons_.memoryFiles, dataset] {
    Residency residency;
    const Manifest& manifest = *dataset->manifest;
    const ManifestTotals totals = manifest.totals();
    residency.bytesTotal = totals.bytes;
    residency.filesTotal = totals.files;
    for (std::uint32_t index = 0; index < totals.entries; ++index) {
      const ManifestEntry entry = manifest.entry(index);
      if (entry.kind != EntryKind::kFile) continue;
      const std::uint64_t resident = cache.residentBytes(entry.key);
      residency.bytesResident += resident;
      if (resident == entry.size) ++residency.filesComplete;
      if (memory.has(entry.key)) {
        residency.bytesInMemory += entry.size;
      } else if (memory.hasRoom(entry.key)) {
        residency.bytesComingToMemory += entry.size;
      }
    }
    return residency;
  };
  Residency residency = co_await home_.reactor->offload(commons_.wholeFiles, count);
  residency.viewPath = cache.viewPath(dataset->manifest->digest());
  co_return residency;
}

void ContentCalls::pin(const Dataset& dataset, const EntryList& entries, const std::string& owner) {
  for (const std::uint32_t entry : entries ? *entries : filesOf(*dataset.manifest)) {
    const ContentKey key = dataset.manifest->entry(entry).key;
    commons_.cache->pin(key, owner);
    commons_.memoryFiles->pin(key, owner);
  }
}

void ContentCalls::unpin(const Dataset& dataset, const std::string& owner) {
  for (const std::uint32_t entry : filesOf(*dataset.manifest)) {
    const ContentKey key = dataset.manifest->entry(entry).key;
    commons_.cache->unpin(key, owner);
    commons_.memoryFiles->unpin(key, owner);
  }
}

void ContentCalls::setLastUse(const Dataset& dataset, std::int64_t usedAtMs) {
  for (const std::uint32_t entry : filesOf(*dataset.manifest)) {
    commons_.cache->noteClusterUse(dataset.manifest->entry(entry).key, usedAtMs);
  }
}

Task<Result<EvictOutcome>> ContentCalls::evictHere(Shard& owner, ContentKey key, std::uint64_t size,
                                                   std::uint64_t& memoryBytes) {
  co_await owner.reactor->enter();
  owner.peerService->smallReads().forget(key);
  const Result<EvictOutcome> outcome = co_await owner.commons.cache->evict(key);
  co_await owner.reactor->enter();
  if (outcome.ok() && *outcome == EvictOutcome::kEvicted) {
    memoryBytes += owner.memory->forget(key);
    if (co_await owner.commons.memoryFiles->evict(key)) memoryBytes += size;
    owner.leave->evicted(key, size, 0);
  } else if (outcome.ok() && *outcome != EvictOutcome::kInUse) {
    // The file was read through, or stays on the disk: its memory is for later readers.
    memoryBytes += owner.memory->forgetIdle(key);
    if (co_await owner.commons.memoryFiles->evict(key)) memoryBytes += size;
  }
  co_return outcome;
}

Task<Evicted> ContentCalls::evict(std::shared_ptr<Dataset> dataset, EntryList entries) {
  const Manifest& manifest = *dataset->manifest;
  Evicted evicted;
  if (!entries) {
    // The whole dataset goes, with its view, which would keep the files. A published view stays,
    // and keeps them.
    [[maybe_unused]] const Status removed = co_await commons_.cache->removeView(manifest.digest());
    co_await home_.reactor->enter();
  }
  for (const std::uint32_t entry : entries ? *entries : filesOf(manifest)) {
    const ManifestEntry about = manifest.entry(entry);
    const std::uint64_t resident = commons_.cache->residentBytes(about.key);
    // A caller that evicts a file wants it fetched again, even if it was refused.
    commons_.refusals.forget(about.key);
    Task<Result<EvictOutcome>> evicting =
        evictHere(commons_.owner(about.key), about.key, about.size, evicted.memoryBytes);
    const Result<EvictOutcome> outcome = co_await evicting;
    if (!outcome.ok()) {
      commons_.log(EngineEvent::Level::kError,
                   "evicting a file failed: " + outcome.error().message);
      ++evicted.failed;
      continue;
    }
    switch (*outcome) {
      case EvictOutcome::kEvicted:
        evicted.bytesFreed += resident;
        ++evicted.filesFreed;
        break;
      case EvictOutcome::kPinned:
        ++evicted.pinned;
        break;
      case EvictOutcome::kInUse:
        ++evicted.inUse;
        break;
      case EvictOutcome::kPublished:
        ++evicted.published;
        break;
      case EvictOutcome::kAbsent:
        break;
    }
  }
  co_await home_.reactor->enter();
  co_return evicted;
}

Task<Evicted> ContentCalls::forgetMemory(const Dataset& dataset, EntryList entries) {
  Evicted evicted;
  for (const std::uint32_t entry : entries ? *entries : filesOf(*dataset.manifest)) {
    const ManifestEntry about = dataset.manifest->entry(entry);
    Shard& owner = commons_.owner(about.key);
    co_await owner.reactor->enter();
    evicted.memoryBytes += owner.memory->forgetIdle(about.key);
    if (co_await commons_.memoryFiles->evict(about.key)) evicted.memoryBytes += about.size;
  }
  co_await home_.reactor->enter();
  co_return evicted;
}

Task<Evicted> ContentCalls::release(std::shared_ptr<Dataset> dataset, EntryList entries,
                                    LetGo what) {
  const bool memory = what == LetGo::kMemory;
  Task<Evicted> going =
      memory ? forgetMemory(*dataset, std::move(entries)) : evict(dataset, std::move(entries));
  const Evicted evicted = co_await going;
  commons_.counters.advice.dontNeedBytes.fetch_add(memory ? evicted.memoryBytes
                                                          : evicted.bytesFreed);
  co_return evicted;
}

Task<Evicted> ContentCalls::letGo(std::shared_ptr<Dataset> dataset, EntryList entries, LetGo what) {
  commons_.counters.advice.dontNeed.fetch_add(1);
  co_return co_await release(std::move(dataset), std::move(entries), what);
}

Task<bool> ContentCalls::letGoOfFile(std::shared_ptr<Dataset> dataset, std::uint32_t entry,
                                     LetGo what) {
  if (dataset->originLacksFiles.load()) what = LetGo::kMemory;
  EntryList one = std::vector<std::uint32_t>{entry};
  const Evicted evicted = co_await release(std::move(dataset), std::move(one), what);
  co_return evicted.kept() == 0;
}

Task<Result<Verified>> ContentCalls::verify(std::shared_ptr<Dataset> dataset, std::uint32_t entry,
                                            bool withOrigin) {
  Result<FileReference> file = fileAt(std::move(dataset), entry);
  if (!file.ok()) co_return file.error();
  Shard& owner = commons_.owner(file->about.key);
  co_await owner.reactor->enter();
  const std::string path = file->path();
  BadBlocks bad;
  Task<Result<Verified>> verifying = verifyHere(owner, std::move(*file), withOrigin, bad);
  const Result<Verified> verified = co_await verifying;
  co_await home_.reactor->enter();
  if (verified.ok()) co_return verified;
  const std::string found = bad.text();
  const std::string what = found.empty() ? path : path + ": " + found + " changed on the disk";
  co_return verified.error().within(what);
}

// Where the page cache has other bytes than the disk, hashing finds them.
Task<Result<Sha256Digest>> ContentCalls::checkedDigest(Shard& owner,
                                                       std::shared_ptr<FileFetch> fetch,
                                                       FetchOptions options, BadBlocks& bad) {
  for (int tried = 0;; ++tried) {
    RepairOptions repair{.fetch = options, .checked = nullptr};
    Task<Status> checking = checkAndRepair({*owner.reactor, *owner.fetcher, *owner.filling}, fetch,
                                           std::move(repair), bad);
    const Status checked = co_await checking;
    if (!checked.ok()) co_return checked.error();
    const std::uint64_t generation = fetch->cache->generation();
    Task<Result<Sha256Digest>> hashing = digestOf(*owner.reactor, owner.commons.wholeFiles,
                                                  owner.commons.limits->disk, fetch->cache);
    const Result<Sha256Digest> digest = co_await hashing;
    Status done = digest.ok() ? Status() : Status(digest.error());
    if (digest.ok() && fetch->reference.about.sourceDigest == *digest &&
        !fetch->cache->verifiedWhole()) {
      done = co_await fetch->cache->recordVerified(*digest, generation);
    }
    if (done.ok()) co_return digest;
    const bool changed = done.code() == ErrorCode::kCorrupt ||
                         done.code() == ErrorCode::kNotFound || done.code() == ErrorCode::kConflict;
    if (!changed || tried == kMostHashes) co_return done.error();
  }
}

Task<Result<Verified>> ContentCalls::verifyHere(Shard& owner, FileReference file, bool withOrigin,
                                                BadBlocks& bad) {
  const Result<std::shared_ptr<FileFetch>> opened = co_await owner.fetcher->open(std::move(file));
  if (!opened.ok()) co_return opened.error();
  const std::shared_ptr<FileFetch> fetch = *opened;
  const auto counters = std::make_shared<FetchCounters>();
  const FetchOptions options{.priority = Priority::kBackground, .rate = {}, .counters = counters};
  Task<Status> ensuring = owner.fetcher->ensure(fetch, 0, fetch->cache->chunkCount(), options);
  const Status ensured = co_await ensuring;
  if (!ensured.ok()) co_return ensured.error();
  Task<Result<Sha256Digest>> checking = checkedDigest(owner, fetch, options, bad);
  const Result<Sha256Digest> digest = co_await checking;
  if (!digest.ok()) co_return digest.error();
  const std::optional<Sha256Digest> expected = fetch->reference.about.sourceDigest;
  if (expected && *expected != *digest) {
    co_return Error{ErrorCode::kCorrupt,
                    "the SHA-256 of the cached bytes differs from the origin's digest"};
  }
  const std::uint64_t inMemory = co_await owner.filling->check(fetch);
  if (withOrigin) {
    Task<Result<std::uint64_t>> comparing = compareWithOrigin(
        *owner.reactor, *owner.origin, *owner.originBuffers, *owner.commons.limits, fetch);
    const Result<std::uint64_t> compared = co_await comparing;
    if (!compared.ok()) co_return compared.error();
  }
  Verified verified{fetch->cache->size(), *digest, counters->originBytes.load(),
                    counters->peerBytes.load()};
  verified.repairedBlocks = bad.count() + inMemory;
  verified.repaired = bad.text();
  if (inMemory != 0) {
    verified.repaired += (verified.repaired.empty() ? "" : ", and ") + std::to_string(inMemory) +
                         " in the copy in memory";
  }
  co_return verified;
}

Task<Status> ContentCalls::compareHere(Shard& owner, FileReference file) {
  const Result<std::shared_ptr<FileFetch>> opened = co_await owner.fetcher->open(std::move(file));
  if (!opened.ok()) co_return opened.error();
  co_return co_await owner.verifier->verified(*opened);
}

Task<Result<std::string>> ContentCalls::buildView(std::shared_ptr<Dataset> dataset) {
  const Manifest& manifest = *dataset->manifest;
  for (const std::uint32_t entry : filesOf(manifest)) {
    const ManifestEntry about = manifest.entry(entry);
    if (!about.sourceDigest.has_value() || commons_.cache->verifiedWhole(about.key)) continue;
    // An incomplete file allows no view, and is not fetched for one.
    if (commons_.cache->residentBytes(about.key) != about.size) break;
    Shard& owner = commons_.owner(about.key);
    co_await owner.reactor->enter();
    const Status compared = co_await compareHere(owner, FileReference::of(dataset, entry));
    co_await home_.reactor->enter();
    if (!compared.ok()) co_return compared.error();
  }
  const Result<std::string> view = co_await commons_.cache->buildView(dataset->manifest);
  co_await home_.reactor->enter();
  co_return view;
}

Task<Result<std::vector<std::byte>>> ContentCalls::read(std::shared_ptr<Dataset> dataset,
                                                        std::uint32_t entry, std::uint64_t offset,
                                                        std::uint64_t length) {
  Result<FileReference> file = fileAt(std::move(dataset), entry);
  if (!file.ok()) co_return file.error();
  Shard& owner = commons_.owner(file->about.key);
  co_await owner.reactor->enter();
  Result<std::vector<std::byte>> bytes = co_await readHere(owner, std::move(*file), offset, length);
  co_await home_.reactor->enter();
  co_return bytes;
}

Task<Result<std::vector<std::byte>>> ContentCalls::readHere(Shard& owner, FileReference file,
                                                            std::uint64_t offset,
                                                            std::uint64_t length) {
  const std::uint64_t size = file.about.size;
  length = std::min({length, kLargestRead, size - std::min(offset, size)});
  if (length == 0) co_return std::vector<std::byte>();
  if (const auto copy = owner.commons.memoryFiles->find(file.about.key)) {
    const auto bytes = copy->inPlace(offset, length);
    if (bytes.ok()) co_return std::vector<std::byte>(bytes->begin(), bytes->end());
  }
  const Result<std::shared_ptr<FileFetch>> opened = co_await owner.fetcher->open(std::move(file));
  if (!opened.ok()) co_return opened.error();
  std::vector<std::byte> all;
  for (const std::uint64_t end = offset + length; offset < end;) {
    const std::uint64_t part = std::min(end - offset, kChunkBytes - offset % kChunkBytes);
    Task<Result<MappedBytes>> reading =
        readOnDemand(*owner.reactor, *owner.fetcher, *opened, offset, part);
    const Result<MappedBytes> bytes = co_await reading;
    if (!bytes.ok()) co_return bytes.error();
    all.insert(all.end(), bytes->bytes.begin(), bytes->bytes.end());
    offset += part;
  }
  co_return all;
}

Task<Status> ContentCalls::read(std::shared_ptr<Dataset> dataset, std::uint32_t entry,
                                std::uint64_t offset, MemoryVector into) {
  Result<FileReference> file = fileAt(std::move(dataset), entry);
  if (!file.ok()) co_return file.error();
  Shard& owner = commons_.owner(file->about.key);
  co_await owner.reactor->enter();
  Status read = co_await readIntoHere(owner, std::move(*file), offset, std::move(into));
  co_await home_.reactor->enter();
  co_return read;
}

Task<Status> ContentCalls::readIntoHere(Shard& owner, FileReference file, std::uint64_t offset,
                                        MemoryVector into) {
  const Result<std::shared_ptr<FileFetch>> opened = co_await owner.fetcher->open(std::move(file));
  if (!opened.ok()) co_return opened.error();
  co_return co_await owner.fetcher->readInto(*opened, offset, std::move(into));
}

}  // namespace hearth
