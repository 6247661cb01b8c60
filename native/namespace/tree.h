// The keys and values of one volume in memory, indexed for look-ups. It changes by puts and deletes
// of keys alone, the same ones when a leader executes a change and when a log is replayed; so a
// replayed tree is the leader's. It refuses what contradicts it: an entry without its inode, a name
// twice in a folder. After a refusal in mid record the tree is of no use any more.
//
// Looking a name up is one probe of a hash table, whatever the number of files; readdir goes on
// behind a cookie in O(log n). About 260 bytes for a published file with a name of 15 bytes at most
// (namespace_size_slow_test.cc measures it). One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "namespace/flat_index.h"
#include "namespace/folder_order.h"
#include "namespace/slab.h"
#include "namespace/values.h"

namespace hearth::tree {

class Tree {
 public:
  struct Folder {
    InodeId parent = kNoInode;
    FolderOrder order;
  };
  struct Node {
    InodeId id = kNoInode;
    std::uint32_t names = 0;                     // entries that name it
    std::uint32_t lastEntry = FlatIndex::kNone;  // the newest of them, while it is there
    Inode inode;
    std::variant<std::monostate, std::unique_ptr<Content>, std::unique_ptr<Folder>,
                 std::unique_ptr<std::string>>
        body;

    [[nodiscard]] bool isFolder() const { return inode.kind == Kind::kFolder; }
    // Null: not a file, or without a content.
    [[nodiscard]] const Content* content() const;
    // Null: not a folder.
    [[nodiscard]] const Folder* folder() const;
    // Null: not a symlink.
    [[nodiscard]] const std::string* target() const;
    [[nodiscard]] ContentVersion version() const;
    [[nodiscard]] std::uint64_t size() const;
  };
  struct NamedEntry {
    InodeId folder = kNoInode;
    InodeId inode = kNoInode;
    std::uint64_t cookie = 0;
    std::string name;
  };
  struct ClientState {
    std::uint64_t bound = 0;
    std::map<std::uint64_t, KeptResult> results;
  };

  // kCorrupt: the change contradicts the tree.
  [[nodiscard]] Status apply(const KeyChange& change);

  // The pointers are valid until the next change; null: there is none.
  [[nodiscard]] const Node* find(InodeId inode) const;
  [[nodiscard]] const NamedEntry* find(InodeId folder, std::string_view name) const;
  // Null: the inode has other names than one. Also null when its one name is not the newest that it
  // had, until the tree is loaded again.
  [[nodiscard]] const NamedEntry* soleEntry(const Node& node) const;
  [[nodiscard]] const Session* session(InodeId inode) const;
  [[nodiscard]] const std::string* xattr(InodeId inode, const std::string& name) const;
  [[nodiscard]] const ClientState* client(const ClientId& id) const;
  // All that have joined and not retired.
  [[nodiscard]] std::vector<ClientId> clientsOf(AgentId agent) const;
  [[nodiscard]] const Agent* agent(AgentId id) const;
  [[nodiscard]] AgentId agentOf(const std::string& node) const;

  // Calls visit(entry) for the folder's entries behind a cookie, in order, until it is false.
  template <class Visit>
  void visitEntries(const Folder& folder, std::uint64_t after, Visit&& visit) const {
    folder.order.visitAfter(
        after, [&](const FolderOrder::Place& place) { return visit(entries_[place.entry]); });
  }
  // Calls visit(node) for files that have contents, from the number `from` of a node on; looks at
  // `most` numbers. Gives the number to go on with; nodesEnd(): that was all.
  template <class Visit>
  [[nodiscard]] std::uint32_t visitContents(std::uint32_t from, std::uint32_t most,
                                            Visit&& visit) const {
    const std::uint32_t end = nodes_.end() - from > most ? from + most : nodes_.end();
    for (; from < end; ++from) {
      if (nodes_[from].content() != nullptr) visit(nodes_[from]);
    }
    return end;
  }
  [[nodiscard]] std::uint32_t nodesEnd() const { return nodes_.end(); }
  // Calls visit(name, value) for each attribute of the inode, by name.
  template <class Visit>
  void visitXattrs(InodeId inode, Visit&& visit) const {
    for (auto at = xattrs_.lower_bound({inode, {}}); at != xattrs_.end(); ++at) {
      if (at->first.first != inode) return;
      visit(at->first.second, at->second);
    }
  }
  // Calls visit(put) for every key of the tree, in the order of keys. Takes as long as it has keys.
  void visitKeys(const std::function<void(const KeyChange&)>& visit) const;

  [[nodiscard]] const Volume& volume() const { return volume_; }
  [[nodiscard]] const std::map<AgentId, Agent>& agents() const { return agents_; }
  [[nodiscard]] const std::map<InodeId, Session>& sessions() const { return sessions_; }
  [[nodiscard]] const std::map<GarbageId, Garbage>& garbage() const { return garbage_; }
  // Inodes without links.
  [[nodiscard]] const std::set<InodeId>& orphans() const { return orphans_; }
  // Of the contents of all inodes, orphans included.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // All, orphans and the root included.
  [[nodiscard]] std::uint64_t inodes() const { return inodeIndex_.size(); }
  // Without orphans: the volume's limits are for these.
  [[nodiscard]] std::uint64_t namedBytes() const { return bytes_ - orphanBytes_; }
  [[nodiscard]] std::uint64_t namedInodes() const { return inodes() - orphans_.size(); }

 private:
  [[nodiscard]] Node* node(InodeId inode);
  [[nodiscard]] std::uint32_t numberOf(InodeId inode) const;
  [[nodiscard]] std::uint32_t numberOf(InodeId folder, std::string_view name) const;

  bool put(const Key& key, const Volume& value);
  bool put(const Key& key, const Agent& value);
  bool put(const Key& key, const Client& value);
  bool put(const Key& key, const KeptResult& value);
  bool put(const Key& key, const Inode& value);
  bool put(const Key& key, const Content& value);
  bool put(const Key& key, const Target& value);
  bool put(const Key& key, const Entry& value);
  bool put(const Key& key, const Xattr& value);
  bool put(const Key& key, const Session& value);
  bool put(const Key& key, const Garbage& value);
  bool put(const Key& key, std::monostate) { return remove(key); }
  bool remove(const Key& key);
  bool removeInode(InodeId inode);
  bool removeBody(InodeId inode, std::size_t alternative);
  bool removeEntry(InodeId folder, std::uint64_t cookie);
  void name(std::uint32_t entry, InodeId inode);
  void unname(std::uint32_t entry);

  Volume volume_;
  Slab<Node> nodes_;
  Slab<NamedEntry> entries_;
  FlatIndex inodeIndex_;
  FlatIndex nameIndex_;
  std::map<std::pair<InodeId, std::string>, std::string> xattrs_;
  std::map<InodeId, Session> sessions_;
  std::map<ClientId, ClientState> clients_;
  std::map<AgentId, Agent> agents_;
  std::unordered_map<std::string, AgentId> agentsByNode_;
  std::map<GarbageId, Garbage> garbage_;
  std::set<InodeId> orphans_;
  std::uint64_t bytes_ = 0;
  std::uint64_t orphanBytes_ = 0;
};

}  // namespace hearth::tree
