#include "volume_mount/open_volume_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hearth {
namespace {

// A session file is one file, whatever versions are published of it.
constexpr std::uint32_t kAnyCounter = 0xffffffff;

tree::ContentVersion versionOf(const OpenedVolumeFile& opened) {
  if (opened.session) return {opened.version.session, kAnyCounter};
  return opened.version;
}

bool isVersion(const VolumeNode& node, const tree::ContentVersion& version) {
  return node.session == version.session &&
         (node.counter == version.counter || node.counter == kAnyCounter);
}

}  // namespace

std::uint64_t OpenVolumeFiles::lookUp(const tree::Attributes& attributes) {
  const std::uint64_t newest = nodes_.newest(attributes.id);
  VolumeNode* node = nodes_.find(newest);
  const bool changed = node != nullptr && node->opens != 0 && node->writers == 0 &&
                       !isVersion(*node, attributes.content);
  if (changed) node = nodes_.addAlternative(attributes.id);
  if (changed && node == nullptr) return 0;
  if (node == nullptr || (node->node & kAlternativeNode) == 0) return newest;
  ++node->lookups;
  return node->node;
}

void OpenVolumeFiles::forget(std::uint64_t node, std::uint64_t lookups) {
  if ((node & kAlternativeNode) == 0) return;
  VolumeNode* const known = nodes_.find(node);
  if (known == nullptr) return;
  known->lookups -= std::min(known->lookups, lookups);
  nodes_.dropUnused(known->inode);
}

void OpenVolumeFiles::keepOpenedSize(std::uint64_t node, tree::Attributes& attributes) {
  const VolumeNode* const open = nodes_.find(node);
  if (open == nullptr || open->opens == 0 || open->writers != 0) return;
  if (isVersion(*open, attributes.content)) return;
  attributes.size = open->length;
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(node);
  struct stat info {};
  if (held != held_.end() && held->second.session && fstat(held->second.session.get(), &info) == 0)
    attributes.size = static_cast<std::uint64_t>(info.st_size);
}

std::int32_t OpenVolumeFiles::giveWay(std::uint64_t node) {
  const tree::InodeId inode = nodes_.inodeOf(node);
  if (nodes_.newest(inode) != node) return ESTALE;
  return nodes_.addAlternative(inode) == nullptr ? ENFILE : ESTALE;
}

std::int32_t OpenVolumeFiles::admits(std::uint64_t node, bool writes) {
  const VolumeNode* const open = nodes_.find(node);
  if (!writes || open == nullptr || open->opens == 0 || open->writers != 0) return 0;
  return giveWay(node);
}

OpenVolumeFiles::Backing OpenVolumeFiles::backingOf(const OpenedVolumeFile& opened) {
  Backing backing;
  backing.descriptor = opened.session.get();
  if (!opened.session && opened.reading != nullptr) {
    if (const Result<int> whole = opened.reading->backing(); whole.ok())
      backing.descriptor = *whole;
  }
  struct stat info {};
  if (backing.descriptor < 0 || fstat(backing.descriptor, &info) != 0) return {};
  backing.device = info.st_dev;
  backing.file = info.st_ino;
  return backing;
}

bool OpenVolumeFiles::isOpenAs(const VolumeNode& node, const Backing& backing,
                               const tree::ContentVersion& version) {
  if (node.backingId == 0) return isVersion(node, version);
  return backing.descriptor >= 0 && node.device == backing.device && node.file == backing.file;
}

std::shared_ptr<FuseReading> OpenVolumeFiles::readingOf(const OpenedVolumeFile& opened) {
  auto reading = std::make_shared<FuseReading>();
  reading->file = opened.reading;
  // An empty file has no content to read.
  reading->size = opened.reading == nullptr ? 0 : opened.attributes.size;
  return reading;
}

std::int32_t OpenVolumeFiles::openFirst(VolumeNode& node, const OpenedVolumeFile& opened,
                                        const Backing& backing) {
  node.session = versionOf(opened).session;
  node.counter = versionOf(opened).counter;
  node.device = backing.device;
  node.file = backing.file;
  node.length = opened.attributes.size;
  node.backingId = 0;
  Held held;
  held.reading = readingOf(opened);
  if (backing.descriptor >= 0) {
    const auto id = device_.openBacking(backing.descriptor);
    if (id.ok()) {
      node.backingId = *id;
    } else {
      disablePassthrough(id.error().message);
      // The agent can read a content, and nobody but the kernel writes.
      if (opened.session) return EOPNOTSUPP;
    }
  }
  if (opened.session) held.session.reset(fcntl(opened.session.get(), F_DUPFD_CLOEXEC, 0));
  const std::lock_guard lock(mutex_);
  held_[node.node] = std::move(held);
  return 0;
}

VolumeOpenAnswer OpenVolumeFiles::open(std::uint64_t node, const OpenedVolumeFile& opened,
                                       bool writes) {
  Backing backing;
  if (opened.session || passthroughReason().empty()) backing = backingOf(opened);
  VolumeNode* known = nodes_.find(node);
  if (known == nullptr && (node & kAlternativeNode) != 0) return {.error = ESTALE};
  if (known == nullptr) known = nodes_.add(node);
  if (known == nullptr) return {.error = ENFILE};
  std::int32_t error = 0;
  if (known->opens == 0) {
    error = openFirst(*known, opened, backing);
  } else if (!isOpenAs(*known, backing, versionOf(opened))) {
    return {.error = giveWay(node)};
  }
  if (error != 0) {
    nodes_.dropUnused(known->inode);
    return {.error = error};
  }
  if (writes) ++known->writers;
  ++known->opens;
  const bool passthrough = known->backingId != 0;
  ++(passthrough ? counters_.passthroughOpens : counters_.daemonOpens);
  return {.passthrough = passthrough, .backingId = known->backingId};
}

void OpenVolumeFiles::release(std::uint64_t node, bool writes) {
  VolumeNode* const open = nodes_.find(node);
  if (open == nullptr || open->opens == 0) return;
  if (writes && open->writers != 0) --open->writers;
  if (--open->opens != 0) return;
  if (open->backingId != 0) device_.closeBacking(open->backingId);
  nodes_.dropUnused(open->inode);
  Held last;  // goes after the lock
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(node);
  if (held == held_.end()) return;
  last = std::move(held->second);
  held_.erase(held);
}

std::shared_ptr<FuseReading> OpenVolumeFiles::reopened(std::uint64_t node,
                                                       const OpenedVolumeFile& opened) {
  const VolumeNode* const open = nodes_.find(node);
  const bool isOpen = open != nullptr && open->opens != 0;
  if (opened.session || (isOpen && !isVersion(*open, opened.version))) return nullptr;
  std::shared_ptr<FuseReading> reading = readingOf(opened);
  const std::lock_guard lock(mutex_);
  if (isOpen) held_[node].reading = reading;
  return reading;
}

std::shared_ptr<FuseReading> OpenVolumeFiles::reading(std::uint64_t node) const {
  const std::lock_guard lock(mutex_);
  const auto held = held_.find(node);
  return held == held_.end() ? nullptr : held->second.reading;
}

std::string OpenVolumeFiles::passthroughReason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void OpenVolumeFiles::disablePassthrough(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (reason_.empty()) reason_ = reason;
}

}  // namespace hearth
