#include "namespace/tree.h"

#include <functional>

namespace hearth::tree {
namespace {

// The last step of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
std::uint64_t mix(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

std::uint64_t hashOf(InodeId inode) { return mix(static_cast<std::uint64_t>(inode)); }

std::uint64_t hashOf(InodeId folder, std::string_view name) {
  return mix(std::hash<std::string_view>()(name) + hashOf(folder));
}

template <class Map, class Id>
auto* valueOf(Map& map, const Id& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

constexpr std::size_t kContentBody = 1;
constexpr std::size_t kFolderBody = 2;
constexpr std::size_t kTargetBody = 3;

template <std::size_t alternative>
auto* bodyOf(auto& body) {
  auto* const pointer = std::get_if<alternative>(&body);
  return pointer == nullptr ? nullptr : pointer->get();
}

}  // namespace

const Content* Tree::Node::content() const { return bodyOf<kContentBody>(body); }
const Tree::Folder* Tree::Node::folder() const { return bodyOf<kFolderBody>(body); }
const std::string* Tree::Node::target() const { return bodyOf<kTargetBody>(body); }

ContentVersion Tree::Node::version() const {
  return content() == nullptr ? ContentVersion{} : content()->version;
}

std::uint64_t Tree::Node::size() const {
  if (content() != nullptr) return content()->length;
  return target() != nullptr ? target()->size() : 0;
}

std::uint32_t Tree::numberOf(InodeId inode) const {
  return inodeIndex_.find(hashOf(inode),
                          [&](std::uint32_t item) { return nodes_[item].id == inode; });
}

std::uint32_t Tree::numberOf(InodeId folder, std::string_view name) const {
  return nameIndex_.find(hashOf(folder, name), [&](std::uint32_t item) {
    return entries_[item].folder == folder && entries_[item].name == name;
  });
}

Tree::Node* Tree::node(InodeId inode) {
  const std::uint32_t number = numberOf(inode);
  return number == FlatIndex::kNone ? nullptr : &nodes_[number];
}

const Tree::Node* Tree::find(InodeId inode) const {
  const std::uint32_t number = numberOf(inode);
  return number == FlatIndex::kNone ? nullptr : &nodes_[number];
}

const Tree::NamedEntry* Tree::find(InodeId folder, std::string_view name) const {
  const std::uint32_t number = numberOf(folder, name);
  return number == FlatIndex::kNone ? nullptr : &entries_[number];
}

const Tree::NamedEntry* Tree::soleEntry(const Node& node) const {
  return node.names == 1 && node.lastEntry != FlatIndex::kNone ? &entries_[node.lastEntry]
                                                               : nullptr;
}

const Session* Tree::session(InodeId inode) const { return valueOf(sessions_, inode); }
const Tree::ClientState* Tree::client(const ClientId& id) const { return valueOf(clients_, id); }
std::vector<ClientId> Tree::clientsOf(AgentId agent) const {
  std::vector<ClientId> found;
  for (auto at = clients_.lower_bound({agent, {}}); at != clients_.end(); ++at) {
    if (at->first.agent != agent) break;
    found.push_back(at->first);
  }
  return found;
}

const Agent* Tree::agent(AgentId id) const { return valueOf(agents_, id); }

const std::string* Tree::xattr(InodeId inode, const std::string& name) const {
  return valueOf(xattrs_, std::pair(inode, name));
}

AgentId Tree::agentOf(const std::string& node) const {
  const AgentId* const id = valueOf(agentsByNode_, node);
  return id == nullptr ? kNoAgent : *id;
}

Status Tree::apply(const KeyChange& change) {
  if (std::visit([&](const auto& value) { return put(change.key, value); }, change.value)) {
    return {};
  }
  return Error{ErrorCode::kCorrupt,
               "a record of a volume contradicts the volume's tree (a key of kind " +
                   std::to_string(static_cast<unsigned>(change.key.kind)) + ")"};
}

bool Tree::put(const Key&, const Volume& value) {
  const bool first = volume_ == Volume{};
  if (!first && (value.store != volume_.store || value.volume != volume_.volume)) return false;
  volume_ = value;
  return true;
}

bool Tree::put(const Key& key, const Agent& value) {
  const AgentId id = key.client.agent;
  if (id == kNoAgent) return false;
  const AgentId known = agentOf(value.node);
  if (known != kNoAgent && known != id) return false;
  Agent& agent = agents_[id];
  if (!agent.node.empty() && agent.node != value.node) return false;
  agent = value;
  agentsByNode_[value.node] = id;
  return true;
}

bool Tree::put(const Key& key, const Client& value) {
  clients_[key.client].bound = value.bound;
  return true;
}

bool Tree::put(const Key& key, const KeptResult& value) {
  ClientState* const client = valueOf(clients_, key.client);
  if (client == nullptr) return false;
  client->results[key.number] = value;
  return true;
}

bool Tree::put(const Key& key, const Inode& value) {
  if (key.inode == kNoInode) return false;
  std::uint64_t length = 0;
  if (Node* const known = node(key.inode)) {
    if (known->inode.kind != value.kind) return false;
    known->inode = value;
    if (known->content() != nullptr) length = known->content()->length;
  } else {
    Node added{.id = key.inode, .inode = value};
    if (value.kind == Kind::kFolder) added.body = std::make_unique<Folder>();
    inodeIndex_.insert(hashOf(key.inode), nodes_.add(std::move(added)));
  }
  if (value.links == 0) {
    if (orphans_.insert(key.inode).second) orphanBytes_ += length;
  } else if (orphans_.erase(key.inode) == 1) {
    orphanBytes_ -= length;
  }
  return true;
}

bool Tree::put(const Key& key, const Content& value) {
  Node* const file = node(key.inode);
  if (file == nullptr || file->inode.kind != Kind::kFile) return false;
  bytes_ += value.length - file->size();
  if (file->inode.links == 0) orphanBytes_ += value.length - file->size();
  auto content = std::make_unique<Content>(value);
  content->runs.shrink_to_fit();
  file->body = std::move(content);
  return true;
}

bool Tree::put(const Key& key, const Target& value) {
  Node* const symlink = node(key.inode);
  if (symlink == nullptr || symlink->inode.kind != Kind::kSymlink) return false;
  symlink->body = std::make_unique<std::string>(value.path);
  return true;
}

bool Tree::put(const Key& key, const Entry& value) {
  Node* const folder = node(key.inode);
  if (folder == nullptr || !folder->isFolder() || key.number == 0) return false;
  if (value.inode == kRootInode || node(value.inode) == nullptr) return false;
  FolderOrder& order = bodyOf<kFolderBody>(folder->body)->order;
  const std::uint32_t there = order.find(key.number);
  if (there != FolderOrder::kGone) {
    NamedEntry& entry = entries_[there];
    if (entry.name != value.name) return false;
    unname(there);
    name(there, value.inode);
    return true;
  }
  if (find(key.inode, value.name) != nullptr) return false;
  const std::uint32_t number = entries_.add({key.inode, kNoInode, key.number, value.name});
  name(number, value.inode);
  nameIndex_.insert(hashOf(key.inode, value.name), number);
  order.insert(key.number, number);
  return true;
}

void Tree::name(std::uint32_t entry, InodeId inode) {
  NamedEntry& named = entries_[entry];
  named.inode = inode;
  Node& child = *node(inode);
  ++child.names;
  child.lastEntry = entry;
  if (Folder* const folder = bodyOf<kFolderBody>(child.body)) folder->parent = named.folder;
}

void Tree::unname(std::uint32_t entry) {
  Node& child = *node(entries_[entry].inode);
  --child.names;
  if (child.lastEntry == entry) child.lastEntry = FlatIndex::kNone;
}

bool Tree::put(const Key& key, const Xattr& value) {
  if (find(key.inode) == nullptr) return false;
  xattrs_[{key.inode, key.name}] = value.value;
  return true;
}

bool Tree::put(const Key& key, const Session& value) {
  const Node* const file = find(key.inode);
  if (file == nullptr || file->inode.kind != Kind::kFile) return false;
  sessions_[key.inode] = value;
  return true;
}

bool Tree::put(const Key& key, const Garbage& value) {
  return garbage_.try_emplace({key.number, key.index}, value).second;
}

bool Tree::remove(const Key& key) {
  switch (key.kind) {
    case KeyKind::kVolume:
    case KeyKind::kAgent:
      return false;
    case KeyKind::kClient: {
      const ClientState* const known = client(key.client);
      return known != nullptr && known->results.empty() && clients_.erase(key.client) == 1;
    }
    case KeyKind::kResult: {
      ClientState* const known = valueOf(clients_, key.client);
      return known != nullptr && known->results.erase(key.number) == 1;
    }
    case KeyKind::kInode:
      return removeInode(key.inode);
    case KeyKind::kContent:
      return removeBody(key.inode, kContentBody);
    case KeyKind::kTarget:
      return removeBody(key.inode, kTargetBody);
    case KeyKind::kEntry:
      return removeEntry(key.inode, key.number);
    case KeyKind::kXattr:
      return xattrs_.erase({key.inode, key.name}) == 1;
    case KeyKind::kSession:
      return sessions_.erase(key.inode) == 1;
    case KeyKind::kGarbage:
      return garbage_.erase({key.number, key.index}) == 1;
  }
  return false;
}

bool Tree::removeInode(InodeId inode) {
  const std::uint32_t number = numberOf(inode);
  if (number == FlatIndex::kNone || inode == kRootInode) return false;
  const Node& gone = nodes_[number];
  const bool bare = gone.folder() != nullptr ? gone.folder()->order.size() == 0
                                             : std::holds_alternative<std::monostate>(gone.body);
  const auto attribute = xattrs_.lower_bound({inode, {}});
  const bool attributes = attribute != xattrs_.end() && attribute->first.first == inode;
  if (gone.names != 0 || !bare || attributes || sessions_.contains(inode)) return false;
  orphans_.erase(inode);
  inodeIndex_.erase(hashOf(inode), number);
  nodes_.erase(number);
  return true;
}

bool Tree::removeBody(InodeId inode, std::size_t alternative) {
  Node* const owner = node(inode);
  if (owner == nullptr || owner->body.index() != alternative) return false;
  if (alternative == kContentBody) {
    bytes_ -= owner->size();
    if (owner->inode.links == 0) orphanBytes_ -= owner->size();
  }
  owner->body = std::monostate{};
  return true;
}

bool Tree::removeEntry(InodeId folder, std::uint64_t cookie) {
  Node* const owner = node(folder);
  if (owner == nullptr || !owner->isFolder()) return false;
  FolderOrder& order = bodyOf<kFolderBody>(owner->body)->order;
  const std::uint32_t number = order.find(cookie);
  if (number == FolderOrder::kGone) return false;
  const NamedEntry& entry = entries_[number];
  unname(number);
  nameIndex_.erase(hashOf(folder, entry.name), number);
  order.erase(cookie);
  entries_.erase(number);
  return true;
}

}  // namespace hearth::tree
