#include "dataset/manifest_store.h"

#include <algorithm>
#include <array>

namespace hearth {
namespace {

constexpr auto kManifestTimeout = std::chrono::seconds(60);
constexpr auto kManifestSweep = std::chrono::minutes(1);

}  // namespace

class ManifestStore::Turn {
 public:
  Turn(ManifestStore& store, const Sha256Digest& digest) : store_(store), digest_(digest) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { store_.turns_.extract(digest_).mapped()->set(); }

 private:
  ManifestStore& store_;
  const Sha256Digest digest_;
};

Task<std::unique_ptr<ManifestStore::Turn>> ManifestStore::turn(Sha256Digest digest) {
  for (auto busy = turns_.find(digest); busy != turns_.end(); busy = turns_.find(digest)) {
    const std::shared_ptr<Event> ended = busy->second;
    co_await ended->wait();
  }
  turns_.emplace(digest, std::make_shared<Event>(ports_.reactor));
  co_return std::make_unique<Turn>(*this, digest);
}

ManifestStore::ManifestStore(ManifestPorts ports)
    : ports_(std::move(ports)), sweeping_(ports_.reactor) {}

// Locations are secrets, and stay no longer than they are of use.
void ManifestStore::sweep() {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  for (const std::shared_ptr<Dataset>& dataset : allUsed()) dataset->sources.sweep();
  sweeping_.start(Clock::now() + kManifestSweep, [this] { sweep(); });
}

std::string ManifestStore::path(const Sha256Digest& digest) const {
  return ports_.directory + "/" + hexOf(digest);
}

std::shared_ptr<Dataset> ManifestStore::find(const Sha256Digest& digest,
                                             const std::string& dataset) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(digest);
  if (found == open_.end()) return nullptr;
  std::shared_ptr<Dataset>& place = found->second[dataset];
  if (place == nullptr) {
    place = std::make_shared<Dataset>(found->second.at({})->manifest, dataset, ports_.events);
    if (closed_) place->sources.close(*closed_);
  }
  return place;
}

std::shared_ptr<Dataset> ManifestStore::findUsed(const Sha256Digest& digest,
                                                 const std::string& dataset) {
  if (auto open = find(digest, dataset)) return open;
  const std::lock_guard lock(mutex_);
  const auto former = former_.find(digest);
  if (former == former_.end()) return nullptr;
  const auto used = former->second.find(dataset);
  return used == former->second.end() ? nullptr : used->second.lock();
}

void ManifestStore::close() {
  sweeping_.cancel();
  const std::lock_guard lock(mutex_);
  closed_ = Error{ErrorCode::kCancelled, "the agent is shutting down"};
  for (const std::shared_ptr<Dataset>& dataset : allUsed()) dataset->sources.close(*closed_);
}

std::vector<std::shared_ptr<Dataset>> ManifestStore::allUsed() const {
  std::vector<std::shared_ptr<Dataset>> all;
  for (const auto& [digest, datasets] : open_) {
    for (const auto& [id, dataset] : datasets) all.push_back(dataset);
  }
  for (const auto& [digest, datasets] : former_) {
    for (const auto& [id, dataset] : datasets) {
      if (auto live = dataset.lock()) all.push_back(std::move(live));
    }
  }
  return all;
}

std::shared_ptr<Dataset> ManifestStore::remember(std::shared_ptr<const Manifest> manifest) {
  const std::lock_guard lock(mutex_);
  if (open_.empty()) sweeping_.start(Clock::now() + kManifestSweep, [this] { sweep(); });
  Datasets& datasets = open_[manifest->digest()];
  if (const auto former = former_.extract(manifest->digest())) {
    for (const auto& [id, dataset] : former.mapped()) {
      if (auto inUse = dataset.lock()) datasets.try_emplace(id, std::move(inUse));
    }
  }
  std::shared_ptr<Dataset>& withoutId = datasets[{}];
  if (withoutId == nullptr) {
    withoutId = std::make_shared<Dataset>(std::move(manifest), std::string(), ports_.events);
  }
  return withoutId;
}

Task<Status> ManifestStore::write(const Sha256Digest& digest, std::span<const std::byte> bytes) {
  FileSystem& files = ports_.files;
  const std::string target = path(digest);
  const std::string draft = target + ".tmp";
  OpenFlags flags;
  flags.write = flags.create = flags.truncate = true;
  flags.mode = 0444;
  [[maybe_unused]] const Status cleared = co_await files.unlink(draft);  // usually absent
  Result<std::unique_ptr<File>> file = co_await files.open(draft, flags);
  if (!file.ok()) co_return file.error();
  Status status = co_await (*file)->writeAt(bytes, 0);
  if (!status.ok()) co_return status;
  status = co_await (*file)->syncData();
  if (!status.ok()) co_return status;
  status = co_await files.rename(draft, target);
  if (!status.ok()) co_return status;
  co_return co_await files.syncDirectory(ports_.directory);
}

Task<Result<std::shared_ptr<const Manifest>>> ManifestStore::parse(
    const std::vector<std::byte>& bytes) {
  auto parse = [&bytes] {
    Result<std::shared_ptr<const Manifest>> parsed = Manifest::parse(bytes);
    if (parsed.ok()) [[maybe_unused]]
      const Sha256Digest& kept = (*parsed)->digest();
    return parsed;
  };
  Result<std::shared_ptr<const Manifest>> parsed =
      co_await ports_.reactor.offload(ports_.wholeFiles, parse);
  co_return parsed;
}

Task<Result<std::shared_ptr<Dataset>>> ManifestStore::add(std::vector<std::byte> bytes) {
  const Result<std::shared_ptr<const Manifest>> parsed = co_await parse(bytes);
  if (!parsed.ok()) co_return parsed.error();
  co_return co_await store(*parsed, std::move(bytes));
}

Task<Result<std::shared_ptr<Dataset>>> ManifestStore::add(
    std::unique_ptr<ManifestBuilder> builder) {
  auto build = [&builder] { return builder->build(); };
  Result<std::vector<std::byte>> bytes = co_await ports_.reactor.offload(ports_.wholeFiles, build);
  if (!bytes.ok()) co_return bytes.error();
  co_return co_await add(std::move(*bytes));
}

Task<Result<std::shared_ptr<Dataset>>> ManifestStore::store(
    std::shared_ptr<const Manifest> manifest, std::vector<std::byte> bytes) {
  const Sha256Digest digest = manifest->digest();
  const std::unique_ptr<Turn> ours = co_await turn(digest);
  if (auto known = find(digest)) co_return known;
  const Status written = co_await write(digest, bytes);
  if (written.ok()) co_return co_await openLocal(digest);
  log(ports_.events, EngineEvent::Level::kWarn,
      "manifest " + hexOf(digest) +
          " is in memory until the agent ends, as it cannot be stored: " + written.error().message);
  co_return remember(std::move(manifest));
}

Task<Result<std::shared_ptr<Dataset>>> ManifestStore::openLocal(Sha256Digest digest) {
  const std::string file = path(digest);
  // Only calls through `files` end where the disk hangs, so they find out whether it answers before
  // a thread of the pool for whole files waits for it.
  const Result<std::unique_ptr<File>> there = co_await ports_.files.open(file, {});
  if (!there.ok()) co_return there.error();
  std::array<std::byte, 1> first;
  const Result<std::size_t> read = co_await (*there)->readAt(first, 0);
  if (!read.ok()) co_return read.error();
  auto open = [&file, &digest] { return Manifest::open(file, digest); };
  const Result<std::shared_ptr<const Manifest>> manifest =
      co_await ports_.reactor.offload(ports_.wholeFiles, open);
  if (!manifest.ok()) co_return manifest.error();
  co_return remember(*manifest);
}

Task<Result<std::shared_ptr<Dataset>>> ManifestStore::open(Sha256Digest digest) {
  {
    const std::unique_ptr<Turn> ours = co_await turn(digest);
    if (auto known = find(digest)) co_return known;
    const Result<std::shared_ptr<Dataset>> here = co_await openLocal(digest);
    if (here.ok()) co_return here;
    if (here.code() == ErrorCode::kCorrupt) {
      log(ports_.events, EngineEvent::Level::kError, here.error().message);
    }
  }
  for (const std::string& node : ports_.view->readyOthers()) {
    Result<std::vector<std::byte>> bytes =
        co_await ports_.transport.readManifest(node, digest, Clock::now() + kManifestTimeout);
    if (!bytes.ok()) continue;
    const Result<std::shared_ptr<const Manifest>> parsed = co_await parse(*bytes);
    if (!parsed.ok() || (*parsed)->digest() != digest) {
      log(ports_.events, EngineEvent::Level::kWarn,
          parsed.ok() ? "a peer answered with a manifest of another digest"
                      : "a peer answered with an invalid manifest: " + parsed.error().message,
          {{"peer", node}});
      continue;
    }
    co_return co_await store(*parsed, std::move(*bytes));
  }
  co_return Error{ErrorCode::kNotFound,
                  "manifest " + hexOf(digest) +
                      " is neither here nor with any ready agent; add the dataset again"};
}

std::vector<std::shared_ptr<Dataset>> ManifestStore::opened() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Dataset>> all;
  for (const auto& [digest, datasets] : open_) {
    for (const auto& [id, dataset] : datasets) all.push_back(dataset);
  }
  return all;
}

// The store hands out manifests in use again instead of reading a second one.
void ManifestStore::forget(const Sha256Digest& digest) {
  std::erase_if(former_, [](const auto& manifest) {
    return std::ranges::all_of(manifest.second,
                               [](const auto& dataset) { return dataset.second.expired(); });
  });
  const auto open = open_.extract(digest);
  if (!open) return;
  for (const auto& [id, dataset] : open.mapped()) {
    if (dataset.use_count() > 1) former_[digest][id] = dataset;
  }
}

Task<Status> ManifestStore::remove(Sha256Digest digest) {
  const std::unique_ptr<Turn> ours = co_await turn(digest);
  {
    const std::lock_guard lock(mutex_);
    forget(digest);
  }
  const Status status = co_await ports_.files.unlink(path(digest));
  co_return status.code() == ErrorCode::kNotFound ? Status() : status;
}

Task<std::vector<std::shared_ptr<Dataset>>> ManifestStore::list() {
  const Result<std::vector<DirectoryEntry>> names =
      co_await ports_.files.list(ports_.directory, ListDetail::kKinds);
  std::vector<std::shared_ptr<Dataset>> datasets;
  if (!names.ok()) co_return datasets;
  for (const DirectoryEntry& entry : *names) {
    const auto digest = ContentKey::parse(entry.name);
    if (!digest) continue;
    std::shared_ptr<Dataset> dataset = find(digest->bytes);
    if (dataset == nullptr) {
      std::unique_ptr<Turn> ours = co_await turn(digest->bytes);
      const Result<std::shared_ptr<Dataset>> opened = co_await openLocal(digest->bytes);
      ours.reset();
      const bool unread =
          opened.code() == ErrorCode::kUnavailable || opened.code() == ErrorCode::kIoError;
      if (unread) {
        log(ports_.events, EngineEvent::Level::kWarn,
            "a manifest cannot be read now: " + opened.error().message);
        continue;
      }
      if (!opened.ok()) {
        log(ports_.events, EngineEvent::Level::kError,
            "removing a manifest that cannot be used: " + opened.error().message);
        [[maybe_unused]] const Status removed = co_await remove(digest->bytes);
        continue;
      }
      dataset = *opened;
    }
    datasets.push_back(std::move(dataset));
  }
  co_return datasets;
}

}  // namespace hearth
