// Views on the disk: trees of hard links to complete cache files, and the publishes that hold them.
//
//   views/<digest>        the tree; directories 0555
//   views/<digest>.keys   the keys that it links: 32 bytes each, then the CRC32C of them all (u32,
//                         little-endian); durable before the tree has its name
//   views/.tmp-*          being built or removed; swept at start
//   published/<name>      the digest of what is published under that name, in hexadecimal
//
// publish() builds a tree aside and renames it; no tree changes afterwards. A tree links claimed
// files only, so its contents are right after a power loss. A view with a bad chunk stays for pods
// that have it mounted, and is neither offered nor published until the chunk is repaired in place.
// Changes run on shards[0], one at a time.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "cache/content_cache.h"
#include "cache/view_catalog.h"
#include "reactor/synchronization.h"

namespace hearth {

struct CacheCore;
class CacheDirectory;

class ViewStore {
 public:
  static constexpr std::uint32_t kMaxFiles = 100'000;

  // `core` must remain live while this object is used.
  explicit ViewStore(CacheCore& core);

  // shards[0]. What the directory, which is locked, has published.
  [[nodiscard]] Task<Status> readPublished(CacheDirectory& directory);
  // shards[0], before the directory's log is replayed: sweeps leftovers and reads key lists.
  [[nodiscard]] Task<Status> recover(CacheDirectory& directory);
  // shards[0], once the directory's log is replayed: removes its views that are not whole, unless
  // they are published.
  [[nodiscard]] Task<Status> removeBroken(const CacheDirectory& directory);

  // shards[0].
  [[nodiscard]] Task<Result<std::string>> build(std::shared_ptr<const Manifest> manifest);
  [[nodiscard]] Task<Status> publish(std::string name, Sha256Digest digest);
  [[nodiscard]] Task<Status> unpublish(std::string name);
  // Any shard; these continue on `back`.
  // kInUse, naming a publisher; a view that is not there is no error.
  [[nodiscard]] Task<Status> remove(Sha256Digest digest, Reactor& back);
  // Reads published/ again: others write there too.
  [[nodiscard]] Task<void> refresh(Reactor& back);

  // Any thread. A chunk of the key was found bad: the views that link it are not handed out until
  // build() finds it repaired. Who has them mounted sees the repair, which is in the same inode.
  void noteSpoiled(const ContentKey& key) { catalog_.markBroken(key); }

  // Any thread. Empty when there is no whole view.
  [[nodiscard]] std::string path(const Sha256Digest& digest) const;
  // As of the last publish or refresh.
  [[nodiscard]] std::map<std::string, Sha256Digest> published() const {
    return catalog_.published();
  }
  [[nodiscard]] bool publishes(const ContentKey& key) const { return catalog_.publishes(key); }
  [[nodiscard]] std::vector<Sha256Digest> viewsOf(const ContentKey& key) const {
    return catalog_.viewsOf(key);
  }

 private:
  struct Plan;
  // A directory that cannot be read has what it had.
  [[nodiscard]] Task<void> readPublished();
  [[nodiscard]] Task<Status> unpublishIn(CacheDirectory& directory, const std::string& name);
  [[nodiscard]] Task<Status> removeLocked(Sha256Digest digest);
  [[nodiscard]] Task<Result<std::string>> buildLocked(std::shared_ptr<const Manifest> manifest);
  [[nodiscard]] Task<Status> makeExecutable(const Manifest& manifest, const Plan& plan);
  // The tree and the list of its keys, aside first; what fails leaves nothing behind.
  [[nodiscard]] Task<Status> write(const Manifest& manifest, const Plan& plan);
  [[nodiscard]] Task<Result<std::string>> offerAgain(Sha256Digest digest, View view);
  [[nodiscard]] Result<Plan> plan(const Manifest& manifest) const;
  [[nodiscard]] bool whole(const View& view) const;
  // The first directory that accepts files.
  [[nodiscard]] CacheDirectory& forRecords() const;

  CacheCore& core_;
  Semaphore changes_;
  ViewCatalog catalog_;
  // shards[0], with `changes_`. By directory; an entry for each that is locked.
  std::map<const CacheDirectory*, std::map<std::string, Sha256Digest>> publishedIn_;
};

}  // namespace hearth
