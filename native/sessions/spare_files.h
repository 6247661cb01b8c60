// Empty files of one volume's folder that are made before a session asks for one: ext4 searches up
// to 0.3 ms for an inode that was not deleted just now, and renames a file in 10 us. The next agent
// removes those of a killed one (removeAside()). On the reactor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "reactor/thread_pool.h"
#include "sessions/session_files.h"

namespace hearth {

class SpareFiles {
 public:
  static constexpr std::size_t kMaxSpares = 8;

  // Makes nothing before the first take(). `reactor` outlives the object.
  SpareFiles(Reactor& reactor, std::string folder);

  // A new session file, as makeSessionFile() makes it. Errors of the disk, when there is no spare
  // file and none can be made.
  [[nodiscard]] Task<Result<OwnedFd>> take(std::string path);
  // Removes the spare files. Once, after the last take() and before destruction.
  [[nodiscard]] Task<void> close();

  [[nodiscard]] std::size_t count() const { return spares_.size(); }

 private:
  void fillUp();
  [[nodiscard]] Task<void> fill();

  Reactor& reactor_;
  const std::string folder_;
  std::vector<SpareFile> spares_;
  std::uint64_t made_ = 0;
  bool filling_ = false;
  Clock::time_point failedUntil_{};
  Gate running_;
  ThreadPool maker_{{.threads = 1}};
};

}  // namespace hearth
