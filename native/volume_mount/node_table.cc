#include "volume_mount/node_table.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <limits>
#include <type_traits>

#include "holder/holder_client.h"
#include "holder/mount_watch.h"

namespace hearth {
namespace {

constexpr std::uint64_t kTableMagic = 0x32444f4e54524148;  // "HARTNOD2"
constexpr std::size_t kJournalBytes = ChangeJournal::kEntries * sizeof(JournalEntry);

}  // namespace

struct NodeTable::Header {
  std::uint64_t magic;
  std::uint64_t lastAlternative;
  std::uint64_t counted;
  std::uint64_t zero;
};

Result<std::unique_ptr<NodeTable>> NodeTable::map(const OwnedFd& memory) {
  static_assert(sizeof(VolumeNode) == 72 && sizeof(Header) == 32);
  static_assert(std::is_trivially_copyable_v<VolumeNode>);
  // Of holders' memory: tables of agents that knew no watch have as many slots.
  constexpr std::size_t kSlotBytes = kHolderSharedBytes - sizeof(Header) - kJournalBytes;
  static_assert(kSlotBytes / sizeof(VolumeNode) ==
                (kSlotBytes - MountWatch::kBytes) / sizeof(VolumeNode));
  struct stat info {};
  if (fstat(memory.get(), &info) != 0) return errnoError(errno, "size of the table of open nodes");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < kMinBytes)
    return Error{ErrorCode::kProtocolError, "the memory for open nodes is too small"};
  void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return errnoError(errno, "map the table of open nodes");
  std::unique_ptr<NodeTable> table(new NodeTable(mapped, size));
  Header& header = *table->header_;
  if (header.magic != kTableMagic) {
    if (header.magic != 0) {
      return Error{ErrorCode::kProtocolError,
                   "the table of open nodes has another format; unmount the volume and mount it "
                   "again"};
    }
    header.magic = kTableMagic;
  }
  for (VolumeNode& slot : table->slots_) {
    if (slot.node == 0) {
      table->free_.push_back(&slot);
      continue;
    }
    table->nodes_[slot.node] = &slot;
    if ((slot.node & kAlternativeNode) != 0) table->alternatives_.emplace(slot.inode, slot.node);
  }
  return table;
}

NodeTable::NodeTable(void* memory, std::size_t size)
    : memory_(memory),
      size_(size),
      header_(static_cast<Header*>(memory)),
      slots_(reinterpret_cast<VolumeNode*>(static_cast<std::byte*>(memory) + sizeof(Header) +
                                           kJournalBytes),
             (size - sizeof(Header) - kJournalBytes - MountWatch::kBytes) / sizeof(VolumeNode)),
      journal_(std::span(
          reinterpret_cast<JournalEntry*>(static_cast<std::byte*>(memory) + sizeof(Header)),
          ChangeJournal::kEntries)) {}

NodeTable::~NodeTable() { munmap(memory_, size_); }

VolumeNode* NodeTable::find(std::uint64_t node) {
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : found->second;
}

tree::InodeId NodeTable::inodeOf(std::uint64_t node) {
  if ((node & kAlternativeNode) == 0) return tree::InodeId{node};
  const VolumeNode* const found = find(node);
  return found == nullptr ? tree::kNoInode : found->inode;
}

std::uint64_t NodeTable::newest(tree::InodeId inode) const {
  const auto behind = alternatives_.upper_bound({inode, std::numeric_limits<std::uint64_t>::max()});
  if (behind == alternatives_.begin() || std::prev(behind)->first != inode)
    return static_cast<std::uint64_t>(inode);
  return std::prev(behind)->second;
}

VolumeNode* NodeTable::take(std::uint64_t node, tree::InodeId inode) {
  if (free_.empty()) return nullptr;
  VolumeNode* const slot = free_.back();
  free_.pop_back();
  *slot = VolumeNode{.inode = inode};
  // Last, so that an agent that is killed leaves no slot half filled.
  std::atomic_ref(slot->node).store(node, std::memory_order_release);
  nodes_[node] = slot;
  return slot;
}

VolumeNode* NodeTable::add(std::uint64_t node) {
  VolumeNode* const found = find(node);
  return found != nullptr ? found : take(node, tree::InodeId{node});
}

VolumeNode* NodeTable::addAlternative(tree::InodeId inode) {
  header_->lastAlternative = (header_->lastAlternative + 1) | kAlternativeNode;
  VolumeNode* const made = take(header_->lastAlternative, inode);
  if (made != nullptr) alternatives_.emplace(inode, made->node);
  return made;
}

std::vector<VolumeNode*> NodeTable::nodesOf(tree::InodeId inode) {
  std::vector<VolumeNode*> all;
  if (VolumeNode* const own = find(static_cast<std::uint64_t>(inode))) all.push_back(own);
  for (auto alternative = alternatives_.lower_bound({inode, 0});
       alternative != alternatives_.end() && alternative->first == inode; ++alternative) {
    all.push_back(find(alternative->second));
  }
  return all;
}

bool NodeTable::isOpen(tree::InodeId inode, tree::SessionId session) {
  const std::vector<VolumeNode*> nodes = nodesOf(inode);
  return std::any_of(nodes.begin(), nodes.end(), [session](const VolumeNode* node) {
    return node->opens != 0 && (session == tree::kNoSession || node->session == session);
  });
}

void NodeTable::dropUnused(tree::InodeId inode) {
  const bool open = isOpen(inode);
  const std::uint64_t last = newest(inode);
  for (VolumeNode* const node : nodesOf(inode)) {
    if (node->opens == 0 && node->lookups == 0 && (!open || node->node != last)) drop(*node);
  }
}

void NodeTable::drop(VolumeNode& node) {
  alternatives_.erase({node.inode, node.node});
  nodes_.erase(node.node);
  std::atomic_ref(node.node).store(0, std::memory_order_release);
  free_.push_back(&node);
}

void NodeTable::each(const std::function<void(VolumeNode&)>& visit) {
  for (VolumeNode& slot : slots_) {
    if (slot.node != 0) visit(slot);
  }
}

void NodeTable::setCounted(std::uint64_t unique) {
  std::atomic_ref(header_->counted).store(unique, std::memory_order_release);
}

std::uint64_t NodeTable::counted() const { return header_->counted; }

}  // namespace hearth
