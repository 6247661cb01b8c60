// Advice of applications by the ioctls of one mount: files to fetch ahead (WILLNEED) and files to
// let go (DONTNEED). Both go on in the background, within bounds, and end with the mount. Bounds
// are for each reader: a reader of the mount can make this agent fetch, but not without limit, and
// takes no other reader's part nor ends what another reader has asked for. No advice makes another
// agent let go of anything, as readers of other mounts share the dataset. Any thread.
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
  // Bounds of one reader at a time.
  static constexpr std::size_t kMaxRequests = 16;
  static constexpr std::size_t kMaxFiles = 100'000;
  // A mount may have as much under way as so many readers.
  static constexpr std::size_t kMaxReaders = 16;
  // Readers noted for one request. It goes on for more readers, but only as long as the noted ones
  // want it.
  static constexpr std::size_t kMaxSharers = 1024;

  // `ports` must remain live while this object is used.
  MountAdvice(const MountPorts& ports, std::shared_ptr<Dataset> dataset)
      : ports_(ports), dataset_(std::move(dataset)) {}
  MountAdvice(const MountAdvice&) = delete;
  MountAdvice& operator=(const MountAdvice&) = delete;

  // Begins to fetch the files at and below `entry`, at `pace`, or to let go of them, and returns.
  // If a request for the same or more already covers the entry, this reader joins that one. This
  // reader leaves opposite requests that the new one contains, and each of them ends with its last
  // reader; to let go of memory is the opposite of nothing. kUnavailable while too much is under
  // way; kInvalidArgument when the request alone exceeds the bounds; kCancelled after close(). An
  // error leaves everything under way as it was.
  [[nodiscard]] Status advise(std::uint32_t entry, Advice advice, std::uint64_t reader,
                              WarmPace pace = {});
  // Ends all requests early; nothing begins any more. Does not wait.
  void close();

  [[nodiscard]] std::size_t underWay() const;

 private:
  struct Request {
    std::uint32_t entry;
    Advice advice;
    std::size_t files;
    std::uint64_t reader;             // its beginner, in whose part it counts until it has ended
    std::set<std::uint64_t> readers;  // those that want it
    std::shared_ptr<WarmJob> job;     // of WILLNEED
    std::atomic<bool> cancelled{false};

    void cancel() {
      cancelled.store(true);
      if (job != nullptr) job->cancel();
    }
  };

  // With the lock. Adds the request, unless it is there already, or makes `reader` join it.
  [[nodiscard]] Status admit(const std::shared_ptr<Request>& request, std::uint64_t reader);
  // With the lock. A request of the same kind that covers this one; else null.
  [[nodiscard]] Request* covering(const Request& request) const;
  // With the lock. Takes this reader off opposite requests that the request contains.
  void cancelOpposites(const Request& request, std::uint64_t reader);
  // With the lock. True: this reader's part has room.
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
