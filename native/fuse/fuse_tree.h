// The names and attributes of a mount: everything that the manifest alone can answer, and the
// extended attributes. Functions return 0 or an errno. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuse/fuse_abi.h"
#include "fuse/mount_source.h"
#include "fuse/node_id.h"

namespace hearth {

class FuseTree {
 public:
  // `passthrough`: whether complete files are to be opened by passthrough; may turn false at any
  // time. Both references must remain live while this object is used.
  FuseTree(MountSource& source, const std::atomic<bool>& passthrough)
      : source_(source), passthrough_(passthrough) {}

  // The entry behind a node id; ESTALE for an id that no agent gave out.
  [[nodiscard]] int entryOf(std::uint64_t node, ManifestEntry& entry) const;

  // ENOENT is answered by node id 0, which the kernel remembers: names never appear in a manifest.
  [[nodiscard]] int lookUp(std::uint64_t node, std::string_view name, fuse_entry_out& out) const;
  [[nodiscard]] int attributes(std::uint64_t node, fuse_attr_out& out) const;
  [[nodiscard]] int statx(std::uint64_t node, FuseStatxOut& out) const;
  [[nodiscard]] int access(std::uint64_t node, std::uint32_t mask) const;
  [[nodiscard]] int readLink(std::uint64_t node, std::string_view& target) const;
  // Appends at most `size` bytes of fuse_dirent (`plus`: fuse_direntplus) records to `out`, from
  // position `offset` on; nothing at the end.
  [[nodiscard]] int readDirectory(std::uint64_t node, std::uint64_t offset, std::uint32_t size,
                                  bool plus, std::vector<std::byte>& out) const;
  // Sizes from the manifest; nothing is free.
  [[nodiscard]] fuse_statfs_out statistics() const;
  // `opensByDaemon`: the node's next open is the daemon's, also when its file is complete.
  [[nodiscard]] int xattr(std::uint64_t node, std::string_view name, bool opensByDaemon,
                          std::string& value) const;
  // The names, each with its zero byte.
  [[nodiscard]] int xattrNames(std::uint64_t node, std::string& names) const;

 private:
  // Once it is complete.
  [[nodiscard]] bool passesThrough(const ManifestEntry& file) const;

  MountSource& source_;
  const std::atomic<bool>& passthrough_;
};

}  // namespace hearth
