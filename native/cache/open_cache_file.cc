#include "cache/open_cache_file.h"

#include <algorithm>

#include "memory/guarded_memory.h"

namespace hearth {
namespace {

// Smaller files are written through the page cache: opening them a second time costs more.
constexpr std::uint64_t kDirectFromBytes = 1u << 20;

}  // namespace

std::shared_ptr<OpenCacheFile> OpenCacheFile::open(CacheCore& core,
                                                   const std::shared_ptr<CacheEntry>& entry) {
  return core.index.attach(
      entry, [&] { return std::make_shared<OpenCacheFile>(core.shared_from_this(), entry); });
}

std::shared_ptr<OpenCacheFile> OpenCacheFile::openKnown(CacheCore& core, const ContentKey& key) {
  const auto entry = core.index.find(key);
  return entry && entry->charged != 0 ? open(core, entry) : nullptr;
}

OpenCacheFile::OpenCacheFile(std::shared_ptr<CacheCore> core, std::shared_ptr<CacheEntry> entry)
    : core_(std::move(core)),
      entry_(std::move(entry)),
      shardIndex_(shardOf(entry_->key, core_->shards.size())),
      shard_(core_->shards[shardIndex_]),
      writerTurn_(shard_.reactor, 1),
      promised_(entry_->size - std::min(entry_->size, entry_->charged.load())) {
  entry_->directory.budget().promise(promised_);
}

OpenCacheFile::~OpenCacheFile() {
  entry_->directory.budget().fulfil(promised_);
  core_->index.detach(entry_);
}

bool OpenCacheFile::resident(std::uint32_t chunk) const {
  return chunk < entry_->chunkCount() && entry_->resident(chunk) && !entry_->directory.readsHang();
}

bool OpenCacheFile::residentRange(std::uint64_t offset, std::uint64_t length) const {
  if (length == 0) return true;
  if (offset >= size() || length > size() - offset || entry_->directory.readsHang()) return false;
  const auto last = static_cast<std::uint32_t>((offset + length - 1) / kChunkBytes);
  for (auto chunk = static_cast<std::uint32_t>(offset / kChunkBytes); chunk <= last; ++chunk) {
    if (!entry_->resident(chunk)) return false;
  }
  return true;
}

Result<File*> OpenCacheFile::reader() {
  {
    const std::lock_guard guard(opening_);
    if (reader_) return reader_.get();
  }
  if (entry_->charged == 0)
    return Error{ErrorCode::kNotFound, "nothing of " + key().hex() + " is cached here"};
  auto opened = shard_.files.openForReading(path());
  if (!opened.ok()) return opened.error();
  const std::lock_guard guard(opening_);
  if (!reader_) reader_ = std::move(*opened);  // else another thread was faster
  return reader_.get();
}

Task<Status> OpenCacheFile::onDisk(std::function<void()> work) {
  const auto self = shared_from_this();
  bool opened = false;
  {
    const std::lock_guard guard(opening_);
    opened = reader_ != nullptr;
  }
  const DiskOperation operation = opened ? DiskOperation::kRead : DiskOperation::kOpenToRead;
  // The file outlives the work.
  std::function<void()> held = [self, work = std::move(work)] { work(); };
  co_return co_await core_->filesHere().call(path(), operation, std::move(held));
}

std::size_t OpenCacheFile::disk() const {
  const auto& all = core_->directories;
  const auto ours = std::find_if(all.begin(), all.end(), [this](const auto& each) {
    return each.get() == &entry_->directory;
  });
  return static_cast<std::size_t>(ours - all.begin());
}

Result<int> OpenCacheFile::descriptor() {
  const Result<File*> file = reader();
  if (!file.ok()) return file.error();
  return (*file)->descriptor();
}

Result<const std::byte*> OpenCacheFile::mapped() {
  if (const std::byte* const known = mapped_.load(std::memory_order_acquire)) return known;
  const Result<File*> file = reader();
  if (!file.ok()) return file.error();
  const auto address = (*file)->map(size());
  if (address.ok()) mapped_.store(*address, std::memory_order_release);
  return address;
}

Result<std::span<const std::byte>> OpenCacheFile::verified(std::uint64_t offset,
                                                           std::uint64_t length) {
  if (offset > size() || length > size() - offset) {
    return Error{ErrorCode::kInvalidArgument, "a read beyond the end of " + key().hex()};
  }
  if (length == 0) return std::span<const std::byte>();
  if (!residentRange(offset, length)) {
    return Error{ErrorCode::kNotFound, "these bytes of " + key().hex() + " are not resident"};
  }
  const Result<const std::byte*> base = mapped();
  if (!base.ok()) return base.error();
  for (std::uint64_t at = offset / kBlockBytes * kBlockBytes; at < offset + length;
       at += kBlockBytes) {
    const auto chunk = static_cast<std::uint32_t>(at / kChunkBytes);
    const auto block = static_cast<std::uint32_t>(at % kChunkBytes / kBlockBytes);
    const auto checksum = checksumIfThere({*base + at, std::min(kBlockBytes, size() - at)});
    if (checksum && *checksum == entry_->blockChecksum(chunk, block)) continue;
    spoil(chunk);
    return Error{ErrorCode::kCorrupt,
                 "block " + std::to_string(at / kBlockBytes) + " of " + key().hex() +
                     (checksum ? " does not match its checksum" : " cannot be read") +
                     "; its chunk will be fetched again"};
  }
  return std::span<const std::byte>(*base + offset, length);
}

Result<std::span<const std::byte>> OpenCacheFile::inPlace(std::uint64_t offset,
                                                          std::uint64_t length) {
  if (!residentRange(offset, length)) {
    return Error{ErrorCode::kNotFound, "these bytes of " + key().hex() + " are not resident"};
  }
  const Result<const std::byte*> base = mapped();
  if (!base.ok()) return base.error();
  return std::span<const std::byte>(*base + offset, length);
}

bool OpenCacheFile::verifiedInMemory(std::uint64_t offset, std::span<std::byte> into) {
  // A mapped file is an open one, so reader_ stays.
  if (mapped_.load(std::memory_order_acquire) == nullptr) return false;
  if (offset % kBlockBytes != 0 || !residentRange(offset, into.size())) return false;
  if (reader_->readInMemory(into, offset) != into.size()) return false;
  return matches(offset, into);
}

bool OpenCacheFile::inPageCache(std::uint64_t offset, std::uint64_t length) {
  // A mapped file is an open one, so reader_ stays.
  if (mapped_.load(std::memory_order_acquire) == nullptr) return false;
  // verified() reads whole blocks.
  const std::uint64_t begin = offset / kBlockBytes * kBlockBytes;
  const std::uint64_t blocks = (offset + length - begin + kBlockBytes - 1) / kBlockBytes;
  return reader_->inMemory(begin, std::min(blocks * kBlockBytes, size() - begin));
}

void OpenCacheFile::spoil(std::uint32_t chunk) {
  core_->counters.corruptBlocks.fetch_add(1, std::memory_order_relaxed);
  drop(chunk);
}

void OpenCacheFile::drop(std::uint32_t chunk) {
  if (!entry_->spoil(chunk)) return;
  core_->views.noteSpoiled(entry_->key);
  entry_->directory.queueRetraction(entry_, chunk);
}

void OpenCacheFile::discard() {
  for (std::uint32_t chunk = 0; chunk < entry_->chunkCount(); ++chunk) {
    if (entry_->resident(chunk)) drop(chunk);
  }
}

std::vector<std::uint32_t> OpenCacheFile::blockChecksums(std::uint32_t chunk) const {
  return resident(chunk) ? entry_->blockChecksums(chunk) : std::vector<std::uint32_t>();
}

bool OpenCacheFile::refuses(std::uint32_t chunk) const {
  CacheDirectory& directory = entry_->directory;
  if (directory.changesHang()) return true;
  if (!directory.refusal().applies(entry_->chunkBytes(chunk))) return false;
  const std::uint64_t room = allocatedBytes(entry_->chunkBytes(chunk));
  return !directory.refusal().outOfSpace() || directory.budget().deficit(room) != 0;
}

bool OpenCacheFile::misplaced() const {
  const bool elsewhere =
      std::ranges::any_of(core_->directories, &CacheDirectory::accepts,
                          [](const auto& each) -> CacheDirectory& { return *each; });
  const bool stored = entry_->charged != 0 && entry_->fullyClaimed();
  return elsewhere && !entry_->directory.accepts() && !stored;
}

bool OpenCacheFile::worthStoring(std::uint32_t chunk) {
  if (entry_->directory.changesHang()) return false;
  return !refuses(chunk) || entry_->directory.refusal().retry(Clock::now());
}

void OpenCacheFile::noteStored(std::uint64_t bytes, const Status& done) {
  CacheDirectory& directory = entry_->directory;
  if (done.ok()) return directory.refusal().stored(bytes);
  if (done.code() != ErrorCode::kOutOfSpace) directory.noteFailed(done.error());
  const bool full = directory.budget().deficit(allocatedBytes(bytes)) != 0;
  directory.refusal().refused(bytes, full, Clock::now());
}

Task<bool> OpenCacheFile::waitForWriter(std::uint32_t chunk) {
  const auto found = writing_.find(chunk);
  if (found == writing_.end()) co_return false;
  const std::shared_ptr<Event> written = found->second;
  co_await written->wait();
  co_return true;
}

Task<Status> OpenCacheFile::writeChunk(std::uint32_t chunk, std::span<const std::byte> data,
                                       std::span<const std::uint32_t> blockChecksums,
                                       std::shared_ptr<const void> keep) {
  const auto self = shared_from_this();
  if (chunk >= entry_->chunkCount() || data.size() != entry_->chunkBytes(chunk) ||
      blockChecksums.size() != blocksOf(data.size())) {
    co_return Error{ErrorCode::kInvalidArgument,
                    "chunk " + std::to_string(chunk) + " of " + key().hex() + " was given with " +
                        std::to_string(data.size()) + " bytes and " +
                        std::to_string(blockChecksums.size()) + " checksums"};
  }
  while (co_await waitForWriter(chunk)) {
  }
  touch();
  if (resident(chunk)) co_return Status();
  // The log goes on claiming the chunk, which nobody can read now.
  if (entry_->resident(chunk)) co_return Error{ErrorCode::kIoError, entry_->directory.failure()};
  const auto written = std::make_shared<Event>(shard_.reactor);
  writing_.emplace(chunk, written);
  const ChunkState before = entry_->state(chunk);
  entry_->beginWrite(chunk);
  Status done = co_await writeAbsent(chunk, before, {data, std::move(keep)});
  // kUnavailable would be the origin's.
  if (done.code() == ErrorCode::kUnavailable)
    done = Error{ErrorCode::kIoError, done.error().message};
  noteStored(data.size(), done);
  if (done.ok()) {
    entry_->endWrite(chunk, blockChecksums);
    entry_->directory.queueClaim({entry_, chunk, writer_, shardIndex_});
  }
  writing_.erase(chunk);
  closeWriterWhenComplete();
  written->set();
  co_return done;
}

Task<Status> OpenCacheFile::writeAt(Data data, std::uint64_t offset) {
  if (data.keep == nullptr) co_return co_await writer_->writeAt(data.bytes, offset);
  co_return co_await writer_->writeKept(data.bytes, offset, std::move(data.keep));
}

Task<Status> OpenCacheFile::writeAbsent(std::uint32_t chunk, ChunkState before, Data data) {
  CacheDirectory& directory = entry_->directory;
  Status ready = co_await directory.throttle(shard_.reactor);
  if (before == ChunkState::kSpoiled || before == ChunkState::kDoubtful) {
    // Its space is taken already; but the log must not claim what is now overwritten.
    if (ready.ok()) ready = co_await directory.retract(entry_, chunk, shard_.reactor);
    if (ready.ok()) ready = co_await openWriter();
    if (ready.ok()) ready = co_await writeAt(std::move(data), chunk * kChunkBytes);
    if (!ready.ok()) entry_->failWrite(chunk, ChunkState::kSpoiled);
    co_return ready;
  }
  const std::uint64_t room = allocatedBytes(data.bytes.size());
  if (ready.ok()) ready = co_await core_->evictor.reserve(directory, room, shard_);
  if (!ready.ok()) {
    entry_->failWrite(chunk, ChunkState::kAbsent);
    co_return ready;
  }
  ready = co_await openWriter();
  if (!ready.ok()) {
    directory.budget().cancel(room);
    entry_->failWrite(chunk, ChunkState::kAbsent);
    co_return ready;
  }
  // Also a write that fails may have taken the space.
  charge(room);
  const Status written = co_await writeAt(std::move(data), chunk * kChunkBytes);
  directory.budget().written(room);
  if (written.code() == ErrorCode::kOutOfSpace) directory.budget().remeasure();
  if (!written.ok()) entry_->failWrite(chunk, ChunkState::kSpoiled);
  co_return written;
}

void OpenCacheFile::charge(std::uint64_t bytes) {
  entry_->charged += bytes;
  const std::uint64_t kept = std::min(bytes, promised_.load());
  promised_ -= kept;
  entry_->directory.budget().fulfil(kept);
}

Task<Status> OpenCacheFile::openWriter() {
  if (writer_) co_return Status();
  co_await writerTurn_.acquire(1);
  Status done;
  if (!writer_) {
    Result<std::unique_ptr<File>> opened =
        co_await (entry_->charged == 0 ? createFile() : openForWriting());
    if (opened.ok()) {
      writer_ = std::move(*opened);
    } else {
      done = opened.error();
    }
  }
  writerTurn_.release(1);
  co_return done;
}

// The chunks that are not claimed yet keep it until their commit.
void OpenCacheFile::closeWriterWhenComplete() {
  if (writing_.empty() && entry_->complete()) writer_.reset();
}

Task<Result<std::unique_ptr<File>>> OpenCacheFile::createFile() {
  // Direct where there is something to gain: the buffers come from the network and go to the disk
  // without a copy, and a cache file larger than the memory does not push everything else out of
  // the page cache.
  const OpenFlags flags{.write = true,
                        .create = true,
                        .exclusive = true,
                        .direct = size() >= kDirectFromBytes,
                        .mode = entry_->executable ? 0555u : 0444u};
  Result<std::unique_ptr<File>> opened = co_await shard_.files.open(path(), flags);
  if (opened.code() == ErrorCode::kAlreadyExists) {
    // Left by an unlink that failed; no record claims it.
    const Status unlinked = co_await shard_.files.unlink(path());
    if (!unlinked.ok()) co_return unlinked.error();
    opened = co_await shard_.files.open(path(), flags);
  }
  if (!opened.ok()) co_return opened;
  entry_->directory.noteCreated(entry_);
  // A single chunk brings its own size.
  if (entry_->chunkCount() > 1) {
    const Status stretched = co_await (*opened)->truncate(size());
    if (!stretched.ok()) {
      (void)co_await shard_.files.unlink(path());  // else it is met above
      co_return stretched.error();
    }
  }
  co_return std::move(opened);
}

Task<Result<std::unique_ptr<File>>> OpenCacheFile::openForWriting() {
  Result<std::unique_ptr<File>> opened =
      co_await shard_.files.open(path(), {.write = true, .direct = size() >= kDirectFromBytes});
  if (opened.code() != ErrorCode::kPermissionDenied) co_return opened;
  // Only root may write to a file of mode 0444; others make it writable for the moment of opening.
  const std::uint32_t mode = entry_->executable ? 0555 : 0444;
  const Status loosened = co_await shard_.files.changeMode(path(), mode | 0200);
  if (!loosened.ok()) co_return loosened.error();
  opened =
      co_await shard_.files.open(path(), {.write = true, .direct = size() >= kDirectFromBytes});
  const Status tightened = co_await shard_.files.changeMode(path(), mode);
  if (!tightened.ok()) co_return tightened.error();
  co_return std::move(opened);
}

Task<Status> OpenCacheFile::makeEmpty() {
  if (entry_->charged != 0) co_return Status();
  Status done = co_await core_->evictor.reserve(entry_->directory, kAllocationBytes, shard_);
  if (!done.ok()) co_return done;
  done = co_await openWriter();
  if (!done.ok()) {
    entry_->directory.budget().cancel(kAllocationBytes);
    co_return done;
  }
  // Another coroutine may have made it while we waited.
  if (entry_->charged != 0) {
    entry_->directory.budget().cancel(kAllocationBytes);
    co_return Status();
  }
  entry_->charged += kAllocationBytes;
  entry_->directory.budget().written(kAllocationBytes);
  closeWriterWhenComplete();
  co_return Status();
}

Task<Status> OpenCacheFile::makeExecutable(FileSystem& files) {
  if (entry_->executable.exchange(true) || entry_->charged == 0) co_return Status();
  const Status changed = co_await files.changeMode(path(), 0555);
  if (!changed.ok()) entry_->executable = false;
  co_return changed;
}

Task<Status> OpenCacheFile::claimed() {
  const auto self = shared_from_this();
  if (size() == 0) co_return co_await makeEmpty();
  std::vector<std::uint32_t> unclaimed;
  for (std::uint32_t chunk = 0; chunk < entry_->chunkCount(); ++chunk) {
    if (entry_->state(chunk) == ChunkState::kResident) unclaimed.push_back(chunk);
  }
  if (unclaimed.empty()) co_return co_await entry_->directory.settleRetractions(shard_.reactor);
  Status unsynced;
  const Status committed = co_await entry_->directory.commit(shard_.reactor, &unsynced);
  for (const std::uint32_t chunk : unclaimed) {
    if (entry_->state(chunk) == ChunkState::kClaimed) continue;
    if (!committed.ok()) co_return committed;
    if (!unsynced.ok()) co_return unsynced;
    co_return Error{ErrorCode::kIoError,
                    "a chunk of " + key().hex() + " could not be synced; it will be fetched again"};
  }
  co_return Status();
}

Task<Status> OpenCacheFile::recordVerified(Sha256Digest digest, std::uint64_t generation) {
  const auto self = shared_from_this();
  co_return co_await entry_->directory.recordVerified(entry_, digest, generation, shard_.reactor);
}

}  // namespace hearth
