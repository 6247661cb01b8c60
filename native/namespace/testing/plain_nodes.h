// The state of PlainModel, and what can be asked of it without a change. It counts links and bytes
// by looking at everything.
#pragma once

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "namespace/namespace.h"

namespace hearth::tree {

struct PlainNode {
  Inode stat;  // without links and version
  std::map<std::string, InodeId> entries;
  InodeId parent = kNoInode;
  bool removed = false;  // a folder
  std::string target;
  std::map<std::string, std::string> xattrs;
  std::optional<Session> session;
  ContentVersion version;
  std::uint64_t length = 0;
  std::vector<ChunkRun> chunks;  // one run for each
};

// All that a session may have written: chunks below `used`.
struct PlainSession {
  InodeId file = kNoInode;
  AgentId holder = kNoAgent;
  bool ended = false;
  std::uint32_t used = kAllChunks;
};

class PlainNodes {
 public:
  [[nodiscard]] std::uint32_t links(InodeId inode) const {
    const PlainNode& node = nodes.at(inode);
    std::uint32_t count = 0;
    if (node.stat.kind == Kind::kFolder) {
      if (node.removed) return 0;
      for (const auto& [name, child] : node.entries) {
        if (nodes.at(child).stat.kind == Kind::kFolder) ++count;
      }
      return count + 2;
    }
    for (const auto& [id, folder] : nodes) {
      for (const auto& [name, child] : folder.entries) count += child == inode ? 1 : 0;
    }
    return count;
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [id, node] : nodes) sum += node.length;
    return sum;
  }
  // Of what has a name: the limits are for these.
  [[nodiscard]] std::uint64_t namedBytes() const {
    std::uint64_t sum = 0;
    for (const auto& [id, node] : nodes) sum += links(id) == 0 ? 0 : node.length;
    return sum;
  }
  [[nodiscard]] std::size_t namedInodes() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(nodes, [&](const auto& node) { return links(node.first) != 0; }));
  }
  // Of all files.
  [[nodiscard]] std::set<std::pair<SessionId, std::uint32_t>> namedChunks() const {
    std::set<std::pair<SessionId, std::uint32_t>> named;
    for (const auto& [id, node] : nodes) {
      for (const ChunkRun& chunk : node.chunks) named.emplace(chunk.session, chunk.first);
    }
    return named;
  }

  std::map<InodeId, PlainNode> nodes;
  std::map<SessionId, PlainSession> sessions;
  std::map<AgentId, WideId> current;
  std::uint64_t maxBytes = 0, maxInodes = 0;

 protected:
  [[nodiscard]] InodeId at(const Place& place) const {
    const auto folder = nodes.find(place.folder);
    if (folder == nodes.end()) return kNoInode;
    const auto entry = folder->second.entries.find(place.name);
    return entry == folder->second.entries.end() ? kNoInode : entry->second;
  }
  [[nodiscard]] int noFolder(InodeId inode) const {
    if (!nodes.contains(inode)) return ESTALE;
    return nodes.at(inode).stat.kind == Kind::kFolder ? 0 : ENOTDIR;
  }
  [[nodiscard]] int cannotName(const Place& place) const {
    if (const int error = noFolder(place.folder)) return error;
    if (nodes.at(place.folder).removed) return ENOENT;
    if (place.name.size() > 255) return ENAMETOOLONG;
    const std::string& name = place.name;
    const bool bad = name.empty() || name == "." || name == ".." || name.find('/') != name.npos;
    return bad ? EINVAL : 0;
  }
  [[nodiscard]] bool isFolder(InodeId inode) const {
    return inode != kNoInode && nodes.at(inode).stat.kind == Kind::kFolder;
  }
  // `inode` is `folder` or above it.
  [[nodiscard]] bool above(InodeId inode, InodeId folder) const {
    while (folder != kNoInode && folder != inode) folder = nodes.at(folder).parent;
    return folder == inode;
  }
  void give(const Place& place, InodeId inode) {
    PlainNode& folder = nodes.at(place.folder);
    folder.entries[place.name] = inode;
    folder.stat.modifiedNs = folder.stat.changedNs = now_;
    nodes.at(inode).parent = place.folder;
  }
  void take(const Place& place) {
    PlainNode& folder = nodes.at(place.folder);
    folder.entries.erase(place.name);
    folder.stat.modifiedNs = folder.stat.changedNs = now_;
  }
  void lostName(InodeId inode) {
    PlainNode& node = nodes.at(inode);
    node.stat.changedNs = now_;
    if (node.stat.kind == Kind::kFolder) {
      node.removed = true;
    } else if (node.stat.kind != Kind::kFile && links(inode) == 0) {
      nodes.erase(inode);
    }
  }

  std::int64_t now_ = 0;
};

}  // namespace hearth::tree
