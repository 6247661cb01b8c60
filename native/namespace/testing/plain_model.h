// A volume's tree as plain maps, for tests: slow and easy to believe. It knows no records. New ids
// it takes from the tree that it is compared with.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "namespace/testing/plain_nodes.h"

namespace hearth::tree {

class PlainModel : public PlainNodes {
 public:
  explicit PlainModel(const NamespaceOptions& options, std::int64_t nowNs) : options_(options) {
    PlainNode root;
    root.stat = {.kind = Kind::kFolder, .mode = options.rootMode};
    root.stat.accessedNs = root.stat.modifiedNs = root.stat.changedNs = nowNs;
    nodes[kRootInode] = root;
  }

  // The answer that the change has to give; `actual` has the ids of new inodes and sessions.
  Answer perform(const ClientId& client, std::int64_t nowNs, const ClientChange& change,
                 const Answer& actual) {
    client_ = client;
    now_ = nowNs;
    actual_ = actual;
    return std::visit([&](const auto& asked) { return does(asked); }, change);
  }
  void join(const ClientId& client) { current[client.agent] = client.incarnation; }
  bool isCurrent(const ClientId& client) const {
    return current.at(client.agent) == client.incarnation;
  }
  void forget(InodeId inode) {
    PlainNode& node = nodes.at(inode);
    if (node.session) end(node, kAllChunks);
    nodes.erase(inode);
  }
  // Of a file: an errno.
  [[nodiscard]] std::int32_t evictError(InodeId inode) const {
    if (!nodes.contains(inode)) return ESTALE;
    const PlainNode& node = nodes.at(inode);
    if (node.version == ContentVersion{}) return EINVAL;
    return node.session || links(inode) != 1 ? EBUSY : 0;
  }
  void evict(InodeId inode, std::int64_t nowNs) {
    now_ = nowNs;
    for (auto& [id, folder] : nodes) {
      for (const auto& [name, child] : folder.entries) {
        if (child != inode) continue;
        take({id, std::string(name)});
        return lostName(inode);
      }
    }
  }

 private:
  Answer does(const Create& change) {
    if (const int error = cannotName(change.place)) return failed(error);
    const InodeId there = at(change.place);
    if (there != kNoInode) {
      PlainNode& node = nodes.at(there);
      if (change.exclusive || change.kind != Kind::kFile) return {.error = EEXIST, .inode = there};
      if (node.stat.kind == Kind::kFolder) return failed(EISDIR);
      if (node.stat.kind != Kind::kFile) return failed(ESTALE);
      if (!change.opens) return {.inode = there, .content = node.version};
      return open(there, {.inode = there, .writes = false});
    }
    if (change.kind == Kind::kFolder || change.kind == Kind::kSymlink) return failed(EINVAL);
    return make(change.place, change.kind, change.mode, change.uid, change.gid, change.opens);
  }
  Answer does(const MakeFolder& change) {
    if (const int error = cannotName(change.place)) return failed(error);
    const InodeId there = at(change.place);
    if (there != kNoInode) return {.error = EEXIST, .inode = there};
    if (links(change.place.folder) >= options_.maxFolderLinks) return failed(EMLINK);
    return make(change.place, Kind::kFolder, change.mode, change.uid, change.gid, false);
  }
  Answer does(const MakeSymlink& change) {
    if (change.target.empty()) return failed(ENOENT);
    if (change.target.size() >= 4096) return failed(ENAMETOOLONG);
    if (const int error = cannotName(change.place)) return failed(error);
    const InodeId there = at(change.place);
    if (there != kNoInode) return {.error = EEXIST, .inode = there};
    Answer answer = make(change.place, Kind::kSymlink, 0777, change.uid, change.gid, false);
    if (answer.error == 0) nodes.at(answer.inode).target = change.target;
    return answer;
  }
  Answer does(const Unlink& change) {
    if (const int error = cannotName(change.place)) return failed(error);
    const InodeId there = at(change.place);
    if (there == kNoInode) return failed(ENOENT);
    if (nodes.at(there).stat.kind == Kind::kFolder) return failed(EISDIR);
    take(change.place);
    lostName(there);
    return {.removed = there};
  }
  Answer does(const RemoveFolder& change) {
    if (const int error = cannotName(change.place)) return failed(error);
    const InodeId there = at(change.place);
    if (there == kNoInode) return failed(ENOENT);
    if (nodes.at(there).stat.kind != Kind::kFolder) return failed(ENOTDIR);
    if (!nodes.at(there).entries.empty()) return failed(ENOTEMPTY);
    take(change.place);
    lostName(there);
    return {.removed = there};
  }
  Answer does(const Link& change) {
    if (!nodes.contains(change.inode)) return failed(ESTALE);
    if (const int error = cannotName(change.place)) return failed(error);
    const InodeId there = at(change.place);
    if (there != kNoInode) return {.error = EEXIST, .inode = there};
    if (nodes.at(change.inode).stat.kind == Kind::kFolder) return failed(EPERM);
    if (links(change.inode) == 0) return failed(ENOENT);
    if (links(change.inode) >= options_.maxFileLinks) return failed(EMLINK);
    Answer answer = withPublish(change.inode, change.publish);
    if (answer.error != 0) return answer;
    give(change.place, change.inode);
    nodes.at(change.inode).stat.changedNs = now_;
    return answer;
  }
  Answer does(const Rename& change) {
    if (const int error = noFolder(change.from.folder)) return failed(error);
    if (const int error = noFolder(change.to.folder)) return failed(error);
    if (const int error = cannotName(change.from)) return failed(error);
    const InodeId moved = at(change.from);
    if (moved == kNoInode) return failed(ENOENT);
    if (const int error = cannotName(change.to)) return failed(error);
    const InodeId other = at(change.to);
    const bool exchange = change.mode == RenameMode::kExchange;
    if (const int error = cannotMove(change, moved, other)) {
      Answer answer = failed(error);
      if (error == EEXIST) answer.inode = other;
      return answer;
    }
    if (exchange && other != moved) {
      const Answer target = withoutPublish(other);
      // The moved file's own publish is judged first.
      if (target.error != 0) {
        const PlainModel before = *this;
        const Answer own = withPublish(moved, change.publish);
        *this = before;
        return own.error != 0 ? own : target;
      }
    }
    Answer answer = withPublish(moved, change.publish);
    if (answer.error != 0 || other == moved) return answer;
    take(change.from);
    if (other != kNoInode) take(change.to);
    give(change.to, moved);
    nodes.at(moved).stat.changedNs = now_;
    if (exchange) {
      give(change.from, other);
      nodes.at(other).stat.changedNs = now_;
    } else if (other != kNoInode) {
      answer.removed = other;
      lostName(other);
    }
    return answer;
  }
  Answer does(const SetAttributes& change) {
    if (!nodes.contains(change.inode)) return failed(ESTALE);
    PlainNode& node = nodes.at(change.inode);
    if (change.size) {
      if (node.stat.kind == Kind::kFolder) return failed(EISDIR);
      if (node.stat.kind != Kind::kFile) return failed(EINVAL);
      if (node.session && node.session->holder.agent != client_.agent) return held(node);
      if (node.session || (*change.size != 0 && *change.size != node.length)) {
        return failed(EINVAL, Refusal::kNeedsSession);
      }
      if (*change.size == 0) {
        node.version = {};
        node.chunks.clear();
        node.length = 0;
      }
      node.stat.modifiedNs = now_;
    }
    if (change.mode) node.stat.mode = *change.mode & 07777;
    if (change.uid) node.stat.uid = *change.uid;
    if (change.gid) node.stat.gid = *change.gid;
    if (change.accessedNs) node.stat.accessedNs = *change.accessedNs;
    if (change.modifiedNs) node.stat.modifiedNs = *change.modifiedNs;
    node.stat.changedNs = now_;
    return {.inode = change.inode, .content = node.version};
  }
  Answer does(const SetXattr& change) {
    if (!nodes.contains(change.inode)) return failed(ESTALE);
    if (change.name.empty() || change.name.size() > 255) return failed(ERANGE);
    if (change.value.size() > kMaxXattrBytes) return failed(E2BIG);
    PlainNode& node = nodes.at(change.inode);
    const bool there = node.xattrs.contains(change.name);
    if (there && change.mode == XattrMode::kCreate) return failed(EEXIST);
    if (!there && change.mode == XattrMode::kReplace) return failed(ENODATA);
    auto after = node.xattrs;
    after[change.name] = change.value;
    std::size_t bytes = 0;
    for (const auto& [name, value] : after) bytes += name.size() + value.size() + kXattrOverhead;
    if (bytes > kMaxXattrBytes) return failed(ENOSPC);
    node.xattrs = after;
    node.stat.changedNs = now_;
    return {.inode = change.inode, .content = node.version};
  }
  Answer does(const RemoveXattr& change) {
    if (!nodes.contains(change.inode)) return failed(ESTALE);
    if (change.name.empty() || change.name.size() > 255) return failed(ERANGE);
    PlainNode& node = nodes.at(change.inode);
    if (node.xattrs.erase(change.name) == 0) return failed(ENODATA);
    node.stat.changedNs = now_;
    return {.inode = change.inode, .content = node.version};
  }
  Answer does(const OpenForWriting& change) {
    if (!nodes.contains(change.inode)) return failed(ESTALE);
    if (change.place && at(*change.place) != change.inode) return failed(ESTALE);
    const Kind kind = nodes.at(change.inode).stat.kind;
    if (kind != Kind::kFile) return failed(kind == Kind::kFolder ? EISDIR : EINVAL);
    return open(change.inode, change);
  }
  Answer does(const Publish& change) {
    return nodes.contains(change.inode) ? publish(change) : failed(ESTALE);
  }
  Answer does(const EndSession& change) {
    if (!nodes.contains(change.inode)) return failed(ESTALE);
    PlainNode& node = nodes.at(change.inode);
    if (!has(node, change.session)) return failed(EIO, Refusal::kSessionOver);
    end(node, change.usedChunks);
    return {.inode = change.inode, .content = node.version};
  }

  static Answer failed(std::int32_t error, Refusal refusal = Refusal::kNone) {
    return {.error = error, .refusal = refusal};
  }
  static Answer held(const PlainNode& node) {
    return {.error = EBUSY, .refusal = Refusal::kHeld, .holder = node.session->holder};
  }
  [[nodiscard]] int cannotMove(const Rename& change, InodeId moved, InodeId other) const {
    const bool exchange = change.mode == RenameMode::kExchange;
    const InodeId from = change.from.folder, to = change.to.folder;
    if (other != kNoInode && change.mode == RenameMode::kNoReplace) return EEXIST;
    if (other == kNoInode && exchange) return ENOENT;
    if (isFolder(moved) && above(moved, to)) return EINVAL;
    if (isFolder(other) && above(other, from)) return exchange ? EINVAL : ENOTEMPTY;
    if (other == moved) return 0;
    if (other != kNoInode && !exchange) {
      if (isFolder(moved) && !isFolder(other)) return ENOTDIR;
      if (!isFolder(moved) && isFolder(other)) return EISDIR;
    }
    const std::uint32_t most = options_.maxFolderLinks;
    if (from != to && isFolder(moved) && !isFolder(other) && links(to) >= most) return EMLINK;
    if (from != to && exchange && !isFolder(moved) && isFolder(other) && links(from) >= most) {
      return EMLINK;
    }
    return !exchange && isFolder(other) && !nodes.at(other).entries.empty() ? ENOTEMPTY : 0;
  }

  Answer make(const Place& place, Kind kind, std::uint16_t mode, std::uint32_t uid,
              std::uint32_t gid, bool opens) {
    if (maxInodes != 0 && namedInodes() >= maxInodes) return failed(ENOSPC);
    const PlainNode& folder = nodes.at(place.folder);
    PlainNode node;
    node.stat = {.kind = kind, .mode = static_cast<std::uint16_t>(mode & 07777), .uid = uid};
    node.stat.gid = gid;
    if ((folder.stat.mode & 02000) != 0) {
      node.stat.gid = folder.stat.gid;
      if (kind == Kind::kFolder) node.stat.mode |= 02000;
    }
    node.stat.accessedNs = node.stat.modifiedNs = node.stat.changedNs = now_;
    Answer answer{.created = true, .inode = actual_.inode};
    nodes[answer.inode] = node;
    give(place, answer.inode);
    if (kind == Kind::kFile && opens) grant(answer);
    return answer;
  }
  void grant(Answer& answer) {
    answer.session = actual_.session;
    nodes.at(answer.inode).session = Session{answer.session, client_};
    sessions[answer.session] = {.file = answer.inode, .holder = client_.agent};
  }
  void end(PlainNode& node, std::uint32_t used) {
    PlainSession& session = sessions.at(node.session->id);
    session.ended = true;
    session.used = used;
    for (const ChunkRun& chunk : node.chunks) {
      const bool own = chunk.session == node.session->id;
      if (own) session.used = std::max(session.used, chunk.first + 1);
    }
    node.session.reset();
  }
  [[nodiscard]] bool has(const PlainNode& node, SessionId session) const {
    return node.session && node.session->id == session && node.session->holder == client_;
  }

  Answer open(InodeId inode, const OpenForWriting& ask) {
    PlainNode& node = nodes.at(inode);
    Answer answer{.inode = inode, .content = node.version};
    if (node.session && node.session->holder == client_) {
      answer.session = node.session->id;
      return answer;
    }
    bool successor = false;
    if (node.session) {
      const bool sameAgent = node.session->holder.agent == client_.agent;
      successor = sameAgent && current.at(client_.agent) == client_.incarnation;
      if (!successor && node.session->id != ask.lapsed) {
        if (!sameAgent && node.length == 0 && !ask.writes) return answer;
        return held(node);
      }
    }
    if (ask.adopts && !successor && ask.adopts->base != node.version &&
        (node.version == ContentVersion{} || node.version.session != ask.adopts->session)) {
      return failed(EIO, Refusal::kOtherVersion);
    }
    if (node.session) end(node, kAllChunks);
    grant(answer);
    return answer;
  }
  Answer withoutPublish(InodeId inode) const {
    const PlainNode& node = nodes.at(inode);
    if (node.session && node.version == ContentVersion{}) {
      return {.error = EBUSY, .refusal = Refusal::kUnpublished, .holder = node.session->holder};
    }
    return {.inode = inode, .content = node.version};
  }
  Answer withPublish(InodeId inode, const std::optional<Publish>& change) {
    if (!change) return withoutPublish(inode);
    if (change->inode != inode) return failed(EINVAL, Refusal::kBadContent);
    return publish(*change);
  }

  static std::vector<ChunkRun> chunksOf(const Content& content) {
    std::vector<ChunkRun> chunks;
    for (const ChunkRun& run : content.runs) {
      for (std::uint32_t i = 0; i < run.count; ++i) {
        const std::uint32_t first = run.session == kNoSession ? 0 : run.first + i;
        chunks.push_back({run.session, first, 1, run.holder});
      }
    }
    return chunks;
  }
  [[nodiscard]] bool fine(const PlainNode& node, const Publish& change) const {
    const Content& content = change.content;
    if (content.version.session != change.session || content.version.counter == 0) return false;
    if (node.version.session == change.session && content.version.counter <= node.version.counter) {
      return false;
    }
    const auto chunks = chunksOf(content);
    if (chunks.size() != (content.length + (4 << 20) - 1) / (4 << 20)) return false;
    for (const ChunkRun& chunk : chunks) {
      if (chunk.session == kNoSession) continue;
      if (chunk.session == change.session) {
        if (chunk.holder != client_.agent || chunk.first >= change.usedChunks) return false;
      } else if (std::ranges::find(node.chunks, chunk) == node.chunks.end()) {
        return false;
      }
    }
    return true;
  }
  Answer publish(const Publish& change) {
    PlainNode& node = nodes.at(change.inode);
    if (!has(node, change.session)) return failed(EIO, Refusal::kSessionOver);
    Answer answer{.inode = change.inode, .session = change.session};
    answer.content = change.content.version;
    if (node.stat.kind != Kind::kFile || links(change.inode) == 0) {
      answer.content = node.version;
      if (change.ends) end(node, change.usedChunks);
      return answer;
    }
    if (node.version != change.base) return failed(EIO, Refusal::kOtherVersion);
    if (!fine(node, change)) return failed(EINVAL, Refusal::kBadContent);
    if (maxBytes != 0 && change.content.length > node.length &&
        namedBytes() - node.length + change.content.length > maxBytes) {
      return failed(ENOSPC);
    }
    node.version = change.content.version;
    node.length = change.content.length;
    node.chunks = chunksOf(change.content);
    node.stat.modifiedNs = change.modifiedNs;
    node.stat.changedNs = now_;
    if (change.ends) end(node, change.usedChunks);
    return answer;
  }

  NamespaceOptions options_;
  ClientId client_;
  Answer actual_;
};

}  // namespace hearth::tree
