// The part of a directory read that runs on threads of the directory: opens the file, reads piece
// after piece, and looks after each whether the file still is the one that was listed. Whoever
// waits for it on a reactor may leave at any moment. Private to this room.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "origin/directory_calls.h"
#include "origin/origin_client.h"
#include "reactor/synchronization.h"

namespace hearth {

class DirectoryTransfer : public std::enable_shared_from_this<DirectoryTransfer> {
 public:
  struct Source {
    std::string root, path;  // the file is at `path` (relative) below `root`
    OriginExpectation expectation;
    std::uint64_t offset = 0;
  };

  // Reactor's thread, as all members here. `changed` and the memory of `into` are used until
  // leave(). They, and `reactor`, must remain live until then.
  DirectoryTransfer(Reactor& reactor, Event& changed, Source source,
                    std::vector<std::span<std::byte>> into);

  // Asks for a thread. kUnavailable: the directory hangs.
  [[nodiscard]] Status start(DirectoryCalls& calls);
  // Asks for more threads once the file is open; call when `changed` was set.
  void share(DirectoryCalls& calls);
  [[nodiscard]] bool ended(std::size_t piece) const;
  [[nodiscard]] Status failure() const;
  // When a byte last came; before the first call when the tree last got on, or we asked.
  [[nodiscard]] Clock::time_point progressAt() const;
  // Nothing is written to the memory afterwards, and `changed` is not set.
  void leave();

  struct Counts {
    std::uint64_t bytes = 0, requests = 0;
  };
  [[nodiscard]] Counts counts() const;

 private:
  // On threads of the directory.
  using Progress = DirectoryCalls::Progress;
  void begin(Progress& tree);
  void work(Progress& tree);
  [[nodiscard]] Status open();
  [[nodiscard]] Status readPiece(std::size_t piece, std::span<std::byte> bounce, Progress& tree);
  [[nodiscard]] Status check(const OriginFileInfo& info) const;
  [[nodiscard]] Status unchanged() const;
  void notify();

  Reactor& reactor_;
  Event* changed_;  // reactor's thread; null after leave()
  const Source source_;
  const std::string name_;  // for messages
  const std::vector<std::span<std::byte>> into_;
  std::vector<std::uint64_t> starts_;   // of the pieces, in the file
  std::shared_ptr<OriginFiles> files_;  // set by start()
  std::shared_ptr<Progress> tree_;      // reactor's thread
  Progress progress_{0};                // of ours; 0: no call has begun
  bool shared_ = false;                 // reactor's thread, as the next
  Clock::time_point asked_;
  std::unique_ptr<std::mutex[]> copying_;  // of each piece: held while its memory is written
  std::atomic<bool> left_{false};          // set with mutex_ held

  mutable std::mutex mutex_;  // guards all below
  std::unique_ptr<OriginFile> file_;
  FileInfo opened_;          // constant once file_ is there
  std::size_t next_ = 0;     // piece
  std::size_t workers_ = 0;  // that use the file
  std::vector<bool> ended_;
  Status failure_;
  Counts counts_;
};

}  // namespace hearth
