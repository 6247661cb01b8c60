// Files of a memory folder (tmpfs) whose pages another process takes before they are written, so
// that its control group is charged for them and a page that is missing is an error of the write
// (kOutOfSpace), never a SIGBUS. All other calls go to the file system below.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "files/forwarding_file_system.h"
#include "reactor/reactor.h"

namespace hearth {

class ChargedFileSystem final : public ForwardingFileSystem {
 public:
  // Takes the pages of [offset, offset + bytes) of the file behind `descriptor`, inside the file,
  // and returns how many of the bytes lie in huge pages. Blocks; any thread. kOutOfSpace,
  // kUnavailable.
  using TakeRoom = std::function<Result<std::uint64_t>(int descriptor, std::uint64_t offset,
                                                       std::uint64_t bytes)>;

  // Room is taken in pieces of this size: each costs a call of another process.
  static constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;

  // `below`, `reactor` and `blocking` must remain live while this object, or a file of it, is used.
  // `blocking` runs takeRoom.
  ChargedFileSystem(FileSystem& below, Reactor& reactor, ThreadPool& blocking, TakeRoom takeRoom)
      : ForwardingFileSystem(below), terms_{reactor, blocking, std::move(takeRoom)} {}

  Task<Result<std::unique_ptr<File>>> open(std::string path, OpenFlags flags) override;

 private:
  struct Terms {
    Reactor& reactor;
    ThreadPool& blocking;
    TakeRoom takeRoom;
  };
  class ChargedFile;

  const Terms terms_;
};

}  // namespace hearth
