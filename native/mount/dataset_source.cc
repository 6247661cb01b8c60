#include "mount/dataset_source.h"

#include <atomic>
#include <mutex>
#include <optional>

#include "cache/verified_read.h"
#include "mount/demand_read.h"
#include "mount/resident_read.h"
#include "reactor/blocking_call.h"

namespace hearth {
namespace {

Task<Result<std::shared_ptr<FileFetch>>> openOnShard(MountShard& shard, FileReference file) {
  co_await shard.reactor.enter();
  Result<std::shared_ptr<FileFetch>> opened = co_await shard.fetcher.open(std::move(file));
  if (opened.ok()) {
    shard.prefetcher.opened(*opened);
    shard.filling.noteOpen(*opened);
  }
  co_return opened;
}

// A disk that hangs is not waited for.
Task<Result<int>> openOnDisk(Reactor& reactor, std::shared_ptr<CachedFile> file,
                             std::function<Result<int>()> open) {
  co_await reactor.enter();
  co_return co_await callDisk(std::move(file), std::move(open));
}

Task<void> readOnShard(MountShard& shard, std::shared_ptr<FileFetch> fetch, std::uint64_t offset,
                       std::uint32_t length, std::function<void(Result<MappedBytes>)> answer,
                       StillWanted wanted) {
  Task<Result<MappedBytes>> reading =
      readOnDemand(shard.reactor, shard.fetcher, fetch, offset, length, std::move(wanted));
  Result<MappedBytes> bytes = co_await reading;
  const bool read = bytes.ok();
  // The kernel copies while it takes the answer, so the answer goes out on the thread where the
  // bytes came in.
  co_await shard.fetcher.lanes().reactorFor(offset / kChunkBytes, length).enter();
  answer(std::move(bytes));
  co_await shard.reactor.enter();
  if (read) noteTaken(shard, *fetch, offset, length);
}

}  // namespace

class DatasetSource::Opened final : public MountSource::OpenFile {
 public:
  // Looks for the bytes if `file` has none. `onDisk`: that of the file where it is whole, for
  // callers of backing() that must not wait for the disk.
  Opened(const MountPorts& ports, EarlyFile file, bool allowPassthrough,
         std::optional<Result<int>> onDisk = std::nullopt)
      : ports_(ports),
        shard_(ports.owner(file.fetch->key())),
        fetch_(std::move(file.fetch)),
        allowPassthrough_(allowPassthrough),
        onDisk_(std::move(onDisk)),
        all_(std::move(file.bytes)),
        generationOfAll_(file.generation) {
    fetch_->cache->touch();
    // The kernel may read a complete file without asking us.
    if (wasComplete_) isReader();
  }
  ~Opened() override {
    if (reads_.load(std::memory_order_relaxed)) fetch_->readers.fetch_sub(1);
  }

  Result<int> backing() override {
    if (!allowPassthrough_)
      return Error{ErrorCode::kUnsupported, "this mount was asked for without passthrough"};
    if (size() < kPassthroughFromBytes)
      return Error{ErrorCode::kNotFound, "small files are read by the daemon"};
    if (const std::shared_ptr<CachedFile> copy = memoryFile()) return copy->descriptor();
    if (onDisk_) return *onDisk_;
    if (!servableWhole(*fetch_)) {
      return Error{ErrorCode::kNotFound,
                   "the file is not complete on this agent, or not yet compared with its digest"};
    }
    auto open = [cache = fetch_->cache] { return cache->descriptor(); };
    return runOn(shard_.reactor, openOnDisk(shard_.reactor, fetch_->cache, std::move(open)));
  }

  Result<MappedBytes> tryRead(std::uint64_t offset, std::uint32_t length) override {
    if (offset >= size() || length == 0) return MappedBytes{};
    isReader();
    length = cut(offset, length);
    noteReading(offset);
    Result<MappedBytes> bytes = here(offset, length);
    if (!bytes.ok()) return bytes;
    noteTaken(shard_, *fetch_, offset, length);
    if (endsSmallFile(offset, length)) {
      // The kernel has the bytes now, as long as it likes.
      letGoOfAll();
      shard_.reactor.post([&shard = shard_, fetch = fetch_] { lookAhead(shard, fetch); });
    }
    return bytes;
  }

  void read(std::uint64_t offset, std::uint32_t length,
            std::function<void(Result<MappedBytes>)> answer,
            std::function<bool()> wanted) override {
    if (offset >= size() || length == 0) return answer(MappedBytes{});
    isReader();
    length = cut(offset, length);
    ports_.demand.reads.fetch_add(1, std::memory_order_relaxed);
    ports_.demand.bytes.fetch_add(length, std::memory_order_relaxed);
    shard_.reactor.post([&shard = shard_, fetch = fetch_, offset, length,
                         answer = std::move(answer), wanted = std::move(wanted),
                         ended = endsSmallFile(offset, length)] {
      if (shard.gate.closed())
        return answer(Error{ErrorCode::kCancelled, "the agent is shutting down"});
      shard.gate.spawn(readOnShard(shard, fetch, offset, length, answer, wanted));
      if (ended) lookAhead(shard, fetch);
    });
  }

  void willNeed(std::uint64_t offset, std::uint64_t length) override {
    if (offset >= size()) return;
    isReader();
    if (!fetch_->hints.add({offset, length})) return;
    shard_.reactor.post([&shard = shard_, fetch = fetch_] {
      for (const HintQueue::Hint& hint : fetch->hints.take()) {
        if (!shard.gate.closed()) shard.prefetcher.willNeed(fetch, hint.offset, hint.length);
      }
    });
  }

  void loadAhead(std::uint64_t offset, std::uint64_t length) override {
    if (offset >= size() || !fetch_->cache->residentRange(offset, cut(offset, length))) return;
    shard_.reactor.post([&shard = shard_, fetch = fetch_, offset, length] {
      if (!shard.gate.closed()) shard.prefetcher.loadAhead(fetch, offset, length);
    });
  }

 private:
  // The file in memory, which stays until this goes; null while it is not all there.
  [[nodiscard]] std::shared_ptr<CachedFile> memoryFile() const {
    const std::lock_guard lock(copyMutex_);
    if (copy_ == nullptr) copy_ = ports_.memoryFiles.find(fetch_->key());
    return copy_;
  }
  void noteReading(std::uint64_t offset) {
    fetch_->reading.store(static_cast<std::uint32_t>(offset / kChunkBytes),
                          std::memory_order_relaxed);
  }
  [[nodiscard]] std::shared_ptr<const std::vector<std::byte>> allOfIt() const {
    if (!wasEarly_ || fetch_->cache->generation() != generationOfAll_) return nullptr;
    const std::lock_guard lock(allMutex_);
    return all_;
  }
  void letGoOfAll() {
    if (!wasEarly_) return;
    const std::lock_guard lock(allMutex_);
    all_.reset();
  }
  // Counts this open as a reader at its first read: an open file that is not read wants no bytes
  // yet.
  void isReader() {
    if (reads_.load(std::memory_order_relaxed)) return;
    if (!reads_.exchange(true, std::memory_order_relaxed)) fetch_->readers.fetch_add(1);
  }
  static void lookAhead(MountShard& shard, const std::shared_ptr<FileFetch>& fetch) {
    if (!shard.gate.closed()) shard.prefetcher.smallFileRead(fetch);
  }
  // True for the first read of the end of a small file, if it was not complete when it was opened
  // or is read by the daemon even when complete.
  [[nodiscard]] bool endsSmallFile(std::uint64_t offset, std::uint32_t length) {
    const bool ends = size() <= kChunkBytes && offset + length == size();
    const bool followed = !wasComplete_ || size() < kPassthroughFromBytes;
    return ends && followed && !ended_.exchange(true, std::memory_order_relaxed);
  }
  [[nodiscard]] Result<MappedBytes> here(std::uint64_t offset, std::uint32_t length) const {
    if (const auto all = allOfIt())
      return MappedBytes{std::span(*all).subspan(offset, length), all, {}, {}};
    if (const std::shared_ptr<CachedFile> copy = memoryFile()) {
      const auto bytes = copy->inPlace(offset, length);
      if (bytes.ok()) return MappedBytes{*bytes, copy, {}, {}};
    }
    if (auto loaded = fromMemory(*fetch_, offset, length)) return std::move(*loaded);
    if (!fetch_->cache->residentRange(offset, length))
      return Error{ErrorCode::kNotFound, "not resident"};
    // A thread that takes requests from the kernel must not wait for a disk.
    if (!fetch_->cache->inPageCache(offset, length))
      return Error{ErrorCode::kNotFound, "on the disk alone"};
    if (!shard_.fetcher.limits().disk.tryPass(length, Priority::kDemand))
      return Error{ErrorCode::kNotFound, "resident, and the limit of the disk has it wait"};
    return fromMemoryOrDisk(*fetch_, offset, length);
  }
  [[nodiscard]] std::uint64_t size() const { return fetch_->reference.about.size; }
  [[nodiscard]] std::uint32_t cut(std::uint64_t offset, std::uint64_t length) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(length, size() - offset));
  }

  const MountPorts& ports_;
  MountShard& shard_;
  const std::shared_ptr<FileFetch> fetch_;
  const bool allowPassthrough_;
  const std::optional<Result<int>> onDisk_;
  mutable std::mutex copyMutex_;
  mutable std::shared_ptr<CachedFile> copy_;
  mutable std::mutex allMutex_;
  std::shared_ptr<const std::vector<std::byte>> all_;
  const std::uint64_t generationOfAll_;
  const bool wasEarly_ = all_ != nullptr;
  const bool wasComplete_ = fetch_->cache->complete();
  std::atomic<bool> reads_{false};
  std::atomic<bool> ended_{false};
};

DatasetSource::DatasetSource(const MountPorts& ports, std::shared_ptr<Dataset> dataset,
                             std::string name, bool allowPassthrough)
    : ports_(ports),
      dataset_(std::move(dataset)),
      name_(std::move(name)),
      allowPassthrough_(allowPassthrough),
      advice_(std::make_shared<MountAdvice>(ports_, dataset_)) {}

DatasetSource::~DatasetSource() { advice_->close(); }

std::uint64_t DatasetSource::residentBytes(std::uint32_t entry) {
  return ports_.cache.residentBytes(dataset_->manifest->entry(entry).key);
}

bool DatasetSource::complete(std::uint32_t entry) {
  const ManifestEntry about = dataset_->manifest->entry(entry);
  if (ports_.memoryFiles.has(about.key)) return true;
  return ports_.cache.residentBytes(about.key) == about.size &&
         (!about.sourceDigest.has_value() || ports_.cache.verifiedWhole(about.key));
}

std::uint64_t DatasetSource::withdrawn(std::uint32_t entry) {
  return ports_.withdrawn.any() ? ports_.withdrawn.mark(dataset_->manifest->entry(entry).key) : 0;
}

Result<std::shared_ptr<MountSource::OpenFile>> DatasetSource::openFile(std::uint32_t entry) {
  if (EarlyFile early = ports_.earlyFiles->take(*dataset_, entry); early.fetch != nullptr) {
    MountShard& owner = ports_.owner(early.fetch->key());
    owner.reactor.post([&owner, fetch = early.fetch] {
      if (!owner.gate.closed()) owner.prefetcher.opened(fetch);
    });
    return std::shared_ptr<OpenFile>(
        std::make_shared<Opened>(ports_, std::move(early), allowPassthrough_));
  }
  FileReference file = FileReference::of(dataset_, entry);
  MountShard& shard = ports_.owner(file.about.key);
  const Result<std::shared_ptr<FileFetch>> fetch =
      runOn(shard.reactor, openOnShard(shard, std::move(file)));
  if (!fetch.ok()) return fetch.error();
  return std::shared_ptr<OpenFile>(
      std::make_shared<Opened>(ports_, EarlyFile{*fetch, nullptr}, allowPassthrough_));
}

Task<Result<std::shared_ptr<MountSource::OpenFile>>> DatasetSource::open(const MountPorts& ports,
                                                                         FileReference file,
                                                                         Reactor& back) {
  MountShard& shard = ports.owner(file.about.key);
  const Result<std::shared_ptr<FileFetch>> fetch = co_await openOnShard(shard, std::move(file));
  // `back` must not wait for a shard, which may be its own.
  Result<int> onDisk = Error{ErrorCode::kNotFound, "the file is not whole on this agent"};
  if (fetch.ok() && servableWhole(**fetch)) {
    auto open = [cache = (*fetch)->cache] { return cache->descriptor(); };
    onDisk = co_await callDisk((*fetch)->cache, std::move(open));
  }
  co_await back.enter();
  if (!fetch.ok()) co_return fetch.error();
  co_return std::shared_ptr<OpenFile>(
      std::make_shared<Opened>(ports, EarlyFile{*fetch, nullptr}, true, std::move(onDisk)));
}

void DatasetSource::failed(std::uint32_t entry, const Error& reason) {
  // The agent ends, and the kernel asks the next one again.
  if (reason.code == ErrorCode::kCancelled) return;
  const Manifest& manifest = *dataset_->manifest;
  const auto suppressed =
      ports_.failedReads.note(manifest.entry(entry).key, reason.code, Clock::now());
  if (!suppressed) return;
  std::map<std::string, std::string> fields{{"source", name_},
                                            {"file", std::string(manifest.path(entry))},
                                            {"reason", std::string(errorName(reason.code))},
                                            {"advice", std::string(adviceFor(reason.code))}};
  if (*suppressed != 0) fields["alike"] = std::to_string(*suppressed);
  log(ports_.events, EngineEvent::Level::kWarn, "a read through a mount failed: " + reason.message,
      std::move(fields));
}

Status DatasetSource::advise(std::uint32_t entry, Advice advice, std::uint64_t reader) {
  return advice_->advise(entry, advice, reader);
}

}  // namespace hearth
