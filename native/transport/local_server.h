// Passes open files to clients of this node, over a Unix stream socket, by the frames of
// docs/wire-protocol.md. A client (local_link.h) proves its token in the usual handshake and then
// sends control requests, one at a time; an answer may bring a descriptor (SCM_RIGHTS). A Cancel
// frame with the number of a request gives its descriptor back. On the reactor's thread.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"
#include "wire/capability.h"

namespace hearth {

// An agent's answer to a client of its node.
struct LocalAnswer {
  ControlMessage message;
  OwnedFd descriptor;  // passed and then closed here; may be none
  // Lives until the client gives the descriptor back, or its connection ends.
  std::shared_ptr<const void> keep;
};

class LocalHandler {
 public:
  virtual ~LocalHandler() = default;
  // May continue on another thread. `client` has not expired.
  virtual Task<Result<LocalAnswer>> onLocalRequest(std::shared_ptr<const Capability> client,
                                                   ControlMessage request) = 0;
};

struct LocalServerOptions {
  std::string path;  // of the socket
  std::string node, incarnation, cluster;
  std::vector<std::byte> secret;
};

class LocalServer {
 public:
  // Descriptors that one connection may have at a time; connections, in all.
  static constexpr std::size_t kMaxKept = 1024;
  static constexpr std::size_t kMaxConnections = 1024;

  // Makes the folder of the path where it is missing. Replaces a socket at the path: the caller
  // owns the path. Anybody who reaches the path may connect; tokens decide about more. Errors:
  // kInvalidArgument for a path that is empty or longer than 90 bytes, those of bind(2). `reactor`
  // and `handler` must remain live while the result is used.
  [[nodiscard]] static Result<std::unique_ptr<LocalServer>> listen(Reactor& reactor,
                                                                   LocalServerOptions options,
                                                                   LocalHandler& handler);
  virtual ~LocalServer() = default;  // after close()

  // Ends all connections, lets go of everything that they keep, and removes the socket.
  [[nodiscard]] virtual Task<void> close() = 0;
};

}  // namespace hearth
