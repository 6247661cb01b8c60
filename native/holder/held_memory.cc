#include "holder/held_memory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "memory/aligned_mapping.h"
#include "memory/memory_folder.h"

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

// Of `file`, for both reading and writing, as a mapping that takes its room needs: an agent may
// have opened it for writing alone.
Result<OwnedFd> reopened(const OwnedFd& file) {
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  OwnedFd both(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!both) return errnoError(errno, "open a file of a folder of memory");
  return both;
}

// [offset, offset + bytes) is inside of `size`, and no more than is touched at once.
Status checkRange(const HolderRequest& request, std::uint64_t size) {
  const bool inside = request.offset <= size && request.bytes <= kMaxHolderTouch &&
                      request.bytes <= size - request.offset;
  if (inside) return {};
  return Error{ErrorCode::kInvalidArgument, "what is to be touched of memory '" + request.name +
                                                "' is not inside it, or is more than " +
                                                std::to_string(kMaxHolderTouch) + " bytes"};
}

Status checkFile(const OwnedFd& folder, const OwnedFd& file) {
  struct stat root {
  }, about{};
  if (fstat(folder.get(), &root) != 0 || fstat(file.get(), &about) != 0)
    return errnoError(errno, "looking at a file of a folder of memory");
  const int mode = fcntl(file.get(), F_GETFL);
  const bool writable = mode >= 0 && (mode & O_PATH) == 0 && (mode & O_ACCMODE) != O_RDONLY;
  if (S_ISREG(about.st_mode) && about.st_dev == root.st_dev && writable) return {};
  return Error{ErrorCode::kInvalidArgument,
               "what is to be touched is no file of the folder that is open for writing"};
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
  std::uint64_t bytes = request.bytes;
  if (request.folder) {
    // Agents may have resized it since they have described it.
    const auto present = memoryFolderBytes(descriptor);
    if (!present) return present.error();
    bytes = *present;
  } else if (Status good = checkSealed(descriptor, bytes); !good) {
    return good;
  }
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
  } else if (Status may = mayAdd(owner); !may) {
    return may;
  }
  Kept kept{{owner, request.name, bytes, request.generation}, std::move(descriptor)};
  kept.record.folder = request.folder;
  kept.record.noHugePages = request.noHugePages;
  kept_[key] = std::move(kept);
  return {};
}

Status HeldMemory::mayAdd(const std::string& owner) const {
  const auto count = std::count_if(kept_.begin(), kept_.end(),
                                   [&](const auto& one) { return one.first.first == owner; });
  if (count < static_cast<std::ptrdiff_t>(kMax)) return {};
  return Error{ErrorCode::kOutOfSpace, "the holder keeps " + std::to_string(kMax) +
                                           " memories of '" + owner + "' already; drop one first"};
}

Result<const HeldMemory::Kept*> HeldMemory::openFolder(const std::string& owner,
                                                       const HolderRequest& request, uid_t user,
                                                       gid_t group) {
  if (request.name.empty()) return Error{ErrorCode::kInvalidArgument, "memory needs a name"};
  auto there = kept_.find({owner, request.name});
  if (there == kept_.end()) {
    if (Status may = mayAdd(owner); !may) return may.error();
    auto made = makeMemoryFolder(request.bytes, user, group);
    if (!made) return made.error();
    Kept kept{{.owner = owner, .name = request.name, .generation = 1}, std::move(made->root)};
    kept.record.folder = true;
    kept.record.noHugePages = std::move(made->noHugePages);
    there = kept_.emplace(std::pair(owner, request.name), std::move(kept)).first;
  } else if (!there->second.record.folder) {
    return Error{ErrorCode::kConflict,
                 "memory '" + request.name + "' is no folder; drop it first, or take another name"};
  } else if (Status sized = resizeMemoryFolder(there->second.descriptor, request.bytes); !sized) {
    return sized.error();
  }
  const auto bytes = memoryFolderBytes(there->second.descriptor);
  if (!bytes) return bytes.error();
  there->second.record.bytes = *bytes;
  return &there->second;
}

Result<const HeldMemory::Kept*> HeldMemory::find(const std::string& owner,
                                                 const std::string& name) const {
  const auto there = kept_.find({owner, name});
  if (there == kept_.end()) return unknownMemory(owner, name);
  return &there->second;
}

Result<HeldMemory::Kept*> HeldMemory::findToTouch(const std::string& owner,
                                                  const HolderRequest& request, bool folder) {
  const auto there = kept_.find({owner, request.name});
  if (there == kept_.end()) return unknownMemory(owner, request.name);
  if (touchBytes_ == 0) {
    return Error{ErrorCode::kUnsupported,
                 "this holder touches no memory; touch it in the agent, or start the holder with "
                 "--arena-bytes"};
  }
  if (there->second.record.folder == folder) return &there->second;
  return Error{ErrorCode::kInvalidArgument,
               "memory '" + request.name + "' is " + (folder ? "no" : "a") + " folder"};
}

Result<const OwnedFd*> HeldMemory::toTouch(const std::string& owner, const HolderRequest& request) {
  const auto kept = findToTouch(owner, request, false);
  if (!kept) return kept.error();
  if (Status inside = checkRange(request, (*kept)->record.bytes); !inside) return inside.error();
  if (Status admitted = admitTouch((*kept)->record); !admitted) return admitted.error();
  return &(*kept)->descriptor;
}

Result<HeldMemory::FileRange> HeldMemory::fileToTouch(const std::string& owner,
                                                      const HolderRequest& request,
                                                      const OwnedFd& file) {
  const auto kept = findToTouch(owner, request, true);
  if (!kept) return kept.error();
  if (Status good = checkFile((*kept)->descriptor, file); !good) return good.error();
  struct stat about {};
  if (fstat(file.get(), &about) != 0) return errnoError(errno, "looking at a file");
  const auto size = static_cast<std::uint64_t>(about.st_size);
  if (Status inside = checkRange(request, size); !inside) return inside.error();
  if (Status admitted = admitTouch((*kept)->record); !admitted) return admitted.error();
  auto both = reopened(file);
  if (!both) return both.error();
  const bool last = request.offset + request.bytes == size;
  const std::uint64_t rest = request.bytes % kSmallPageBytes;
  return FileRange{std::move(*both),
                   request.bytes + (last && rest != 0 ? kSmallPageBytes - rest : 0)};
}

Status HeldMemory::admitTouch(HolderMemory& record) {
  const std::uint64_t before = touchedBytes() - (record.touched ? record.bytes : 0);
  if (before > touchBytes_ || record.bytes > touchBytes_ - before) {
    return Error{ErrorCode::kOutOfSpace,
                 "memory '" + record.name + "' of " + std::to_string(record.bytes) +
                     " bytes is more than the holder touches: " + std::to_string(touchBytes_) +
                     " in all (--arena-bytes), of which " + std::to_string(before) +
                     " are in use; raise that, or make what is in memory smaller"};
  }
  record.touched = true;
  return {};
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
