// Empty files that are made before a session of one volume asks for one: ext4 searches up to 0.3 ms
// for an inode that was not deleted just now, and a hand-over to a helper takes a tenth of one. The
// next agent removes those that no session has. On the reactor.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/owned_fd.h"
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

  // A spare file, at once; the caller renames it. Nothing: none is ready.
  [[nodiscard]] std::optional<SpareFile> takeReady();
  // A new session file, as makeSessionFile() makes it. Errors of the disk, when there is no spare
  // file and none can be made.
  [[nodiscard]] Task<Result<OwnedFd>> take(std::string path);
  // Once, after the last take() and before destruction.
  [[nodiscard]] Task<void> close();

  [[nodiscard]] std::size_t count() const { return spares_.size(); }

 private:
  [[nodiscard]] std::optional<SpareFile> takeOne();
  void fillUp();
  [[nodiscard]] Task<void> fill();

  Reactor& reactor_;
  const std::string folder_;
  std::vector<SpareFile> spares_;
  bool filling_ = false;
  Clock::time_point failedUntil_{};
  Gate running_;
  ThreadPool maker_{{.threads = 1}};
};

}  // namespace hearth
