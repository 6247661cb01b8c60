#include "cache/view_store.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/crc32c.h"
#include "cache/cache_core.h"
#include "cache/directory_layout.h"
#include "cache/open_cache_file.h"
#include "cache/view_tree.h"

namespace hearth {
namespace {

constexpr std::string_view kKeysSuffix = ".keys";
constexpr std::string_view kAsidePrefix = ".tmp-";
// A list of the keys of the largest view, with its checksum.
constexpr std::size_t kMaxKeyBytes = std::size_t{ViewStore::kMaxFiles} * 32 + 4;
// A digest and a newline, with room for an editor's whims.
constexpr std::size_t kMaxPublishBytes = 256;

std::vector<std::byte> encodeKeys(const std::vector<ContentKey>& keys) {
  std::vector<std::byte> bytes(keys.size() * 32 + 4);
  for (std::size_t i = 0; i < keys.size(); ++i)
    std::memcpy(bytes.data() + i * 32, keys[i].bytes.data(), 32);
  const std::uint32_t checksum = crc32c(std::span(bytes).first(keys.size() * 32));
  std::memcpy(bytes.data() + keys.size() * 32, &checksum, 4);
  return bytes;
}

std::optional<std::vector<ContentKey>> decodeKeys(std::span<const std::byte> bytes) {
  if (bytes.size() % 32 != 4) return std::nullopt;
  const std::size_t length = bytes.size() - 4;
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + length, 4);
  if (checksum != crc32c(bytes.first(length))) return std::nullopt;
  std::vector<ContentKey> keys(length / 32);
  for (std::size_t i = 0; i < keys.size(); ++i)
    std::memcpy(keys[i].bytes.data(), bytes.data() + i * 32, 32);
  return keys;
}

std::string publishedFolder(const CacheDirectory& directory) {
  return directory.path() + "/published";
}

Error notWhole(const View& view) {
  return {ErrorCode::kNotFound,
          "the view at " + view.path +
              " has files that are not complete on this agent; warm the dataset first"};
}

Status checkPublishName(const std::string& name) {
  const bool usable = !name.empty() && name.size() <= 200 && name[0] != '.' &&
                      name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  if (usable) return Status();
  return Error{ErrorCode::kInvalidArgument,
               "a publish needs a name of 1 to 200 bytes without '/' that does not begin with '.'"};
}

}  // namespace

// Everything a view needs before publishing writes anything.
struct ViewStore::Plan {
  CacheDirectory* directory = nullptr;
  std::vector<ContentKey> keys;
  std::vector<std::shared_ptr<OpenCacheFile>> files;  // held, so that nothing is evicted meanwhile
};

ViewStore::ViewStore(CacheCore& core) : core_(core), changes_(core.shards[0].reactor, 1) {}

CacheDirectory& ViewStore::forRecords() const {
  const auto accepting =
      std::ranges::find_if(core_.directories, &CacheDirectory::accepts,
                           [](const auto& each) -> CacheDirectory& { return *each; });
  return accepting == core_.directories.end() ? *core_.directories.front() : **accepting;
}

std::string ViewStore::path(const Sha256Digest& digest) const {
  const auto view = catalog_.find(digest);
  return view && view->whole ? view->path : std::string();
}

bool ViewStore::whole(const View& view) const {
  return std::all_of(view.keys.begin(), view.keys.end(), [this](const ContentKey& key) {
    const auto entry = core_.index.find(key);
    return entry && entry->fullyClaimed();
  });
}

Task<Status> ViewStore::recover(CacheDirectory& directory) {
  FileSystem& files = core_.shards[0].files;
  const std::string folder = directory.path() + "/views";
  const auto entries = co_await files.list(folder, ListDetail::kKinds);
  if (!entries.ok()) co_return entries.error();
  std::unordered_set<std::string> names;
  for (const DirectoryEntry& entry : *entries) names.insert(entry.name);
  for (const DirectoryEntry& entry : *entries) {
    const std::string path = folder + "/" + entry.name;
    const bool isTree = entry.info.kind == FileInfo::Kind::kDirectory;
    const auto digest = ContentKey::parse(entry.name);
    const bool isKeys = !isTree && entry.name.ends_with(kKeysSuffix);
    const std::string treeName =
        isKeys ? entry.name.substr(0, entry.name.size() - kKeysSuffix.size()) : "";
    bool leftover = entry.name.starts_with(kAsidePrefix) || (isKeys && !names.contains(treeName));
    if (isTree && digest) {
      const auto bytes = co_await readFile(files, path + std::string(kKeysSuffix), kMaxKeyBytes);
      const auto keys = bytes.ok() ? decodeKeys(*bytes) : std::nullopt;
      if (keys) catalog_.add(digest->bytes, {.path = path, .keys = *keys, .whole = false});
      // A published tree whose list is lost stays: it is mounted somewhere.
      leftover = !keys && !catalog_.publisherOf(digest->bytes);
    }
    if (!leftover) continue;
    const Status removed = co_await (isTree ? removeTree(files, path) : files.unlink(path));
    if (!removed.ok()) co_return removed;
  }
  co_return Status();
}

Task<Status> ViewStore::removeBroken(const CacheDirectory& directory) {
  for (const Sha256Digest& digest : catalog_.digests()) {
    const auto view = catalog_.find(digest);
    if (!view->path.starts_with(directory.path() + "/views/")) continue;
    if (whole(*view)) {
      (void)catalog_.markWhole(digest, catalog_.breaks());
    } else if (!catalog_.publisherOf(digest)) {
      const Status removed = co_await removeLocked(digest);
      if (!removed.ok()) co_return removed;
    }
  }
  co_return Status();
}

Task<Status> ViewStore::readPublished(CacheDirectory& directory) {
  FileSystem& files = core_.shards[0].files;
  const std::string folder = publishedFolder(directory);
  const auto entries = co_await files.list(folder, ListDetail::kKinds);
  if (!entries.ok()) co_return entries.error();
  std::map<std::string, Sha256Digest> names;
  for (const DirectoryEntry& entry : *entries) {
    if (entry.name.starts_with('.') || entry.info.kind != FileInfo::Kind::kFile) continue;
    const auto bytes = co_await readFile(files, folder + "/" + entry.name, kMaxPublishBytes);
    if (bytes.code() == ErrorCode::kNotFound || bytes.code() == ErrorCode::kInvalidArgument)
      continue;
    if (!bytes.ok()) co_return bytes.error();
    const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    const auto digest = ContentKey::parse(text.substr(0, 64));
    if (digest) names.emplace(entry.name, digest->bytes);
  }
  publishedIn_[&directory] = std::move(names);
  std::map<std::string, Sha256Digest> all;
  for (const auto& [where, published] : publishedIn_)
    all.insert(published.begin(), published.end());
  catalog_.replacePublished(std::move(all));
  co_return Status();
}

Task<void> ViewStore::readPublished() {
  for (const auto& directory : core_.directories) {
    if (directory->isOpen()) (void)co_await readPublished(*directory);
  }
}

Task<void> ViewStore::refresh(Reactor& back) {
  co_await core_.shards[0].reactor.enter();
  co_await changes_.acquire(1);
  co_await readPublished();
  changes_.release(1);
  co_await back.enter();
}

Result<ViewStore::Plan> ViewStore::plan(const Manifest& manifest) const {
  const ManifestTotals totals = manifest.totals();
  if (totals.files > kMaxFiles) {
    return Error{ErrorCode::kUnsupported,
                 "a view of " + std::to_string(totals.files) + " files is over the limit of " +
                     std::to_string(kMaxFiles) + "; the dataset is served by FUSE"};
  }
  Plan made;
  for (std::uint32_t index = 0; index < totals.entries; ++index) {
    const ManifestEntry entry = manifest.entry(index);
    if (entry.kind != EntryKind::kFile) continue;
    const auto file = OpenCacheFile::openKnown(core_, entry.key);
    if (!file || !file->complete() || file->size() != entry.size) {
      return Error{
          ErrorCode::kNotFound,
          "'" + manifest.path(index) + "' is not complete on this agent; warm the dataset first"};
    }
    if (entry.sourceDigest.has_value() && !file->verifiedWhole()) {
      return Error{ErrorCode::kNotFound,
                   "'" + manifest.path(index) +
                       "' was not yet compared with its origin's digest; the dataset is served by "
                       "FUSE until then"};
    }
    CacheDirectory& directory = file->entry().directory;
    if (made.directory != nullptr && made.directory != &directory) {
      return Error{ErrorCode::kUnsupported,
                   "the files lie in several cache directories, which hard links cannot join; the "
                   "dataset is served by "
                   "FUSE"};
    }
    made.directory = &directory;
    // An empty file is right whatever becomes of its key.
    if (entry.size != 0) made.keys.push_back(entry.key);
    made.files.push_back(file);
  }
  if (made.directory == nullptr) made.directory = &forRecords();
  std::sort(made.keys.begin(), made.keys.end());
  made.keys.erase(std::unique(made.keys.begin(), made.keys.end()), made.keys.end());
  return made;
}

Task<Result<std::string>> ViewStore::build(std::shared_ptr<const Manifest> manifest) {
  co_await changes_.acquire(1);
  Result<std::string> built = co_await buildLocked(std::move(manifest));
  changes_.release(1);
  co_return built;
}

// A view that is there, of files that were not whole.
Task<Result<std::string>> ViewStore::offerAgain(Sha256Digest digest, View view) {
  const std::uint64_t breaks = catalog_.breaks();
  for (const auto& directory : core_.directories) {
    if (!view.path.starts_with(directory->path() + "/views/")) continue;
    const Status committed = co_await directory->commit(core_.shards[0].reactor);
    if (!committed.ok()) co_return committed.error();
  }
  if (!whole(view) || !catalog_.markWhole(digest, breaks)) co_return notWhole(view);
  co_return view.path;
}

Task<Result<std::string>> ViewStore::buildLocked(std::shared_ptr<const Manifest> manifest) {
  const Sha256Digest digest = manifest->digest();
  if (const auto known = catalog_.find(digest)) {
    if (known->whole) co_return known->path;
    // A refetched file is compared with its digest again.
    const Result<Plan> now = this->plan(*manifest);
    if (!now.ok()) co_return now.error();
    co_return co_await offerAgain(digest, *known);
  }
  const std::uint64_t breaks = catalog_.breaks();
  const Result<Plan> plan = this->plan(*manifest);
  if (!plan.ok()) co_return plan.error();
  CacheDirectory& directory = *plan->directory;
  const ShardContext& shard = core_.shards[0];
  // The files of a view must survive a power loss: native reads are not checked.
  const Status committed = co_await directory.commit(shard.reactor);
  if (!committed.ok()) co_return committed.error();
  for (const auto& file : plan->files) {
    if (file->entry().fullyClaimed()) continue;
    co_return Error{ErrorCode::kNotFound,
                    "a file of the view became incomplete; warm the dataset again"};
  }
  const Status permitted = co_await makeExecutable(*manifest, *plan);
  if (!permitted.ok()) co_return permitted.error();
  const Status written = co_await write(*manifest, *plan);
  const std::string name = hexOf(digest);
  if (!written.ok()) co_return written.error().within("building the view " + name);
  const View built{.path = directory.path() + "/views/" + name, .keys = plan->keys};
  catalog_.add(digest, built);
  if (!catalog_.markWhole(digest, breaks)) {
    // Of some file, perhaps not of this view.
    co_return co_await offerAgain(digest, built);
  }
  co_return built.path;
}

Task<Status> ViewStore::makeExecutable(const Manifest& manifest, const Plan& plan) {
  std::unordered_set<ContentKey, ContentKeyHash> executable;
  for (std::uint32_t index = 0; index < manifest.totals().entries; ++index) {
    const ManifestEntry entry = manifest.entry(index);
    if (entry.kind == EntryKind::kFile && entry.executable) executable.insert(entry.key);
  }
  for (const auto& file : plan.files) {
    if (!executable.contains(file->key())) continue;
    const Status changed = co_await file->makeExecutable(core_.shards[0].files);
    if (!changed.ok()) co_return changed.error();
  }
  co_return Status();
}

Task<Status> ViewStore::write(const Manifest& manifest, const Plan& plan) {
  const ShardContext& shard = core_.shards[0];
  CacheDirectory& directory = *plan.directory;
  const std::string folder = directory.path() + "/views";
  const std::string name = hexOf(manifest.digest());
  const std::string aside = folder + "/" + std::string(kAsidePrefix) + name;
  std::function<std::string(const ContentKey&)> source = [&directory](const ContentKey& key) {
    return directory.objectPath(key);
  };
  Status done = co_await removeTree(shard.files, aside);
  if (done.ok()) {
    done = co_await writeViewTree(shard.files, manifest, aside, std::move(source));
  }
  if (done.ok()) {
    auto writing =
        replaceFile(shard.files, folder, name + std::string(kKeysSuffix), encodeKeys(plan.keys));
    done = co_await writing;
  }
  if (done.ok()) {
    done = co_await shard.files.rename(aside, folder + "/" + name);
  }
  if (done.ok()) {
    done = co_await shard.files.syncDirectory(folder);
  }
  if (!done.ok()) {
    (void)co_await removeTree(shard.files, aside);  // else the next start sweeps it
  }
  co_return done;
}

Task<Status> ViewStore::remove(Sha256Digest digest, Reactor& back) {
  co_await core_.shards[0].reactor.enter();
  co_await changes_.acquire(1);
  co_await readPublished();
  const Status done = co_await removeLocked(digest);
  changes_.release(1);
  co_await back.enter();
  co_return done;
}

Task<Status> ViewStore::removeLocked(Sha256Digest digest) {
  const auto view = catalog_.find(digest);
  if (!view) co_return Status();
  if (const auto publisher = catalog_.publisherOf(digest)) {
    co_return Error{ErrorCode::kInUse, "the view " + hexOf(digest) + " is published as " +
                                           *publisher + "; unpublish it first"};
  }
  FileSystem& files = core_.shards[0].files;
  const std::string name = hexOf(digest);
  const std::string folder = view->path.substr(0, view->path.size() - name.size() - 1);
  const std::string aside = folder + "/" + std::string(kAsidePrefix) + name;
  const Status cleared = co_await removeTree(files, aside);
  if (!cleared.ok()) co_return cleared;
  const Status renamed = co_await files.rename(view->path, aside);
  if (!renamed.ok() && renamed.code() != ErrorCode::kNotFound) co_return renamed;
  catalog_.erase(digest);
  // Before anything in the tree goes: a crash must not bring back the name of half a tree.
  const Status synced = co_await files.syncDirectory(folder);
  if (!synced.ok()) co_return synced;
  const Status unlinked = co_await files.unlink(view->path + std::string(kKeysSuffix));
  if (!unlinked.ok() && unlinked.code() != ErrorCode::kNotFound) co_return unlinked;
  co_return co_await removeTree(files, aside);
}

Task<Status> ViewStore::publish(std::string name, Sha256Digest digest) {
  const Status usable = checkPublishName(name);
  if (!usable.ok()) co_return usable;
  co_await changes_.acquire(1);
  co_await readPublished();
  Status done;
  const auto already = catalog_.publishedAs(name);
  if (already && *already != digest) {
    done = Error{ErrorCode::kAlreadyExists,
                 name + " publishes another revision already; unpublish it first"};
  } else if (const auto view = catalog_.find(digest); view && !view->whole && !already) {
    done = notWhole(*view);
  } else if (!already) {
    CacheDirectory& directory = forRecords();
    const std::string text = hexOf(digest) + "\n";
    const auto bytes = std::as_bytes(std::span(text));
    std::vector<std::byte> contents(bytes.begin(), bytes.end());
    done = co_await replaceFile(core_.shards[0].files, publishedFolder(directory), name,
                                std::move(contents));
    if (done.ok()) {
      publishedIn_[&directory][name] = digest;
      catalog_.publish(name, digest);
    }
  }
  changes_.release(1);
  co_return done;
}

Task<Status> ViewStore::unpublishIn(CacheDirectory& directory, const std::string& name) {
  FileSystem& files = core_.shards[0].files;
  const std::string folder = publishedFolder(directory);
  const Status unlinked = co_await files.unlink(folder + "/" + name);
  // A directory whose disk fails, and has nothing of that name, does not matter.
  if (!unlinked.ok() && !publishedIn_[&directory].contains(name)) co_return Status();
  if (!unlinked.ok() && unlinked.code() != ErrorCode::kNotFound) co_return unlinked;
  publishedIn_[&directory].erase(name);
  co_return co_await files.syncDirectory(folder);
}

Task<Status> ViewStore::unpublish(std::string name) {
  const Status usable = checkPublishName(name);
  if (!usable.ok()) co_return usable;
  co_await changes_.acquire(1);
  Status done;
  for (const auto& directory : core_.directories) {
    if (!directory->isOpen() || !done.ok()) continue;
    done = co_await unpublishIn(*directory, name);
  }
  if (done.ok()) catalog_.unpublish(name);
  changes_.release(1);
  co_return done;
}

}  // namespace hearth
