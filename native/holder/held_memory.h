// Memory that agents let the holder keep: named descriptors of memfds, and of folders of files in
// memory (memory_folder.h), that outlive an agent, so that the next agent finds the contents of the
// former one. One thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/owned_fd.h"
#include "base/result.h"
#include "holder/holder_protocol.h"

namespace hearth {

class HeldMemory {
 public:
  struct Kept {
    HolderMemory record;  // without what is known of its owner's agents
    OwnedFd descriptor;
  };

  // `touchBytes`: so large may all memories together be that the holder touches.
  explicit HeldMemory(std::uint64_t touchBytes) : touchBytes_(touchBytes) {}

  // At most so many of one owner.
  static constexpr std::size_t kMax = 64;

  // kInvalidArgument unless it is memory of that size which cannot shrink: that would end whoever
  // has it mapped (SIGBUS).
  [[nodiscard]] static Status checkSealed(const OwnedFd& descriptor, std::uint64_t bytes);
  // Takes `descriptor`. kInvalidArgument when it is no memory of that size which cannot shrink, and
  // no folder where the request says so; kConflict when there is memory of this name with the same
  // or a higher generation, except for the very same; kOutOfSpace.
  [[nodiscard]] Status keep(const std::string& owner, const HolderRequest& request,
                            OwnedFd descriptor);
  // The folder of this name, made for `user` and `group` or resized. kConflict when it is no
  // folder; kInvalidArgument, kOutOfSpace.
  [[nodiscard]] Result<const Kept*> openFolder(const std::string& owner,
                                               const HolderRequest& request, uid_t user,
                                               gid_t group);
  // kNotFound.
  [[nodiscard]] Result<const Kept*> find(const std::string& owner, const std::string& name) const;
  // The owner's first one behind `name`, or nullptr.
  [[nodiscard]] const Kept* next(const std::string& owner, const std::string& name) const;
  // The memory of which `request` names a part that is to be touched now. kNotFound, kUnsupported
  // when none is touched, kInvalidArgument, kOutOfSpace when all touched ones were too large.
  [[nodiscard]] Result<const OwnedFd*> toTouch(const std::string& owner,
                                               const HolderRequest& request);
  struct FileRange {
    OwnedFd file;             // for reading and writing
    std::uint64_t bytes = 0;  // whole pages, behind the end of the file too
  };
  // The same for a part of `file`, which must be one of the folder that `request` names and open
  // for writing.
  [[nodiscard]] Result<FileRange> fileToTouch(const std::string& owner,
                                              const HolderRequest& request, const OwnedFd& file);
  [[nodiscard]] Status drop(const std::string& owner, const std::string& name);
  // Returns how many there were.
  std::size_t dropAll(const std::string& owner);
  [[nodiscard]] bool has(const std::string& owner) const { return next(owner, "") != nullptr; }

  // For the holder that follows: the one at `position`, or nullptr; and what it makes of them.
  [[nodiscard]] const Kept* at(std::size_t position) const;
  void adopt(Kept kept);
  void clear() { kept_.clear(); }
  [[nodiscard]] std::size_t size() const { return kept_.size(); }

 private:
  // Whether there may be one more of the owner.
  [[nodiscard]] Status mayAdd(const std::string& owner) const;
  // kNotFound, kUnsupported, kInvalidArgument when it is a folder and should be none, or is none.
  [[nodiscard]] Result<Kept*> findToTouch(const std::string& owner, const HolderRequest& request,
                                          bool folder);
  // Notes that the holder touches it.
  [[nodiscard]] Status admitTouch(HolderMemory& record);
  [[nodiscard]] std::uint64_t touchedBytes() const;

  const std::uint64_t touchBytes_;
  std::map<std::pair<std::string, std::string>, Kept> kept_;  // by owner and name
};

}  // namespace hearth
