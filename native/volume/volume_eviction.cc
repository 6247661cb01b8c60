#include "volume/volume_eviction.h"

#include <algorithm>
#include <cstring>
#include <variant>

namespace hearth {
namespace {

// The policy knows files by keys of 32 bytes.
ContentKey keyOf(tree::InodeId file) {
  ContentKey key;
  std::memcpy(key.bytes.data(), &file, sizeof file);
  return key;
}

tree::InodeId fileOf(const ContentKey& key) {
  tree::InodeId file{};
  std::memcpy(&file, key.bytes.data(), sizeof file);
  return file;
}

const tree::Publish* publishOf(const tree::ClientChange& change) {
  if (const auto* const publish = std::get_if<tree::Publish>(&change)) return publish;
  const auto* const link = std::get_if<tree::Link>(&change);
  if (link != nullptr) return link->publish ? &*link->publish : nullptr;
  const auto* const rename = std::get_if<tree::Rename>(&change);
  return rename != nullptr && rename->publish ? &*rename->publish : nullptr;
}

// Where a change makes an inode; null: it makes none.
const tree::Place* madeBy(const tree::ClientChange& change) {
  if (const auto* const create = std::get_if<tree::Create>(&change)) return &create->place;
  if (const auto* const folder = std::get_if<tree::MakeFolder>(&change)) return &folder->place;
  const auto* const symlink = std::get_if<tree::MakeSymlink>(&change);
  return symlink == nullptr ? nullptr : &symlink->place;
}

}  // namespace

VolumeEviction::VolumeEviction(const tree::Namespace& tree)
    : tree_(tree), policy_(std::max<std::uint64_t>(1, tree.usage().maxBytes)) {}

bool VolumeEviction::isBounded() const {
  const tree::Volume& volume = tree_.tree().volume();
  return volume.maxBytes != 0 || volume.maxInodes != 0;
}

bool VolumeEviction::learn(std::uint32_t most) {
  bounded_ = isBounded();
  if (!bounded_ || learned_ >= tree_.tree().nodesEnd()) return false;
  learned_ = tree_.tree().visitContents(learned_, most, [this](const tree::Tree::Node& node) {
    policy_.insert(keyOf(node.id), node.size());
  });
  return learned_ < tree_.tree().nodesEnd();
}

void VolumeEviction::changed(const tree::Answer& answer) {
  if (answer.error != 0) return;
  if (!bounded_ && isBounded()) {
    // A volume that got its first limits: without these it had no order.
    while (learn(UINT32_MAX)) {
    }
  }
  if (!bounded_) return;
  policy_.setCapacity(std::max<std::uint64_t>(1, tree_.tree().volume().maxBytes));
  if (answer.removed != tree::kNoInode) keep(answer.removed);
  if (answer.inode != tree::kNoInode) keep(answer.inode);
}

void VolumeEviction::keep(tree::InodeId file) {
  const tree::Tree::Node* const node = tree_.tree().find(file);
  const bool kept = node != nullptr && node->content() != nullptr && node->inode.links != 0;
  if (kept) {
    policy_.insert(keyOf(file), node->size());
  } else {
    policy_.remove(keyOf(file));
  }
}

void VolumeEviction::used(tree::InodeId file) { policy_.hit(keyOf(file)); }

bool VolumeEviction::isFullFor(const tree::ClientChange& change) const {
  const tree::Tree& tree = tree_.tree();
  const tree::Volume& volume = tree.volume();
  if (const tree::Place* const place = madeBy(change)) {
    return volume.maxInodes != 0 && tree.namedInodes() >= volume.maxInodes &&
           tree_.lookUp(place->folder, place->name).error == ENOENT;
  }
  const tree::Publish* const publish = publishOf(change);
  if (publish == nullptr || volume.maxBytes == 0) return false;
  const tree::Tree::Node* const file = tree.find(publish->inode);
  const tree::Session* const session = tree_.session(publish->inode);
  if (file == nullptr || file->inode.links == 0 || session == nullptr ||
      session->id != publish->session || file->version() != publish->base) {
    return false;
  }
  const std::uint64_t before = file->size(), after = publish->content.length;
  if (after <= before || after > volume.maxBytes) return false;
  return tree.namedBytes() - before > volume.maxBytes - after;
}

std::optional<tree::InodeId> VolumeEviction::victim() {
  const tree::Tree& tree = tree_.tree();
  const auto key = policy_.victim([&](const ContentKey& each) {
    const tree::Tree::Node* const node = tree.find(fileOf(each));
    return node != nullptr && node->content() != nullptr && tree.soleEntry(*node) != nullptr &&
           tree.session(node->id) == nullptr;
  });
  return key ? std::optional(fileOf(*key)) : std::nullopt;
}

}  // namespace hearth
