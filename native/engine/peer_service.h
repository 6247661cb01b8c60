// What this agent does for its peers on one shard: reads of keys that it holds or wants, manifests,
// and the control messages of the key directory.
#pragma once

#include "engine/shard.h"
#include "transport/peer_transport.h"

namespace hearth {

class PeerService final : public PeerHandler {
 public:
  explicit PeerService(Shard& shard) : shard_(shard) {}

  // kTryElsewhere when the chunk is not here: what is on its way is awaited by a control message.
  Task<Result<BytesAnswer>> onRead(std::string fromNode, ContentKey key, std::uint64_t offset,
                                   std::uint32_t length, Clock::time_point deadline) override;
  Task<Result<BytesAnswer>> onReadManifest(std::string fromNode, Sha256Digest digest,
                                           std::uint64_t offset, std::uint32_t length) override;
  Task<Result<ControlMessage>> onControl(std::string fromNode, ControlMessage request) override;

 private:
  // `answering`: the connection's.
  static Task<Result<BytesAnswer>> readHere(Shard& owner, Reactor& answering, ContentKey key,
                                            std::uint64_t offset, std::uint32_t length);
  static Task<Result<ControlMessage>> controlHere(Shard& owner, std::string fromNode,
                                                  ControlMessage request);

  Shard& shard_;
};

}  // namespace hearth
