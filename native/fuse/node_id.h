// Node ids are computed, never remembered: any agent understands the ids that another one gave out.
//
// A name keeps its id for as long as the kernel remembers it, however its file is opened: programs
// that keep an inode (overlayfs, NFS exports, working directories) find it the same after the file
// has become complete and after every hand-over.
//
//   bits 0-31 entry index, 32-33 kind, 34-63 zero; the root is 1
//
// Earlier releases gave a file an id for each way to open it (kind 2: by the daemon, 3: by
// passthrough) and each epoch of the mount (bits 34-63, never 0). The kernel may still have these.
//
// Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "manifest/manifest.h"

namespace hearth {

enum class NodeKind : std::uint8_t {
  kTree = 1,  // folders and symlinks
  kFile = 2,
};

struct NodeId {
  std::uint32_t entry = kRootEntry;
  NodeKind kind = NodeKind::kTree;

  auto operator<=>(const NodeId&) const = default;
};

inline constexpr std::uint64_t kRootNode = 1;  // FUSE_ROOT_ID

[[nodiscard]] constexpr std::uint64_t encodeNodeId(const NodeId& id) {
  if (id.entry == kRootEntry) return kRootNode;
  return std::uint64_t{id.entry} | static_cast<std::uint64_t>(id.kind) << 32;
}

// Nothing unless encodeNodeId(), of this release or an earlier one, makes it.
[[nodiscard]] constexpr std::optional<NodeId> decodeNodeId(std::uint64_t node) {
  if (node == kRootNode) return NodeId{};
  const auto entry = static_cast<std::uint32_t>(node);
  const auto kind = node >> 32 & 3;
  const bool hasEpoch = node >> 34 != 0;
  if (entry == kRootEntry || kind == 0 || (kind == 1 && hasEpoch) || (kind == 3 && !hasEpoch))
    return std::nullopt;
  return NodeId{entry, kind == 1 ? NodeKind::kTree : NodeKind::kFile};
}

// An id that only earlier releases give out.
[[nodiscard]] constexpr bool isEarlierNodeId(std::uint64_t node) {
  const auto id = decodeNodeId(node);
  return id && encodeNodeId(*id) != node;
}

// st_ino.
[[nodiscard]] constexpr std::uint64_t inodeNumber(std::uint32_t entry) {
  return std::uint64_t{entry} + 1;
}

}  // namespace hearth
