// The published files of a writable volume, as datasets list and find them: names from the volume's
// leader, and for each file the content key by which mounts of the volume read it, too.
//
// Called and continued on the home shard's thread. Errors of all calls: kNotFound for a volume that
// is not known here or was deleted, kUnavailable when no leader has answered by the volume's
// deadline, kCancelled when the engine closes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/volume_calls.h"

namespace hearth {

struct PublishedEntry {
  std::string name;
  std::uint64_t cookie = 0;
  tree::Attributes attributes;
  ContentKey key;      // of files
  std::string target;  // of symlinks
};

struct PublishedFolder {
  std::vector<PublishedEntry> entries;
  bool more = false;
};

// The content of a file as it was published last.
struct PublishedFileContent {
  ContentKey key;
  std::uint64_t size = 0;
  std::string node;  // whose agent wrote it; empty: it has left the volume
};

class VolumeListing {
 public:
  // `volume`: null when it is not known. `home` outlives this.
  VolumeListing(Reactor& home, std::shared_ptr<Volume> volume)
      : home_(home), volume_(std::move(volume)) {}

  // "a/b/c"; "" is the root. kNotFound also when there is no such name.
  [[nodiscard]] Task<Result<tree::Attributes>> lookUp(std::string path) const;
  // Entries of a folder behind a cookie (0: from the first on), kMaxListed at most. With `contents`
  // the keys of files and the targets of symlinks. kOriginChanged: the folder or a file of it went
  // meanwhile.
  [[nodiscard]] Task<Result<PublishedFolder>> list(tree::InodeId folder, std::uint64_t after,
                                                   bool contents) const;
  // Of each file; nothing for one that is gone or has no bytes.
  [[nodiscard]] Task<Result<std::vector<std::optional<PublishedFileContent>>>> contents(
      std::vector<tree::InodeId> files) const;

 private:
  [[nodiscard]] Task<Result<tree::Attributes>> lookUpOnShard(std::string path) const;
  [[nodiscard]] Task<Result<PublishedFolder>> listOnShard(tree::InodeId folder, std::uint64_t after,
                                                          bool contents) const;
  // Fills in the key or the target. An errno.
  [[nodiscard]] Task<std::int32_t> describe(PublishedEntry& entry) const;
  [[nodiscard]] Task<std::int32_t> contentOf(tree::InodeId file,
                                             std::optional<PublishedFileContent>& content) const;
  [[nodiscard]] Error missing() const;
  [[nodiscard]] Error failure(std::int32_t error, const std::string& what) const;

  Reactor& home_;
  const std::shared_ptr<Volume> volume_;
};

}  // namespace hearth
