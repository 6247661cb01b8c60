#include <cstring>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "manifest/entry_tree.h"
#include "manifest/format.h"
#include "manifest/manifest.h"
#include "manifest/names.h"

namespace hearth {
namespace {

using manifest_format::Entry;
using manifest_format::Header;
using manifest_format::kMaxBytes;

constexpr std::size_t kListed = 10;

// Why a row cannot be used whatever the others are.
std::optional<std::string> unusableRow(const ManifestRow& row) {
  if (auto reason = unusablePath(row.path)) return reason;
  switch (row.kind) {
    case EntryKind::kDirectory:
      return std::nullopt;
    case EntryKind::kSymlink:
      return unusableTarget(row.symlinkTarget);
    case EntryKind::kFile:
      if (row.size > kMaxBytes || row.objectOffset > kMaxBytes - row.size) {
        return "it ends beyond 8 EiB";
      }
      return unusableValidator(row.validator);
  }
  return "its kind is unknown";
}

}  // namespace

struct ManifestBuilder::State {
  bool skipUnusable = false;
  EntryTree tree;
  std::vector<std::string> unusable;
  std::uint64_t unusableCount = 0;
  std::vector<std::string> inTwoStates;

  void refuse(std::string_view path, std::string_view reason) {
    ++unusableCount;
    if (unusable.size() < kListed) unusable.push_back(escaped(path) + ": " + std::string(reason));
  }
};

ManifestBuilder::ManifestBuilder(bool skipUnusable) : state_(std::make_unique<State>()) {
  state_->skipUnusable = skipUnusable;
}
ManifestBuilder::~ManifestBuilder() = default;

void ManifestBuilder::add(ManifestRow row) {
  auto reason = unusableRow(row);
  if (!reason &&
      state_->tree.size() >= manifest_format::kMaxEntries - manifest_format::kMaxPathBytes) {
    reason = "a manifest has room for 2 billion entries";
  }
  if (!reason) reason = state_->tree.add(row);
  if (reason == EntryTree::kTwoStates && state_->inTwoStates.size() < kListed)
    state_->inTwoStates.push_back(escaped(row.path));
  if (reason) state_->refuse(row.path, *reason);
}

const std::vector<std::string>& ManifestBuilder::unusable() const { return state_->unusable; }
std::uint64_t ManifestBuilder::unusableCount() const { return state_->unusableCount; }

namespace {

// Totals, and the place of every string in the order in which entries need it.
Result<Header> manifestHeader(EntryTree& tree, const EntryTree::Order& order) {
  Header header;
  header.entries = static_cast<std::uint32_t>(order.nodes.size());
  for (const EntryTree::NodeId id : order.nodes) {
    const EntryTree::Node& node = tree.node(id);
    (void)tree.strings().place(node.name);
    (void)tree.strings().place(node.text);
    header.files += node.kind == EntryKind::kFile ? 1 : 0;
    header.directories += node.kind == EntryKind::kDirectory ? 1 : 0;
    header.symlinks += node.kind == EntryKind::kSymlink ? 1 : 0;
    header.digests += node.digest != 0 ? 1 : 0;
    if (node.size > kMaxBytes - header.contentBytes) {
      return Error{ErrorCode::kInvalidArgument, "the files together are larger than 8 EiB"};
    }
    header.contentBytes += node.size;
  }
  header.entriesOffset = sizeof(Header);
  header.digestsOffset = header.entriesOffset + std::uint64_t{header.entries} * sizeof(Entry);
  header.stringsOffset = header.digestsOffset + header.digests * sizeof(Sha256Digest);
  header.stringBytes = tree.strings().placedBytes();
  header.fileBytes = header.stringsOffset + manifest_format::padded(header.stringBytes);
  const auto* const headerBytes = reinterpret_cast<const std::byte*>(&header);
  header.checksum = crc32c({headerBytes, offsetof(Header, checksum)});
  return header;
}

std::vector<std::byte> manifestBytes(EntryTree& tree, const EntryTree::Order& order,
                                     const Header& header) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(header.fileBytes));
  std::memcpy(bytes.data(), &header, sizeof header);
  std::byte* entryAt = bytes.data() + header.entriesOffset;
  std::byte* digestAt = bytes.data() + header.digestsOffset;
  std::uint32_t nextChild = 1;
  std::uint32_t digests = 0;
  for (std::size_t i = 0; i < order.nodes.size(); ++i) {
    const EntryTree::Node& node = tree.node(order.nodes[i]);
    Entry entry;
    entry.name = tree.strings().place(node.name);
    entry.text = tree.strings().place(node.text);
    entry.sizeOrChildren = node.size;
    if (node.kind == EntryKind::kDirectory) {
      entry.sizeOrChildren = std::uint64_t{order.childCounts[i]} << 32 | nextChild;
      nextChild += order.childCounts[i];
    }
    entry.objectOffset = node.objectOffset;
    entry.modifiedNs = node.modifiedNs;
    entry.parent = node.parent;
    entry.kind = static_cast<std::uint8_t>(node.kind);
    entry.flags = node.executable ? manifest_format::kExecutable : 0;
    entry.key = node.key;
    if (node.digest != 0) {
      entry.digest = ++digests;
      const Sha256Digest& digest = tree.digest(node.digest);
      std::memcpy(digestAt, digest.data(), digest.size());
      digestAt += digest.size();
    }
    std::memcpy(entryAt, &entry, sizeof entry);
    entryAt += sizeof entry;
  }
  tree.strings().write(reinterpret_cast<char*>(bytes.data() + header.stringsOffset));
  return bytes;
}

}  // namespace

Result<std::vector<std::byte>> ManifestBuilder::build() {
  if (!state_->inTwoStates.empty()) {
    std::string message = "the origin lists files twice, in two states: ";
    for (const std::string& name : state_->inTwoStates) message += name + "; ";
    return Error{ErrorCode::kInvalidArgument,
                 message + "list it again when nothing writes to it, or correct its server"};
  }
  if (state_->unusableCount > 0 && !state_->skipUnusable) {
    std::string message = std::to_string(state_->unusableCount) + " names cannot be used: ";
    for (const std::string& name : state_->unusable) message += name + "; ";
    return Error{ErrorCode::kInvalidArgument,
                 message + "rename them at the origin or set unusableNames: Skip"};
  }
  EntryTree tree = std::exchange(state_->tree, EntryTree());
  const EntryTree::Order order = tree.breadthFirst();

  const Result<Header> header = manifestHeader(tree, order);
  if (!header.ok()) return header.error();
  return manifestBytes(tree, order, *header);
}

}  // namespace hearth
