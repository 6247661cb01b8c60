#include "holder/held_mounts.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "holder/fuse_mount.h"
#include "holder/mount_info.h"

namespace hearth {
namespace {

// Shared memory that nobody can shrink under the feet of who has it mapped.
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
                                         const std::string& who) {
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
  forgetUnmounted(owner);
  std::uint32_t count = 0;
  for (auto& [target, mount] : mounts_) {
    if (mount.record.owner != owner) continue;
    ++mount.record.epoch;
    ++count;
  }
  return count;
}

void HeldMounts::detach(HolderConnection connection, Time now) {
  for (auto entry = owners_.begin(); entry != owners_.end(); ++entry) {
    if (entry->second.agent != connection) continue;
    const bool owns = std::any_of(mounts_.begin(), mounts_.end(), [&](const auto& mount) {
      return mount.second.record.owner == entry->first;
    });
    if (owns) {
      entry->second = Owner{0, {}, now};
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
  auto target = canonicalDirectory(request.target);
  if (!target) return target.error();
  if (const auto existing = mounts_.find(*target); existing != mounts_.end()) {
    const HolderRecord& record = existing->second.record;
    const bool there = stillMounted(existing->second);
    if (there && !record.aborted) {
      if (record.owner == owner && record.source == request.source && record.blob == request.blob) {
        return &existing->second;
      }
      return Error{ErrorCode::kInUse, "mount point " + *target + " already shows '" +
                                          record.source + "' of '" + record.owner +
                                          "'; unmount it first"};
    }
    if (there) {
      if (Status detached = unmountFuse(*target, true); !detached) return detached.error();
    }
    mounts_.erase(existing);
  }
  auto shared = createShared();
  if (!shared) return shared.error();
  FuseMountOptions options{request.source, request.selinuxContext, request.readAheadKiB};
  auto made = mountFuse(*target, options);
  if (!made) return made.error();
  Mount held;
  held.record.target = made->target;
  held.record.source = request.source;
  held.record.owner = owner;
  held.record.epoch = 1;
  held.record.minor = made->minor;
  held.record.blob = request.blob;
  held.device = std::move(made->device);
  held.shared = std::move(*shared);
  return &(mounts_[made->target] = std::move(held));
}

Status HeldMounts::saveState(const std::string& owner, const std::string& target,
                             const std::string& state) {
  const auto mount = find(target);
  if (mount == mounts_.end() || mount->second.record.owner != owner) {
    return Error{ErrorCode::kNotFound, "the holder has no mount of '" + owner + "' at " + target};
  }
  mount->second.record.state = state;
  return {};
}

Status HeldMounts::unmount(const std::string& target, bool force) {
  const auto mount = find(target);
  if (mount == mounts_.end()) {
    return Error{ErrorCode::kNotFound, "the holder has no mount at " + target};
  }
  const HolderRecord& record = mount->second.record;
  if (stillMounted(mount->second)) {
    if (Status done = unmountFuse(record.target, force); !done) return done;
    // Requests of files that are still open would wait for ever: nobody will serve this connection.
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

HolderRecord HeldMounts::describe(const Mount& mount, Time now) const {
  HolderRecord record = mount.record;
  const auto owner = owners_.find(record.owner);
  record.attached = owner != owners_.end() && owner->second.agent != 0;
  if (owner != owners_.end() && !record.attached) {
    record.absentSeconds = static_cast<std::uint32_t>(
        std::chrono::duration_cast<std::chrono::seconds>(now - owner->second.absentSince).count());
  }
  return record;
}

std::vector<std::string> HeldMounts::abortAbsent(Time now) {
  std::vector<std::string> lines;
  for (auto& [target, mount] : mounts_) {
    const Owner& owner = owners_[mount.record.owner];
    if (mount.record.aborted || owner.agent != 0 || now < owner.absentSince + agentAbsence_)
      continue;
    const Status aborted = abortFuseConnection(mount.record.minor);
    // The last descriptor of a connection ends it as well, and nobody else has one: no agent is
    // here.
    mount.device.reset();
    mount.record.aborted = true;
    lines.push_back("aborted " + target + ": '" + mount.record.owner + "' has had no agent for " +
                    std::to_string(agentAbsence_.count()) + " s" +
                    (aborted ? "" : " (" + aborted.error().message + ")"));
  }
  return lines;
}

HeldMounts::Time HeldMounts::nextAbort() const {
  Time next = Time::max();
  for (const auto& [target, mount] : mounts_) {
    const auto owner = owners_.find(mount.record.owner);
    if (mount.record.aborted || owner == owners_.end() || owner->second.agent != 0) continue;
    next = std::min(next, owner->second.absentSince + agentAbsence_);
  }
  return next;
}

std::vector<std::string> HeldMounts::unmountAll() {
  std::vector<std::string> lines;
  for (const auto& [target, mount] : mounts_) {
    if (!stillMounted(mount)) continue;
    if (const Status done = unmountFuse(target, true); !done) lines.push_back(done.error().message);
  }
  mounts_.clear();
  return lines;
}

std::map<std::string, HeldMounts::Mount>::iterator HeldMounts::find(const std::string& target) {
  if (const auto mount = mounts_.find(target); mount != mounts_.end()) return mount;
  const auto canonical = canonicalDirectory(target);
  return canonical ? mounts_.find(*canonical) : mounts_.end();
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
