// The mounts of this agent: views bound by the kernel, and FUSE mounts that hearth-holder owns and
// this engine serves. Called and continued on the home shard's thread.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/manifest_store.h"
#include "mount/mount_ports.h"
#include "reactor/synchronization.h"

namespace hearth {

class ChildCalls;
class HolderLink;
class FuseSession;
struct FuseSessionOptions;
struct HeldMount;

struct MountOptions {
  enum class Path : std::uint8_t { kAuto, kView, kFuse, kDaemon };
  std::string target;  // absolute path of an empty directory
  std::shared_ptr<Dataset> dataset;
  std::string source;  // "hearth:" and the dataset's id, shown by mount(8) and user.hearth.source
  Path path = Path::kAuto;
};

struct VolumeMountOptions {
  std::string target;  // absolute path of an empty directory
  tree::WideId volume{};
  std::string source;  // shown by mount(8)
};

struct MountInfo {
  std::string target, source;
  Sha256Digest manifest{};
  std::optional<tree::WideId> volume;  // a writable volume, which has no manifest
  // "view", "fuse" (passthrough for complete files) or "daemon"; list() also says "through" when
  // the cache could not keep what readers needed lately.
  std::string dataPath;
  std::string reason;  // why not a better path
  std::uint64_t readsServed = 0, bytesServed = 0, passthroughOpens = 0, daemonOpens = 0;
};

class Mounts {
 public:
  // `callDeadline`: for mount(2) and umount(2) of views, which then fail with kDeadlineExceeded.
  // `ports` and `manifests` must remain live while this object is used.
  Mounts(const MountPorts& ports, ManifestStore& manifests,
         std::chrono::milliseconds callDeadline = std::chrono::seconds(5));
  ~Mounts();

  // Mounting the same twice gives the same mount; kInUse when the target serves something else.
  [[nodiscard]] Task<Result<MountInfo>> mount(MountOptions options);
  // Mounts a writable volume; the same twice is one mount. kInUse, kNotFound: no such volume is
  // known here, and errors of MountPorts::volumeFiles.
  [[nodiscard]] Task<Result<MountInfo>> mountVolume(VolumeMountOptions options);
  // These volumes are known now: takes back what the earlier agent left of them, and serves their
  // mounts that the holder has for us, whose requests have waited in the kernel.
  [[nodiscard]] Task<void> resumeVolumes(std::vector<tree::WideId> volumes);
  // kInUse while files are open there; kNotFound when the mount is not ours.
  [[nodiscard]] Task<Status> unmount(std::string target);
  [[nodiscard]] std::vector<MountInfo> list() const;
  // Takes over views that are still bound and the mounts that the holder has for this agent.
  // Returns all targets. Without a holder it returns an error, but still takes over views.
  [[nodiscard]] Task<Result<std::vector<std::string>>> resume();
  // Stops serving. FUSE mounts stay with the holder, views and the link to the holder stay.
  [[nodiscard]] Task<void> close();

 private:
  struct Mounted;

  // Some file of the dataset is in memory or being brought there: passthrough reads it, a view does
  // not.
  [[nodiscard]] Task<bool> isInMemory(std::shared_ptr<Dataset> dataset);
  // By passthrough, for a dataset with files in memory. kUnsupported where the kernel has none.
  [[nodiscard]] Task<Result<MountInfo>> mountMemory(MountOptions options);
  [[nodiscard]] Task<Result<MountInfo>> mountView(MountOptions options);
  [[nodiscard]] Task<Result<MountInfo>> mountFuse(MountOptions options, std::string reason);
  // Finds the views that an earlier agent has bound.
  [[nodiscard]] Task<Status> adoptViews();
  // Becomes this node's agent at the holder, unless it is that already, and serves what the holder
  // has for us.
  [[nodiscard]] Task<Status> connect();
  [[nodiscard]] Task<Status> resumeOne(std::shared_ptr<HeldMount> held);
  [[nodiscard]] Task<Result<MountInfo>> serve(MountOptions options, std::shared_ptr<HeldMount> held,
                                              std::string reason);
  // The session's settings of a mount that the holder has, but for what its kind needs.
  [[nodiscard]] FuseSessionOptions sessionOf(const HeldMount& held);

  // --- volumes (volume_mounts.cc) ---
  struct WaitingMount {
    VolumeMountOptions options;
    std::shared_ptr<HeldMount> held;
  };
  struct ResumedVolume {
    std::weak_ptr<VolumeFiles> files;
    std::shared_ptr<Event> done;
  };
  // A target has one session, and what serves it ends on another thread than its own: the agent
  // that repeats its mounts and the engine that takes them over may ask for one target at once.
  [[nodiscard]] Semaphore& turnOf(tree::WideId volume);
  // These are called in the volume's turn.
  [[nodiscard]] Task<Result<MountInfo>> mountInTurn(VolumeMountOptions options,
                                                    std::shared_ptr<VolumeFiles> files);
  // Once for each object, before its first mount; with the writers of all mounts that wait.
  [[nodiscard]] Task<Status> resumeFiles(tree::WideId id, std::shared_ptr<VolumeFiles> files);
  [[nodiscard]] Task<Status> serveWaiting(tree::WideId id, std::shared_ptr<VolumeFiles> files);
  [[nodiscard]] Task<Result<MountInfo>> serveVolume(VolumeMountOptions options,
                                                    std::shared_ptr<HeldMount> held,
                                                    std::shared_ptr<VolumeFiles> files);
  // The mount that there is at the target; kInUse: of something else.
  [[nodiscard]] Result<std::optional<MountInfo>> mountedVolume(const VolumeMountOptions& options);

  [[nodiscard]] Task<Status> unmountAtHolder(std::string target, bool force);
  void ended(const std::string& target, const Error& why);
  Task<void> closeSession(std::shared_ptr<FuseSession> session, bool handOver);

  const MountPorts& ports_;
  MountShard& home_;
  ManifestStore& manifests_;
  const std::shared_ptr<HolderLink> link_;   // its calls block
  const std::shared_ptr<ChildCalls> calls_;  // of mount(2) and its like
  std::map<std::string, std::unique_ptr<Mounted>> mounted_;
  bool passthroughRefused_ = false;              // by this kernel
  std::map<std::string, WaitingMount> waiting_;  // for their volumes to be known, by target
  std::map<tree::WideId, ResumedVolume> resumedVolumes_;
  std::map<tree::WideId, std::unique_ptr<Semaphore>> turns_;
  // Runs calls that block, up to their deadline, while a file system or the holder does not answer:
  // opens on the shard wait for the reactor's own helpers. The last member: the others live until
  // its threads have ended.
  ThreadPool blocking_{{.threads = 16}};
  ThreadPool volumeReads_{{.threads = 4}};  // VolumeServiceOptions::threads
};

}  // namespace hearth
