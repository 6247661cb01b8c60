// Serves peers on one shard: reads of keys that this agent holds or wants, manifests, and the
// control messages of the key directory.
#pragma once

#include <map>
#include <memory>

#include "engine/shard.h"
#include "engine/small_reads.h"
#include "manifest/manifest.h"
#include "transport/peer_transport.h"
#include "wire/client_message.h"
#include "wire/object_message.h"

namespace hearth {

class PeerService final : public PeerHandler {
 public:
  // `shard` must remain live while this object is used.
  explicit PeerService(Shard& shard);
  ~PeerService() override;
  PeerService(const PeerService&) = delete;
  PeerService& operator=(const PeerService&) = delete;

  // kTryElsewhere when the chunk is not here: a control message awaits a chunk on its way. Waits
  // for the node's limits before it uses memory. Each request waits by itself, so that control
  // messages and other answers pass it.
  Task<Result<BytesAnswer>> onRead(std::string fromNode, ContentKey key, std::uint64_t offset,
                                   std::uint32_t length, Interest interest) override;
  Task<Result<BytesAnswer>> onReadManifest(std::string fromNode, Sha256Digest digest,
                                           std::uint64_t offset, std::uint32_t length) override;
  Task<Result<ControlMessage>> onControl(std::string fromNode, ControlMessage request) override;
  // Reads a file that the client has resolved, for the whole cluster: bytes that are not here are
  // read from the agents that hold them, or fetched. All answers to clients wait for one limit. In
  // client_requests.cc, with onClientControl().
  Task<Result<BytesAnswer>> onClientRead(std::shared_ptr<const Capability> client, ContentKey key,
                                         std::uint64_t offset, std::uint32_t length,
                                         Interest interest) override;
  Task<Result<ControlMessage>> onClientControl(std::shared_ptr<const Capability> client,
                                               ControlMessage request, Interest interest) override;
  // A part of a range of a volume's file, into memory that counts as answers to the client do. In
  // client_volume_requests.cc.
  Task<Result<std::unique_ptr<WriteSink>>> onClientWrite(std::shared_ptr<const Capability> client,
                                                         WriteRequest request,
                                                         Interest interest) override;

  // On the shard's thread, for files that this shard owns.
  [[nodiscard]] SmallReads& smallReads() { return smallReads_; }

 private:
  // A manifest that peers read, shared by all reads at a time.
  struct Reading;
  // For a digest that this shard owns; on its thread.
  [[nodiscard]] Task<std::shared_ptr<Reading>> openManifest(Sha256Digest digest);
  // `answering`: the reactor of the connection.
  static Task<Result<BytesAnswer>> readHere(Shard& owner, Reactor& answering, ContentKey key,
                                            std::uint64_t offset, std::uint32_t length,
                                            Interest interest);
  // Of a published session file that is not sealed yet.
  static Task<Result<BytesAnswer>> readUnsealed(Shard& owner,
                                                std::shared_ptr<const PublishedFile> file,
                                                std::uint64_t offset, std::uint32_t length);
  // Null: the chunk stays on the disk alone.
  static Task<std::shared_ptr<LoadedChunk>> loadChunk(Shard& owner,
                                                      std::shared_ptr<CachedFile> file,
                                                      std::uint32_t chunk,
                                                      const Interest& interest);
  // False: the asker left before the limit let it pass.
  static Task<bool> earn(Reactor& reactor, BandwidthAllowance& allowance, std::uint64_t bytes,
                         const Interest& interest);
  // Takes several updates at once, for any shards.
  Task<Result<ControlMessage>> onUpdates(std::string fromNode, ControlMessage message);
  // Reads the range from the cluster, into memory of the answer's own.
  static Task<Result<BytesAnswer>> readOfCluster(Shard& owner, FileReference file,
                                                 std::uint64_t offset, std::uint32_t length);
  [[nodiscard]] Task<Result<ControlMessage>> resolve(std::shared_ptr<const Capability> client,
                                                     ControlMessage request);
  // The messages about files of volumes alone: client_volume_requests.cc.
  [[nodiscard]] Task<Result<ControlMessage>> onVolumeControl(
      std::shared_ptr<const Capability> client, ControlMessage request, Interest interest);
  // The messages about objects alone: client_object_requests.cc.
  [[nodiscard]] Task<Result<ControlMessage>> onObjectControl(
      std::shared_ptr<const Capability> client, ControlMessage request, Interest interest);
  // With a small value inside, where this agent can read it.
  [[nodiscard]] Task<Result<GetReply>> getObject(std::shared_ptr<const Capability> client,
                                                 const ControlMessage& request, Interest interest);
  [[nodiscard]] Task<Status> endWrite(const Capability& client, const ControlMessage& request,
                                      Interest interest);
  [[nodiscard]] Result<ControlMessage> list(const Capability& client,
                                            const ControlMessage& request);
  [[nodiscard]] Task<Result<ControlMessage>> advise(const Capability& client,
                                                    ControlMessage request);
  // Passes the advice on to all other ready agents. Returns the last error.
  [[nodiscard]] Task<Status> passOn(AdviseRequest advice);
  static Task<void> passOnTo(Shard& shard, std::string node, ControlMessage message,
                             Clock::time_point deadline, Status& outcome);
  // Takes advice of a client that another agent has checked and passes on.
  [[nodiscard]] Result<ControlMessage> adviseHere(const std::string& fromNode,
                                                  const ControlMessage& request);
  static Task<Result<ControlMessage>> controlHere(Shard& owner, std::string fromNode,
                                                  ControlMessage request);

  Shard& shard_;
  SmallReads smallReads_;
  std::map<Sha256Digest, std::weak_ptr<Reading>> reading_;
};

}  // namespace hearth
