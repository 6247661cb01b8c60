#include "holder/held_memory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

namespace hearth {
namespace {

Error unknownMemory(const std::string& owner, const std::string& name) {
  return {ErrorCode::kNotFound,
          "the holder keeps no memory '" + name + "' of '" + owner + "'; make it again"};
}

bool sameFile(const OwnedFd& a, const OwnedFd& b) {
  struct stat first {
  }, second{};
  return fstat(a.get(), &first) == 0 && fstat(b.get(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace

// Only memfds have seals.
Status HeldMemory::checkSealed(const OwnedFd& descriptor, std::uint64_t bytes) {
  struct stat info {};
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "what is to be kept is no memory that is sealed against shrinking (memfd_create)"};
  }
  if (fstat(descriptor.get(), &info) != 0 || static_cast<std::uint64_t>(info.st_size) != bytes) {
    return Error{ErrorCode::kInvalidArgument, "memory to be kept is not as long as was said"};
  }
  return {};
}

Status HeldMemory::keep(const std::string& owner, const HolderRequest& request,
                        OwnedFd descriptor) {
  if (request.name.empty()) return Error{ErrorCode::kInvalidArgument, "memory needs a name"};
  if (Status good = checkSealed(descriptor, request.bytes); !good) return good;
  const auto key = std::pair(owner, request.name);
  if (const auto there = kept_.find(key); there != kept_.end()) {
    const HolderMemory& record = there->second.record;
    const bool same =
        record.generation == request.generation && sameFile(there->second.descriptor, descriptor);
    if (same) return {};
    if (record.generation >= request.generation) {
      return Error{ErrorCode::kConflict, "memory '" + request.name + "' has generation " +
                                             std::to_string(record.generation) +
                                             " here; keep it with a higher one"};
    }
  } else if (std::count_if(kept_.begin(), kept_.end(), [&](const auto& one) {
               return one.first.first == owner;
             }) >= static_cast<std::ptrdiff_t>(kMax)) {
    return Error{ErrorCode::kOutOfSpace, "the holder keeps " + std::to_string(kMax) +
                                             " memories of '" + owner +
                                             "' already; drop one first"};
  }
  kept_[key] =
      Kept{{owner, request.name, request.bytes, request.generation}, std::move(descriptor)};
  return {};
}

Result<const HeldMemory::Kept*> HeldMemory::find(const std::string& owner,
                                                 const std::string& name) const {
  const auto there = kept_.find({owner, name});
  if (there == kept_.end()) return unknownMemory(owner, name);
  return &there->second;
}

Result<const OwnedFd*> HeldMemory::toTouch(const std::string& owner, const HolderRequest& request) {
  const auto there = kept_.find({owner, request.name});
  if (there == kept_.end()) return unknownMemory(owner, request.name);
  if (touchBytes_ == 0) {
    return Error{ErrorCode::kUnsupported,
                 "this holder touches no memory; touch it in the agent, or start the holder with "
                 "--arena-bytes"};
  }
  HolderMemory& record = there->second.record;
  const bool inside = request.offset <= record.bytes && request.bytes <= kMaxHolderTouch &&
                      request.bytes <= record.bytes - request.offset;
  if (!inside) {
    return Error{ErrorCode::kInvalidArgument, "what is to be touched of memory '" + request.name +
                                                  "' is not inside it, or is "
                                                  "more than " +
                                                  std::to_string(kMaxHolderTouch) + " bytes"};
  }
  const std::uint64_t before = touchedBytes() - (record.touched ? record.bytes : 0);
  if (before > touchBytes_ || record.bytes > touchBytes_ - before) {
    return Error{ErrorCode::kOutOfSpace,
                 "memory '" + request.name + "' of " + std::to_string(record.bytes) +
                     " bytes is more than the holder touches: " + std::to_string(touchBytes_) +
                     " in all (--arena-bytes), of which " + std::to_string(before) +
                     " are in use; raise that, or make the arena smaller"};
  }
  record.touched = true;
  return &there->second.descriptor;
}

std::uint64_t HeldMemory::touchedBytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [key, kept] : kept_) bytes += kept.record.touched ? kept.record.bytes : 0;
  return bytes;
}

const HeldMemory::Kept* HeldMemory::next(const std::string& owner, const std::string& name) const {
  const auto there = kept_.upper_bound({owner, name});
  return there != kept_.end() && there->first.first == owner ? &there->second : nullptr;
}

Status HeldMemory::drop(const std::string& owner, const std::string& name) {
  return kept_.erase({owner, name}) == 0 ? Status(unknownMemory(owner, name)) : Status();
}

std::size_t HeldMemory::dropAll(const std::string& owner) {
  return std::erase_if(kept_, [&](const auto& one) { return one.first.first == owner; });
}

const HeldMemory::Kept* HeldMemory::at(std::size_t position) const {
  if (position >= kept_.size()) return nullptr;
  return &std::next(kept_.begin(), static_cast<std::ptrdiff_t>(position))->second;
}

void HeldMemory::adopt(Kept kept) {
  const std::pair key(kept.record.owner, kept.record.name);
  kept_.insert_or_assign(key, std::move(kept));
}

}  // namespace hearth
