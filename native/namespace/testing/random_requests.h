// Random changes for a volume that is kept small, so that names, files and sessions meet often:
// mostly such that can succeed, and some that cannot. The same seed gives the same changes.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/generated/constants.h"
#include "namespace/testing/plain_model.h"

namespace hearth::tree {

class RandomRequests {
 public:
  RandomRequests(std::uint64_t seed, const PlainModel& model) : random_(seed), model_(model) {}

  [[nodiscard]] std::uint64_t below(std::uint64_t end) { return random_() % end; }
  [[nodiscard]] bool oneIn(std::uint64_t count) { return below(count) == 0; }

  [[nodiscard]] ClientChange change(const ClientId& client) {
    client_ = client;
    switch (below(20)) {
      case 0:
      case 1:
      case 2:
        return Create{.place = place(),
                      .kind = oneIn(12) ? Kind::kFifo : Kind::kFile,
                      .mode = mode(),
                      .uid = id(),
                      .gid = id(),
                      .exclusive = oneIn(3),
                      .opens = !oneIn(4)};
      case 3:
        return MakeFolder{.place = place(), .mode = mode(), .uid = id(), .gid = id()};
      case 4:
        return MakeSymlink{.place = place(), .target = target(), .uid = id(), .gid = id()};
      case 5:
      case 6:
        return Unlink{place()};
      case 7:
        return RemoveFolder{place()};
      case 8:
        return link();
      case 9:
      case 10:
      case 11:
        return rename();
      case 12:
        return setAttributes();
      case 13:
        return setXattr();
      case 14:
        return RemoveXattr{anyInode(), xattrName()};
      case 15:
        return open();
      case 16:
        return endSession();
      default:
        return publish();
    }
  }

  // Of all nodes, and sometimes of none.
  [[nodiscard]] InodeId anyInode() {
    if (oneIn(50)) return InodeId{below(1000) + 2};
    auto at = model_.nodes.begin();
    std::advance(at, below(model_.nodes.size()));
    return at->first;
  }

 private:
  std::uint16_t mode() { return static_cast<std::uint16_t>(below(010000)); }
  std::uint32_t id() { return static_cast<std::uint32_t>(below(3)); }
  std::int64_t time() { return static_cast<std::int64_t>(below(1000)) - 10; }

  InodeId ofKind(Kind kind) {
    std::vector<InodeId> all;
    for (const auto& [inode, node] : model_.nodes) {
      if (node.stat.kind == kind) all.push_back(inode);
    }
    return all.empty() || oneIn(30) ? anyInode() : all[below(all.size())];
  }
  std::string name() {
    static const std::vector<std::string> kOdd{
        "", ".", "..", "a/b", std::string(255, 'n'), std::string(256, 'n')};
    if (oneIn(60)) return kOdd[below(kOdd.size())];
    return std::string(1, static_cast<char>('a' + below(4)));
  }
  Place place() { return {ofKind(Kind::kFolder), name()}; }
  std::string target() {
    if (oneIn(20)) return std::string(oneIn(2) ? 0 : 4094 + below(3), 't');
    return "to " + name();
  }
  std::string xattrName() {
    return oneIn(30) ? std::string(oneIn(2) ? 0 : 256, 'x') : "user." + std::to_string(below(3));
  }

  Link link() {
    Link change{.inode = ofKind(Kind::kFile), .place = place()};
    if (oneIn(3)) change.publish = publishOf(change.inode);
    return change;
  }
  Rename rename() {
    Rename change{.from = place(), .to = place(), .mode = static_cast<RenameMode>(below(3))};
    const auto folder = model_.nodes.find(change.from.folder);
    if (folder == model_.nodes.end() || !oneIn(3)) return change;
    const auto entry = folder->second.entries.find(change.from.name);
    if (entry != folder->second.entries.end()) change.publish = publishOf(entry->second);
    return change;
  }
  SetAttributes setAttributes() {
    SetAttributes change{.inode = anyInode()};
    if (oneIn(2)) change.mode = mode();
    if (oneIn(4)) change.uid = id();
    if (oneIn(4)) change.gid = id();
    if (oneIn(4)) change.accessedNs = time();
    if (oneIn(4)) change.modifiedNs = time();
    if (oneIn(4)) change.size = oneIn(2) ? 0 : below(3) * kChunkBytes;
    return change;
  }
  SetXattr setXattr() {
    const std::size_t bytes = oneIn(10) ? kMaxXattrBytes / 2 + below(kMaxXattrBytes) : below(20);
    return {.inode = anyInode(),
            .name = xattrName(),
            .value = std::string(bytes, 'v'),
            .mode = static_cast<XattrMode>(below(3))};
  }
  OpenForWriting open() {
    OpenForWriting change{.inode = ofKind(Kind::kFile), .writes = oneIn(2)};
    if (oneIn(4)) change.place = place();
    const auto node = model_.nodes.find(change.inode);
    if (node == model_.nodes.end()) return change;
    if (node->second.session && oneIn(4)) change.lapsed = node->second.session->id;
    if (oneIn(5))
      change.adopts = {anySession(), oneIn(2) ? node->second.version : ContentVersion{}};
    return change;
  }
  EndSession endSession() {
    const auto [inode, session] = ownSession();
    return {.inode = inode, .session = session, .usedChunks = used(session)};
  }
  Publish publish() { return publishOf(ownSession().first); }

  SessionId anySession() {
    if (model_.sessions.empty()) return kNoSession;
    auto at = model_.sessions.begin();
    std::advance(at, below(model_.sessions.size()));
    return at->first;
  }
  std::pair<InodeId, SessionId> ownSession() {
    std::vector<std::pair<InodeId, SessionId>> all;
    for (const auto& [inode, node] : model_.nodes) {
      if (node.session && (node.session->holder == client_ || oneIn(20))) {
        all.emplace_back(inode, node.session->id);
      }
    }
    if (all.empty()) return {ofKind(Kind::kFile), anySession()};
    return all[below(all.size())];
  }
  std::uint32_t used(SessionId session) { return used_[session]; }

  Publish publishOf(InodeId inode) {
    Publish change{.inode = inode, .session = anySession(), .modifiedNs = time()};
    const auto found = model_.nodes.find(inode);
    if (found == model_.nodes.end()) return change;
    const PlainNode& node = found->second;
    if (node.session && !oneIn(40)) change.session = node.session->id;
    change.base = oneIn(40) ? ContentVersion{} : node.version;
    change.content.version = {change.session, oneIn(40) ? 1 : ++published_[change.session]};
    const std::uint64_t chunks = below(5);
    for (std::uint64_t i = 0; i < chunks; ++i) addChunk(node, change);
    change.content.length = chunks * kChunkBytes - (chunks == 0 ? 0 : below(kChunkBytes));
    if (oneIn(60)) change.content.length += kChunkBytes;
    change.usedChunks = used(change.session) - (oneIn(60) && used(change.session) > 0 ? 1 : 0);
    change.ends = oneIn(2);
    return change;
  }
  // A chunk of the base, a hole, a new chunk, or one that is not there to be named.
  void addChunk(const PlainNode& node, Publish& change) {
    auto& runs = change.content.runs;
    ChunkRun next;
    if (!node.chunks.empty() && !oneIn(3)) {
      next = node.chunks[below(node.chunks.size())];
    } else if (!oneIn(4)) {
      next = {change.session, used_[change.session]++, 1, client_.agent};
      if (next.session == kNoSession) next = {.count = 1};
    } else if (oneIn(8)) {
      next = {anySession(), static_cast<std::uint32_t>(below(4)), 1, AgentId{1}};
      if (next.session == kNoSession) next = {.count = 1};
    } else {
      next = {.count = 1};
    }
    const bool hole = next.session == kNoSession;
    if (!runs.empty() && runs.back().session == next.session && runs.back().holder == next.holder &&
        (hole || runs.back().first + runs.back().count == next.first)) {
      ++runs.back().count;
    } else {
      runs.push_back(next);
    }
  }

  std::mt19937_64 random_;
  const PlainModel& model_;
  ClientId client_;
  std::map<SessionId, std::uint32_t> used_, published_;
};

}  // namespace hearth::tree
