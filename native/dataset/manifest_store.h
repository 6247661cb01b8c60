// The manifests of this agent: files named by their digest in the cache's manifest directory, and
// the datasets opened from them. On the home shard's thread, except find().
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dataset/dataset.h"
#include "directory/cluster_view.h"
#include "files/file_system.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"

namespace hearth {

// The parts of the engine's home shard that the store uses. They outlive the store.
struct ManifestPorts {
  Reactor& reactor;
  // Those of the cache directory: calls block threads of its disk alone, and end where it hangs.
  FileSystem& files;
  // For what goes through a whole manifest, of which some have hundreds of MiB: the reactor's
  // helpers are for quick calls, which the shard's opens and writes wait for.
  ThreadPool& wholeFiles;
  const std::shared_ptr<const ClusterView>& view;  // replaced when the cluster changes
  PeerTransport& transport;
  std::string directory;  // of the files
  EventSink events;
};

class ManifestStore {
 public:
  // The objects in `ports` must outlive this one.
  explicit ManifestStore(ManifestPorts ports);

  // Checks the bytes, writes them durably and opens them. Where the disk fails they stay in memory,
  // which is logged: the agent has the manifest until it ends.
  [[nodiscard]] Task<Result<std::shared_ptr<Dataset>>> add(std::vector<std::byte> bytes);
  // Builds it before. Errors also as ManifestBuilder::build().
  [[nodiscard]] Task<Result<std::shared_ptr<Dataset>>> add(
      std::unique_ptr<ManifestBuilder> builder);
  // Opened already, or on disk, or with a ready peer; kNotFound when no peer has it.
  [[nodiscard]] Task<Result<std::shared_ptr<Dataset>>> open(Sha256Digest digest);
  // A mount that has it goes on with its dataset, and is given the locations of it again when the
  // same manifest is opened again.
  [[nodiscard]] Task<Status> remove(Sha256Digest digest);
  // Opens all that are on disk; bad ones are removed and logged.
  [[nodiscard]] Task<std::vector<std::shared_ptr<Dataset>>> list();
  // Ends all waiting for locations, now and later.
  void close();
  // Any thread. All that are open.
  [[nodiscard]] std::vector<std::shared_ptr<Dataset>> opened();
  // Any thread: only what is open. The dataset of this id with the manifest; add(), open() and
  // list() give the one without an id.
  [[nodiscard]] std::shared_ptr<Dataset> find(const Sha256Digest& digest,
                                              const std::string& dataset = {});
  // Any thread. As find(), but also of a removed manifest, when the dataset is still in use.
  [[nodiscard]] std::shared_ptr<Dataset> findUsed(const Sha256Digest& digest,
                                                  const std::string& dataset);

 private:
  // Of what makes, opens or removes the file of one manifest: one at a time, for as long as this
  // lives.
  class Turn;
  [[nodiscard]] Task<std::unique_ptr<Turn>> turn(Sha256Digest digest);
  [[nodiscard]] std::string path(const Sha256Digest& digest) const;
  // The digest is computed as well.
  [[nodiscard]] Task<Result<std::shared_ptr<const Manifest>>> parse(
      const std::vector<std::byte>& bytes);
  // `manifest`: parsed from `bytes`.
  [[nodiscard]] Task<Result<std::shared_ptr<Dataset>>> store(
      std::shared_ptr<const Manifest> manifest, std::vector<std::byte> bytes);
  // In its turn, both.
  [[nodiscard]] Task<Result<std::shared_ptr<Dataset>>> openLocal(Sha256Digest digest);
  [[nodiscard]] Task<Status> write(const Sha256Digest& digest, std::span<const std::byte> bytes);
  void sweep();
  // Under mutex_, both. All that are open, and those of removed manifests.
  [[nodiscard]] std::vector<std::shared_ptr<Dataset>> allUsed() const;
  void forget(const Sha256Digest& digest);
  std::shared_ptr<Dataset> remember(std::shared_ptr<const Manifest> manifest);

  const ManifestPorts ports_;
  std::mutex mutex_;
  // By id; the one without an id is always among them.
  using Datasets = std::map<std::string, std::shared_ptr<Dataset>>;
  std::map<Sha256Digest, Datasets> open_;
  // Of removed manifests: those that are still in use, with their ids.
  std::map<Sha256Digest, std::map<std::string, std::weak_ptr<Dataset>>> former_;
  std::optional<Error> closed_;
  std::map<Sha256Digest, std::shared_ptr<Event>> turns_;
  Reactor::Timer sweeping_;
};

}  // namespace hearth
