#include "holder/held_mounts.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "holder/fuse_mount.h"
#include "holder/mount_info.h"
#include "holder/touched_memory.h"

namespace hearth {
namespace {

// Shared memory that cannot be shrunk while others have it mapped.
Result<OwnedFd> createShared() {
  OwnedFd shared(memfd_create("hearth-open-counts", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!shared) return errnoError(errno, "create the table of open counts");
  if (ftruncate(shared.get(), static_cast<off_t>(kHolderSharedBytes)) != 0 ||
      fcntl(shared.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return errnoError(errno, "size the table of open counts");
  }
  return shared;
}

}  // namespace

Result<std::uint32_t> HeldMounts::attach(const std::string& owner, HolderConnection connection,
                                         const std::string& who, bool continues, OwnedFd process) {
  if (owner.empty()) return Error{ErrorCode::kInvalidArgument, "the owner's name is empty"};
  if (ownerOf(connection)) {
    return Error{ErrorCode::kInvalidArgument, "this connection is attached already"};
  }
  Owner& entry = owners_[owner];
  if (entry.agent != 0) {
    return Error{ErrorCode::kInUse, "'" + owner + "' is served by " + entry.who +
                                        "; stop that agent or give this one another name"};
  }
  entry.agent = connection;
  entry.who = who;
  entry.former.arrive(std::move(process), continues);
  forgetUnmounted(owner);
  std::uint32_t count = 0;
  for (auto& [target, mount] : mounts_) {
    if (mount.record.owner != owner) continue;
    if (!continues) ++mount.record.epoch;
    ++count;
  }
  return count;
}

void HeldMounts::detach(HolderConnection connection, Time now) {
  for (auto entry = owners_.begin(); entry != owners_.end(); ++entry) {
    if (entry->second.agent != connection) continue;
    if (owns(entry->first)) {
      entry->second.agent = 0;
      entry->second.who.clear();
      entry->second.absentSince = now;
      entry->second.former.leave();
    } else {
      owners_.erase(entry);
    }
    return;
  }
}

Result<std::string> HeldMounts::ownerOf(HolderConnection connection) const {
  for (const auto& [name, owner] : owners_) {
    if (owner.agent == connection) return name;
  }
  return Error{ErrorCode::kInvalidArgument, "this connection has not attached as an owner's agent"};
}

const HeldMounts::Mount* HeldMounts::next(const std::string& target,
                                          const std::string& owner) const {
  for (auto mount = mounts_.upper_bound(target); mount != mounts_.end(); ++mount) {
    if (owner.empty() || mount->second.record.owner == owner) return &mount->second;
  }
  return nullptr;
}

Result<const HeldMounts::Mount*> HeldMounts::mount(const std::string& owner,
                                                   const HolderRequest& request) {
  const std::string& target = request.target;
  if (const auto existing = mounts_.find(target); existing != mounts_.end()) {
    const HolderRecord& record = existing->second.record;
    const bool there = stillMounted(existing->second);
    if (there && !record.aborted) {
      if (record.owner == owner && record.source == request.source && record.blob == request.blob &&
          record.flags == request.flags) {
        return &existing->second;
      }
      return Error{ErrorCode::kInUse, "mount point " + target + " already shows '" + record.source +
                                          "' of '" + record.owner + "'; unmount it first"};
    }
    if (there) {
      if (Status detached = unmountFuse(calls_, target, true); !detached) return detached.error();
    }
    mounts_.erase(existing);
  }
  auto shared = createShared();
  if (!shared) return shared.error();
  const FuseMountOptions options{.source = request.source,
                                 .options = request.options,
                                 .writable = (request.flags & kHolderWritable) != 0,
                                 .readAheadKiB = request.readAheadKiB};
  auto made = mountFuse(calls_, target, options);
  if (!made) return made.error();
  Mount held;
  held.record.target = made->target;
  held.record.source = request.source;
  held.record.owner = owner;
  held.record.epoch = 1;
  held.record.minor = made->minor;
  held.record.blob = request.blob;
  held.record.flags = request.flags;
  held.device = std::move(made->device);
  held.shared = std::move(*shared);
  return keep(std::move(held));
}

Result<const HeldMounts::Mount*> HeldMounts::enroll(const std::string& owner,
                                                    const HolderRequest& request,
                                                    std::vector<OwnedFd> descriptors) {
  if (descriptors.size() != 2 || !isFuseDevice(descriptors[0]) ||
      !HeldMemory::checkSealed(descriptors[1], kHolderSharedBytes)) {
    return Error{ErrorCode::kInvalidArgument,
                 "a mount to be kept comes with /dev/fuse and its table of open counts, sealed "
                 "against shrinking"};
  }
  Mount given;
  given.record.target = request.target;
  given.record.source = request.source;
  given.record.owner = owner;
  given.record.epoch = request.epoch;
  given.record.minor = request.minor;
  given.record.blob = request.blob;
  given.record.state = request.state;
  given.record.flags = request.flags;
  given.device = std::move(descriptors[0]);
  given.shared = std::move(descriptors[1]);
  if (!stillMounted(given)) {
    return Error{ErrorCode::kNotFound,
                 "the mount to be kept is not at " + request.target + " any more; mount it again"};
  }
  if (const auto there = mounts_.find(request.target); there != mounts_.end()) {
    const HolderRecord& record = there->second.record;
    if (record.minor == request.minor && record.owner != owner) {
      return Error{ErrorCode::kInUse, request.target + " is a mount of '" + record.owner + "'"};
    }
    if (record.minor == request.minor && !record.aborted) return &there->second;
  }
  return keep(std::move(given));
}

const HeldMounts::Mount* HeldMounts::keep(Mount mount) {
  // Without it the mount waits for an agent as a read-only one does.
  if ((mount.record.flags & kHolderWritable) != 0) {
    if (auto watch = MountWatch::map(mount.shared); watch.ok())
      mount.unserved.emplace(std::move(*watch));
  }
  const std::string target = mount.record.target;
  mounts_.erase(target);
  return &mounts_.emplace(target, std::move(mount)).first->second;
}

Result<const HeldMounts::Mount*> HeldMounts::mountOf(const std::string& owner,
                                                     const std::string& target) const {
  const auto mount = mounts_.find(target);
  if (mount == mounts_.end() || mount->second.record.owner != owner) {
    return Error{ErrorCode::kNotFound, "the holder has no mount of '" + owner + "' at " + target};
  }
  return &mount->second;
}

Status HeldMounts::saveState(const std::string& owner, const std::string& target,
                             const std::string& state) {
  if (const auto mount = mountOf(owner, target); !mount) return mount.error();
  mounts_.find(target)->second.record.state = state;
  return {};
}

Status HeldMounts::unmount(const std::string& target, bool force) {
  const auto mount = mounts_.find(target);
  if (mount == mounts_.end()) {
    return Error{ErrorCode::kNotFound, "the holder has no mount at " + target};
  }
  const HolderRecord& record = mount->second.record;
  if (stillMounted(mount->second)) {
    if (Status done = unmountFuse(calls_, record.target, force); !done) return done;
    // Requests of files that are still open would wait for ever: no agent will serve this
    // connection.
    if (force && owners_[record.owner].agent == 0) {
      if (Status aborted = abortFuseConnection(record.minor);
          !aborted && aborted.code() != ErrorCode::kNotFound) {
        mounts_.erase(mount);
        return aborted;
      }
    }
  }
  mounts_.erase(mount);
  return {};
}

std::uint32_t HeldMounts::absence(const std::string& name, Time now) const {
  const auto owner = owners_.find(name);
  if (owner == owners_.end() || owner->second.agent != 0) return 0;
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::seconds>(now - owner->second.absentSince).count());
}

bool HeldMounts::owns(const std::string& owner) const {
  return memory_.has(owner) || next("", owner) != nullptr;
}

HolderRecord HeldMounts::describe(const Mount& mount, Time now) const {
  HolderRecord record = mount.record;
  const auto owner = owners_.find(record.owner);
  record.attached = owner != owners_.end() && owner->second.agent != 0;
  record.absentSeconds = absence(record.owner, now);
  return record;
}

HolderMemory HeldMounts::describe(const HeldMemory::Kept& kept, Time now) const {
  HolderMemory record = kept.record;
  record.absentSeconds = absence(record.owner, now);
  const auto owner = owners_.find(record.owner);
  record.attached = owner != owners_.end() && owner->second.agent != 0;
  record.usersGone = owner != owners_.end() && owner->second.former.allEnded();
  return record;
}

Status HeldMounts::dropMemory(const std::string& owner, const std::string& name) {
  Status dropped = memory_.drop(owner, name);
  if (dropped && !memory_.has(owner)) owners_[owner].former.forget();
  return dropped;
}

Result<ChildCalls::Running> HeldMounts::beginTouch(HolderConnection connection,
                                                   const HolderRequest& request,
                                                   const std::vector<OwnedFd>& descriptors) {
  const auto owner = ownerOf(connection);
  if (!owner) return owner.error();
  if (request.kind == HolderRequestKind::kTouchFile) {
    if (descriptors.size() != 1) {
      return Error{ErrorCode::kInvalidArgument, "a file to be touched comes as a descriptor"};
    }
    const auto range = memory_.fileToTouch(*owner, request, descriptors.front());
    if (!range) return range.error();
    return hearth::beginTouch(calls_, range->file, request.offset, range->bytes);
  }
  const auto memory = memory_.toTouch(*owner, request);
  if (!memory) return memory.error();
  return hearth::beginTouch(calls_, **memory, request.offset, request.bytes);
}

std::vector<std::string> HeldMounts::abortAbsent(Time now) {
  std::vector<std::string> lines;
  for (auto& [target, mount] : mounts_) {
    const Owner& owner = owners_[mount.record.owner];
    if (mount.record.aborted || owner.agent != 0 || now < owner.absentSince + agentAbsence_)
      continue;
    const Status aborted = abortFuseConnection(mount.record.minor);
    // The last descriptor of a connection ends it as well, and no other process has one: no agent
    // is here.
    mount.device.reset();
    mount.record.aborted = true;
    lines.push_back("aborted " + target + ": '" + mount.record.owner + "' has had no agent for " +
                    std::to_string(agentAbsence_.count()) + " s" +
                    (aborted ? "" : " (" + aborted.error().message + ")"));
  }
  for (const auto& [name, owner] : owners_) {
    if (owner.agent != 0 || now < owner.absentSince + agentAbsence_) continue;
    if (const std::size_t dropped = memory_.dropAll(name); dropped != 0) {
      lines.push_back("dropped " + std::to_string(dropped) + " memories of '" + name +
                      "', which has had no agent for " + std::to_string(agentAbsence_.count()) +
                      " s");
    }
  }
  return lines;
}

HeldMounts::Time HeldMounts::nextAbort() const {
  Time next = Time::max();
  for (const auto& [name, owner] : owners_) {
    if (owner.agent != 0) continue;
    const bool waits =
        memory_.has(name) ||
        std::any_of(mounts_.begin(), mounts_.end(), [&wanted = name](const auto& mount) {
          return mount.second.record.owner == wanted && !mount.second.record.aborted;
        });
    if (waits) next = std::min(next, owner.absentSince + agentAbsence_);
  }
  return next;
}

std::vector<std::string> HeldMounts::endUnserved(Time now) {
  std::vector<std::string> lines;
  for (auto& [target, mount] : mounts_) {
    if (!mount.unserved || !mount.device) continue;
    if (const auto line = mount.unserved->end(mount.device.get(), now))
      lines.push_back(target + " " + *line);
  }
  return lines;
}

HeldMounts::Time HeldMounts::nextUnserved(Time now) const {
  Time next = Time::max();
  for (const auto& [target, mount] : mounts_) {
    if (mount.unserved && mount.device) next = std::min(next, mount.unserved->due(now));
  }
  return next;
}

std::vector<int> HeldMounts::unservedDevices() const {
  std::vector<int> devices;
  for (const auto& [target, mount] : mounts_) {
    if (mount.unserved && mount.device && mount.unserved->answers())
      devices.push_back(mount.device.get());
  }
  return devices;
}

bool HeldMounts::anyAttached() const {
  return std::any_of(owners_.begin(), owners_.end(),
                     [](const auto& owner) { return owner.second.agent != 0; });
}

std::vector<std::string> HeldMounts::unmountUnserved() {
  std::vector<std::string> lines;
  for (const auto& [target, mount] : mounts_) {
    const auto owner = owners_.find(mount.record.owner);
    const bool served = owner != owners_.end() && owner->second.agent != 0;
    if (served || !stillMounted(mount)) continue;
    if (const Status done = unmountFuse(calls_, target, true); !done) {
      lines.push_back(done.error().message);
    }
  }
  forgetAll();
  return lines;
}

const HeldMounts::Mount* HeldMounts::at(std::size_t position) const {
  if (position >= mounts_.size()) return nullptr;
  return &std::next(mounts_.begin(), static_cast<std::ptrdiff_t>(position))->second;
}

void HeldMounts::adopt(Mount mount, Time absentSince) {
  owners_.try_emplace(mount.record.owner, Owner{0, {}, absentSince});
  keep(std::move(mount));
}

void HeldMounts::adopt(HeldMemory::Kept kept, Time absentSince) {
  Owner& owner = owners_.try_emplace(kept.record.owner, Owner{0, {}, absentSince}).first->second;
  owner.former.inherit(kept.record.usersGone, kept.record.attached);
  memory_.adopt(std::move(kept));
}

void HeldMounts::forgetAll() {
  mounts_.clear();
  memory_.clear();
}

bool HeldMounts::hasGone(const std::string& target) const {
  const auto mount = mounts_.find(target);
  return mount != mounts_.end() && !stillMounted(mount->second);
}

bool HeldMounts::stillMounted(const Mount& mount) {
  const auto row = findMount(mount.record.target);
  return row.ok() && row->has_value() && (*row)->minor == mount.record.minor &&
         (*row)->type == kFuseType;
}

void HeldMounts::forgetUnmounted(const std::string& owner) {
  std::erase_if(mounts_, [&](const auto& mount) {
    return mount.second.record.owner == owner &&
           (mount.second.record.aborted || !stillMounted(mount.second));
  });
}

}  // namespace hearth
