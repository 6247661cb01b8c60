// What applications ask for by the ioctls of one mount: files to fetch ahead (WILLNEED) and files
// to let go (DONTNEED). Both go on in the background, within bounds, and end with the mount:
// whoever reaches a mount can make this agent fetch, but not without limit, and no reader takes
// another one's part of that, or ends what another one has asked for. Whatever it says, no other
// agent lets go of anything: a dataset is shared with who reaches other mounts of it. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "fuse/mount_source.h"
#include "mount/mount_ports.h"
#include "warm/warm_job.h"

namespace hearth {

class MountAdvice : public std::enable_shared_from_this<MountAdvice> {
 public:
  // At the same time, of one reader.
  static constexpr std::size_t kMaxRequests = 16;
  static constexpr std::size_t kMaxFiles = 100'000;
  // A mount may have as much under way as this many of them.
  static constexpr std::size_t kMaxReaders = 16;
  // Of one request. It goes on for more of them, but as long as these want it.
  static constexpr std::size_t kMaxSharers = 1024;

  // `ports` must remain live while this object is used.
  MountAdvice(const MountPorts& ports, std::shared_ptr<Dataset> dataset)
      : ports_(ports), dataset_(std::move(dataset)) {}
  MountAdvice(const MountAdvice&) = delete;
  MountAdvice& operator=(const MountAdvice&) = delete;

  // Begins to fetch the files at and below `entry`, or to let go of them, and returns. The same, or
  // more, for something that contains it goes on already: then that is this reader's as well. The
  // opposite for something that it contains is not this reader's any more, and ends with its last
  // one; to let go of memory is the opposite of nothing.
  // kUnavailable while too much is under way; kInvalidArgument when it alone is more than may be;
  // kCancelled after close(). An error leaves everything that is under way as it was.
  [[nodiscard]] Status advise(std::uint32_t entry, Advice advice, std::uint64_t reader);
  // What is under way ends early, nothing begins any more. Does not wait.
  void close();

  [[nodiscard]] std::size_t underWay() const;

 private:
  struct Request {
    std::uint32_t entry;
    Advice advice;
    std::size_t files;
    std::uint64_t reader;  // who has begun it: it is of this one's part until it has ended
    std::set<std::uint64_t> readers;  // who wants it
    std::shared_ptr<WarmJob> job;     // of WILLNEED
    std::atomic<bool> cancelled{false};

    void cancel() {
      cancelled.store(true);
      if (job != nullptr) job->cancel();
    }
  };

  // With the lock. Notes it among the requests, where it is not one of these already.
  [[nodiscard]] Status admit(const std::shared_ptr<Request>& request, std::uint64_t reader);
  // With the lock. What of the same kind goes on for something that contains it; null: nothing.
  [[nodiscard]] Request* covering(const Request& request) const;
  // With the lock. The opposite for what it contains is not this reader's any more.
  void cancelOpposites(const Request& request, std::uint64_t reader);
  // With the lock. In this reader's part.
  [[nodiscard]] bool hasRoom(std::size_t files, std::uint64_t reader) const;
  [[nodiscard]] bool contains(std::uint32_t entry, std::uint32_t other) const;
  void count(const Request& request);
  static Task<void> run(std::shared_ptr<MountAdvice> advice, std::shared_ptr<Request> request,
                        std::vector<std::uint32_t> files);
  static Task<void> letGo(const MountPorts& ports, std::shared_ptr<Dataset> dataset,
                          std::shared_ptr<Request> request, std::vector<std::uint32_t> files);

  const MountPorts& ports_;
  const std::shared_ptr<Dataset> dataset_;
  mutable std::mutex mutex_;
  std::list<std::shared_ptr<Request>> requests_;
  std::size_t files_ = 0;  // of all requests
  bool closed_ = false;
};

}  // namespace hearth
