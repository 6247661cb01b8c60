// Node ids are computed, never remembered: any agent understands the ids that another one gave out.
//
// One kernel inode cannot be open through the page cache and by passthrough at once, nor with two
// backing files (the open fails with EIO). So a file has an inode for each mode, and new ones for
// each hand-over, after which it is not known for sure how the old ones are open. Folders and
// symlinks have one for ever: a working directory, or a mount below a folder, survives every
// hand-over.
//
//   bits 0-31 entry index, 32-33 mode, 34-63 epoch (0 for folders and symlinks); the root is 1
//
// Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "manifest/manifest.h"

namespace hearth {

enum class NodeMode : std::uint8_t {
  kTree = 1,         // folders and symlinks
  kDaemon = 2,       // a file that was incomplete when it was looked up
  kPassthrough = 3,  // a file that was complete
};

struct NodeId {
  std::uint32_t entry = kRootEntry;
  NodeMode mode = NodeMode::kTree;
  std::uint32_t epoch = 0;  // below 2^30

  auto operator<=>(const NodeId&) const = default;
};

inline constexpr std::uint32_t kNodeEpochMask = (1U << 30) - 1;
inline constexpr std::uint64_t kRootNode = 1;  // FUSE_ROOT_ID

[[nodiscard]] constexpr std::uint64_t encodeNodeId(const NodeId& id) {
  if (id.entry == kRootEntry) return kRootNode;
  return std::uint64_t{id.entry} | static_cast<std::uint64_t>(id.mode) << 32 |
         std::uint64_t{id.epoch & kNodeEpochMask} << 34;
}

// Nothing unless encodeNodeId() makes it.
[[nodiscard]] constexpr std::optional<NodeId> decodeNodeId(std::uint64_t node) {
  if (node == kRootNode) return NodeId{};
  NodeId id{static_cast<std::uint32_t>(node), static_cast<NodeMode>(node >> 32 & 3),
            static_cast<std::uint32_t>(node >> 34)};
  if (id.entry == kRootEntry || (node >> 32 & 3) == 0) return std::nullopt;
  if (id.mode == NodeMode::kTree && id.epoch != 0) return std::nullopt;
  return id;
}

// st_ino: the same in every mode and epoch.
[[nodiscard]] constexpr std::uint64_t inodeNumber(std::uint32_t entry) {
  return std::uint64_t{entry} + 1;
}

}  // namespace hearth
