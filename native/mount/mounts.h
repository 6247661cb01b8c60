// The mounts of this agent: views bound by the kernel, and FUSE mounts that hearth-holder owns and
// this engine serves. Called and continued on the home shard's thread.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataset/manifest_store.h"
#include "mount/mount_ports.h"

namespace hearth {

class ChildCalls;
class HolderLink;
class FuseSession;
struct HeldMount;

struct MountOptions {
  enum class Path : std::uint8_t { kAuto, kView, kFuse, kDaemon };
  std::string target;  // absolute path of an empty directory
  std::shared_ptr<Dataset> dataset;
  std::string source;  // "hearth:" and the dataset's id, shown by mount(8) and user.hearth.source
  Path path = Path::kAuto;
};

struct MountInfo {
  std::string target, source;
  Sha256Digest manifest{};
  // "view", "fuse" (passthrough for complete files), "daemon"; as list() says it also "through":
  // lately the cache could not keep what readers needed.
  std::string dataPath;
  std::string reason;  // why not a better path
  std::uint64_t readsServed = 0, bytesServed = 0, passthroughOpens = 0, daemonOpens = 0;
};

class Mounts {
 public:
  // `callDeadline`: of mount(2) and umount(2) for views; they fail with kDeadlineExceeded then.
  // `ports` and `manifests` must remain live while this object is used.
  Mounts(const MountPorts& ports, ManifestStore& manifests,
         std::chrono::milliseconds callDeadline = std::chrono::seconds(5));
  ~Mounts();

  // The same mount twice is the same mount; kInUse when the target serves something else.
  [[nodiscard]] Task<Result<MountInfo>> mount(MountOptions options);
  // kInUse while files are open there; kNotFound when it is not ours.
  [[nodiscard]] Task<Status> unmount(std::string target);
  [[nodiscard]] std::vector<MountInfo> list() const;
  // Takes over the views that are still bound and what the holder has for this agent; all targets.
  // Without a holder an error, and views are taken over all the same.
  [[nodiscard]] Task<Result<std::vector<std::string>>> resume();
  // Stops serving; FUSE mounts stay with the holder, views stay. The link to it stays as well.
  [[nodiscard]] Task<void> close();

 private:
  struct Mounted;

  [[nodiscard]] Task<Result<MountInfo>> mountView(MountOptions options);
  [[nodiscard]] Task<Result<MountInfo>> mountFuse(MountOptions options, std::string reason);
  // Knows again the views that an earlier agent has bound.
  [[nodiscard]] Task<Status> adoptViews();
  // Becomes this node's agent at the holder, unless it is, and serves what it holds for us.
  [[nodiscard]] Task<Status> connect();
  [[nodiscard]] Task<Status> resumeOne(std::shared_ptr<HeldMount> held);
  [[nodiscard]] Task<Result<MountInfo>> serve(MountOptions options, std::shared_ptr<HeldMount> held,
                                              std::string reason);
  [[nodiscard]] Task<Status> unmountAtHolder(std::string target, bool force);
  void ended(const std::string& target, const Error& why);
  Task<void> closeSession(std::shared_ptr<FuseSession> session, bool handOver);

  const MountPorts& ports_;
  MountShard& home_;
  ManifestStore& manifests_;
  const std::shared_ptr<HolderLink> link_;   // its calls block
  const std::shared_ptr<ChildCalls> calls_;  // of mount(2) and its like
  std::map<std::string, std::unique_ptr<Mounted>> mounted_;
  // What blocks for as long as a file system or the holder does not answer, up to its deadline: the
  // reactor's helpers are the shard's, whose opens wait for them. The last member: the others live
  // until its threads have ended.
  ThreadPool blocking_{{.threads = 16}};
};

}  // namespace hearth
