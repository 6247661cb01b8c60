// Asking the directory of a key, wherever it is: here, or on another agent.
#pragma once

#include "directory/directory_message.h"
#include "directory/directory_outbox.h"
#include "directory/directory_ports.h"

namespace hearth {

// Of a file, by stripe.
struct HeldElsewhere {
  std::vector<ChunkMask> held;    // by another agent at least
  std::vector<ChunkMask> coming;  // not held yet, and on its way to one
};

class DirectoryClient {
 public:
  // `service`: for the keys of which this agent is the directory; must remain live.
  DirectoryClient(DirectoryPorts ports, DirectoryService& service)
      : ports_(ports), service_(service), outbox_(ports, service) {}

  // Tries the key's directory and then its two stand-ins. When none answers we act alone: what we
  // would fetch is granted, and counted; reading twice from the origin is better than not reading.
  [[nodiscard]] Task<LocateAnswer> locate(ContentKey key, std::uint64_t size, std::uint32_t stripe,
                                          ChunkMask chunks, Intent intent, FailureReport failure);

  [[nodiscard]] const std::string& self() const { return ports_.view->self(); }
  // No agent but this one can be granted chunks now, or wait for them.
  [[nodiscard]] bool alone() const { return ports_.view->alone(); }

  // Ends when `node`, to which the chunk is on its way, has it. Errors: its own, and those
  // of PeerTransport::call.
  [[nodiscard]] Task<Status> awaitChunk(std::string node, ContentKey key, std::uint64_t size,
                                        std::uint32_t chunk, RequestTimeouts timeouts);

  // The chunks of a file on other agents. The client asks each holder named by the directory once
  // more, since the news that a copy is gone may be on its way, or lost. The call changes nothing
  // and promises nothing: copies may go at any time.
  [[nodiscard]] Task<HeldElsewhere> heldElsewhere(ContentKey key, std::uint64_t size);

  // Report to the directory and, when it does not answer, to the stand-in that is then asked. No
  // caller waits, and lost updates cost only a detour.
  void have(const ContentKey& key, std::uint64_t size, std::uint32_t stripe, ChunkMask chunks);
  void giveUp(const ContentKey& key, std::uint64_t size, std::uint32_t stripe, ChunkMask chunks);
  void dropped(const ContentKey& key, std::uint64_t size);

 private:
  void report(DirectoryMessage type, DirectoryRequest request);

  DirectoryPorts ports_;
  DirectoryService& service_;
  DirectoryOutbox outbox_;
};

}  // namespace hearth
