// The blocking calls on files of directory origins, on threads of their own. Such a directory may
// lie on a network file system, and a call on one whose server is gone does not return until the
// kernel lets it, which cannot be hastened. So:
//
//   - no other thread of the process makes such a call;
//   - each tree (a directory that locations name, and the first folder below it) has a few threads
//     at most, so that one that hangs takes none from the others;
//   - whoever waits may leave: what a call needs belongs to the call.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "files/file_system.h"
#include "reactor/reactor.h"

namespace hearth {

struct OriginFileInfo : FileInfo {
  std::uint32_t user = 0;
  std::uint32_t group = 0;
};

// One open regular file. Calls block; one thread at a time, except readAt.
class OriginFile {
 public:
  virtual ~OriginFile() = default;
  [[nodiscard]] virtual Result<OriginFileInfo> info() = 0;
  // Bytes read; fewer than asked only at the end of the file. Any number of threads.
  [[nodiscard]] virtual Result<std::size_t> readAt(std::span<std::byte> into,
                                                   std::uint64_t offset) = 0;
  // Only advice: [offset, offset + length) will be read from its beginning to its end.
  virtual void willRead(std::uint64_t offset, std::uint64_t length) = 0;
};

// The seam under the reads of directory origins. Any thread; blocks.
class OriginFiles {
 public:
  virtual ~OriginFiles() = default;
  // The regular file at the relative `path` below the directory `root`, as openRegularBelow.
  [[nodiscard]] virtual Result<std::unique_ptr<OriginFile>> open(const std::string& root,
                                                                 const std::string& path) = 0;
};

[[nodiscard]] std::unique_ptr<OriginFiles> kernelOriginFiles();

class DirectoryCalls {
 public:
  struct Limits {
    std::size_t threads = 64;  // of all trees together
    // The same when these are all taken, perhaps by trees of one server that hang: beyond `threads`
    // a tree has one.
    std::size_t threadsWhenHanging = 256;
    std::size_t threadsPerTree = 8;
    std::size_t waitingPerTree = 4096;
    // A tree whose threads have all gone on with nothing for so long hangs.
    Clock::duration stall = std::chrono::seconds(30);
  };
  // When a tree last got on: a call of it ended, or a part of one. Any thread.
  using Progress = std::atomic<Clock::rep>;
  static void note(Progress& progress) { progress = Clock::now().time_since_epoch().count(); }
  [[nodiscard]] static Clock::time_point timeOf(const Progress& progress) {
    return Clock::time_point(Clock::duration(progress.load()));
  }

  DirectoryCalls(std::unique_ptr<OriginFiles> files, Limits limits);
  // Waits for a moment; threads whose calls hang are left to end by themselves.
  ~DirectoryCalls();
  DirectoryCalls(const DirectoryCalls&) = delete;
  DirectoryCalls& operator=(const DirectoryCalls&) = delete;

  [[nodiscard]] const Limits& limits() const { return limits_; }
  // Lives as long as any call that was given.
  [[nodiscard]] const std::shared_ptr<OriginFiles>& files() const { return files_; }

  // Any thread. Runs `call` on a thread of the tree, with the tree's progress for it to note; it
  // may be destroyed unrun, and may run after this object has gone. kUnavailable: the tree hangs,
  // or too much waits for it. Otherwise the tree's progress.
  [[nodiscard]] Result<std::shared_ptr<Progress>> run(const std::string& tree,
                                                      std::function<void(Progress&)> call);

 private:
  struct State;
  static void loop(const std::shared_ptr<State>& state);

  const Limits limits_;
  const std::shared_ptr<OriginFiles> files_;
  const std::shared_ptr<State> state_;
};

// The tree in which the file `path` (relative) below `root` lies.
[[nodiscard]] std::string treeOf(const std::string& root, const std::string& path);

}  // namespace hearth
