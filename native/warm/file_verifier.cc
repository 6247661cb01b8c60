#include "warm/file_verifier.h"

#include <algorithm>

#include "base/crc32c.h"
#include "cache/verified_read.h"

namespace hearth {
namespace {

// Copies of chunks that came before their turn, on one shard.
constexpr std::uint64_t kMaxCopies = std::uint64_t{32} << 20;
// Chunks before their turn that are worth a copy; the turn of others may never come.
constexpr std::uint32_t kMaxAhead = 16;
// Hashed at once: a thread would take longer to hear of it.
constexpr std::uint64_t kHashHere = 64u << 10;
// A file that changes under us again and again has a bad disk.
constexpr int kTries = 4;
// The giver of a chunk is noted a moment after the chunk came. Requests whose chunks came otherwise
// may last.
constexpr auto kNotedSoon = std::chrono::seconds(1);

// The file has these bytes, not others: memory may have what was read through, or what came twice
// and was written once. Any thread.
bool has(const CachedFile& file, std::uint32_t chunk, std::span<const std::byte> bytes) {
  return crc32cOfBlocks(bytes, kBlockBytes) == file.blockChecksums(chunk);
}

}  // namespace

FileVerifier::FileVerifier(VerifierPorts ports) : ports_(ports) {
  ports_.fetcher.addObserver(*this);
}

bool FileVerifier::wanted(const FileFetch& fetch) {
  return fetch.reference.about.sourceDigest.has_value() && !fetch.cache->verifiedWhole();
}

InOrderHash& FileVerifier::hashOf(FileFetch& fetch) const {
  if (fetch.shared->hash == nullptr)
    fetch.shared->hash = std::make_shared<InOrderHash>(ports_.reactor, fetch.cache->generation());
  return *fetch.shared->hash;
}

// Buffers that wait to be hashed are buffers that fetching waits for.
bool FileVerifier::mayHold() const {
  return allowance_->heldBuffers.load() < ports_.buffers.capacity() / 4;
}

void FileVerifier::stored(const std::shared_ptr<FileFetch>& fetch, std::uint32_t chunk,
                          const std::shared_ptr<LoadedChunk>& loaded) {
  if (!wanted(*fetch)) return;
  InOrderHash& hash = hashOf(*fetch);
  const std::size_t size = loaded->bytes.size();
  if (chunk >= hash.next && !hash.waiting.contains(chunk)) {
    // A buffer is held for no longer than its hash takes.
    if (chunk == hash.next && !hash.running && size > kHashHere && mayHold()) {
      hash.waiting.emplace(chunk, HashBytes::held(allowance_, loaded));
    } else if (chunk - hash.next < kMaxAhead &&
               allowance_->copiedBytes.load() + size <= kMaxCopies) {
      hash.waiting.emplace(chunk, HashBytes::copied(allowance_, loaded->bytes));
    }
  }
  start(fetch);
}

void FileVerifier::opened(const std::shared_ptr<FileFetch>& fetch) {
  if (wanted(*fetch) && fetch->cache->complete()) start(fetch);
}

void FileVerifier::start(const std::shared_ptr<FileFetch>& fetch) {
  InOrderHash& hash = hashOf(*fetch);
  if (hash.running || ports_.gate.closed()) return;
  hash.running = true;
  hash.failure = Status();
  hash.stopped.reset();
  ports_.gate.spawn(advance(fetch));
}

Task<Status> FileVerifier::verified(std::shared_ptr<FileFetch> fetch) {
  Status last = Error{ErrorCode::kCorrupt,
                      fetch->reference.path() +
                          ": it changed on the disk while it was compared with its digest; check "
                          "the disk of the cache directory"};
  for (int tried = 0; tried < kTries; ++tried) {
    FetchOptions options{.priority = Priority::kBackground, .rate = {}, .counters = {}};
    Task<Status> ensuring =
        ports_.fetcher.ensure(fetch, 0, fetch->cache->chunkCount(), std::move(options));
    const Status ensured = co_await ensuring;
    if (!ensured.ok() || !wanted(*fetch)) co_return ensured;
    start(fetch);
    if (ports_.gate.closed()) break;
    InOrderHash& hash = hashOf(*fetch);
    co_await hash.stopped.wait();
    if (!wanted(*fetch)) co_return Status();
    if (!hash.failure.ok()) co_return hash.failure;
  }
  if (ports_.gate.closed()) last = Error{ErrorCode::kCancelled, "the engine is shutting down"};
  co_return last;
}

Task<void> FileVerifier::advance(std::shared_ptr<FileFetch> fetch) {
  InOrderHash& hash = *fetch->shared->hash;
  bool more = true;
  while (more && !ports_.gate.closed()) {
    const std::uint64_t generation = fetch->cache->generation();
    if (hash.generation != generation) hash.restart(generation);
    if (hash.next < fetch->cache->chunkCount()) {
      more = co_await hashNext(*fetch);
    } else {
      more = co_await conclude(fetch);
    }
  }
  hash.running = false;
  hash.stopped.set();
}

// Hashed chunks are resident when the generation is known: any later loss changes the generation,
// and hashing begins again.
Task<bool> FileVerifier::hashNext(FileFetch& fetch) {
  InOrderHash& state = *fetch.shared->hash;
  const std::uint32_t chunk = state.next;
  if (!fetch.cache->resident(chunk)) co_return false;
  HashBytes bytes;
  if (const auto known = state.waiting.find(chunk); known != state.waiting.end()) {
    bytes = std::move(known->second);
    state.waiting.erase(known);
  } else if (auto loaded = fetch.loaded.find(chunk); loaded != nullptr) {
    bytes = HashBytes::held(allowance_, std::move(loaded));
  }
  const auto fromMemory = [&state, &bytes, &file = *fetch.cache, chunk] {
    if (!bytes.there() || !has(file, chunk, bytes.bytes())) return false;
    state.hash.update(bytes.bytes());
    return true;
  };
  BandwidthLimiter& disk = ports_.fetcher.limits().disk;
  if (!bytes.there() && disk.limits(Priority::kBackground)) {
    co_await disk.pass(ports_.reactor, fetch.chunkSize(chunk), Priority::kBackground);
  }
  Status taken;
  if (fetch.chunkSize(chunk) > kHashHere || !fromMemory()) {
    const std::uint64_t offset = fetch.chunkOffset(chunk);
    const std::uint64_t length = fetch.chunkSize(chunk);
    if (!co_await ports_.reactor.offload(ports_.wholeFiles, fromMemory)) {
      const auto read = co_await readVerified(fetch.cache, offset, length);
      auto update = [&state, &read] { return state.hash.update(*read), 0; };
      if (read.ok()) co_await ports_.reactor.offload(ports_.wholeFiles, update);
      if (!read.ok()) taken = read.error();
      bytesReadBack_ += length;
    }
  }
  if (taken.ok()) ++state.next;
  co_return taken.ok();
}

Task<bool> FileVerifier::conclude(std::shared_ptr<FileFetch> fetch) {
  InOrderHash& state = *fetch->shared->hash;
  const Sha256Digest digest = state.hash.finish();
  const std::uint64_t generation = state.generation;
  state.restart(generation);
  if (digest != *fetch->reference.about.sourceDigest) {
    co_return co_await differs(fetch);
  }
  const Status recorded = co_await fetch->cache->recordVerified(digest, generation);
  if (recorded.ok()) {
    fetch->shared->rounds->right();
    ports_.refusals.forget(fetch->key());
    co_return false;
  }
  // A chunk was found bad meanwhile: it is hashed when it is here again.
  if (recorded.code() == ErrorCode::kConflict) co_return true;
  if (recorded.code() != ErrorCode::kNotFound) state.failure = recorded;
  co_return false;
}

bool FileVerifier::wrongEverywhere(FileFetch& fetch) {
  SourceRounds& rounds = *fetch.shared->rounds;
  const ManifestEntry& about = fetch.reference.about;
  const std::string why = fetch.reference.path() + " is not what the dataset's digest says";
  const Clock::time_point now = Clock::now();
  for (const std::string& mirror : rounds.wrong(why, now)) {
    log(ports_.events, EngineEvent::Level::kWarn, "the mirror " + mirror + " is put aside: " + why,
        {{"dataset", fetch.reference.dataset->id}});
  }
  const std::shared_ptr<const SourceSet> set = fetch.reference.dataset->sources.now();
  const SourceMask having = set->ranking.look(~SourceMask{0}, about.index, now).having;
  const bool everywhere = rounds.everywhere(set, having);
  if (everywhere) {
    rounds.again();
    ports_.refusals.refuse(fetch.key());
  } else {
    ports_.refusals.note(fetch.key(), fetch.shared->rounds);
  }
  return everywhere;
}

Task<void> FileVerifier::awaitGivers(FileFetch& fetch) {
  KeyFetch& shared = *fetch.shared;
  if (shared.requests == 0) co_return;
  Event noted(ports_.reactor);
  shared.noted = &noted;
  const bool all = co_await noted.waitUntil(Clock::now() + kNotedSoon);
  shared.noted = nullptr;
  if (!all) shared.rounds->gaveOthers();
}

Task<bool> FileVerifier::differs(std::shared_ptr<FileFetch> fetch) {
  co_await awaitGivers(*fetch);
  InOrderHash& state = *fetch->shared->hash;
  const std::string path = fetch->reference.path();
  ports_.mismatches.fetch_add(1, std::memory_order_relaxed);
  const bool everywhere = wrongEverywhere(*fetch);
  fetch->cache->discard();
  fetch->loaded.clear();
  ports_.withdrawn.note(fetch->key());
  state.restart(fetch->cache->generation());
  if (everywhere) {
    state.failure = DigestRefusals::error().within(path);
    log(ports_.events, EngineEvent::Level::kError, state.failure.error().message, {{"file", path}});
    co_return false;
  }
  log(ports_.events, EngineEvent::Level::kWarn,
      path +
          ": its bytes are not what the origin's digest says; they were dropped and "
          "are fetched again from the origin",
      {{"file", path}});
  FetchOptions options{.priority = Priority::kBackground, .rate = {}, .counters = {}};
  Task<Status> ensuring =
      ports_.fetcher.ensure(fetch, 0, fetch->cache->chunkCount(), std::move(options));
  const Status ensured = co_await ensuring;
  if (!ensured.ok()) state.failure = ensured;
  co_return ensured.ok();
}

}  // namespace hearth
