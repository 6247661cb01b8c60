// Passes open files to clients of this node, over a Unix stream socket, by the frames of
// docs/wire-protocol.md. A client (local_link.h) proves its token in the usual handshake and then
// sends control requests, one at a time; an answer may bring a descriptor (SCM_RIGHTS). A Cancel
// frame with the number of a request gives its descriptor back, as the end of the connection gives
// back all; a file that the client has open nevertheless counts as before until it is closed. On
// the reactor's thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/owned_fd.h"
#include "base/result.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/client_shares.h"
#include "transport/peer_transport.h"
#include "wire/capability.h"
#include "wire/revoked_tokens.h"

namespace hearth {

// A file that a client is passed: it stays in the cache as long as this lives.
class PassedFile {
 public:
  virtual ~PassedFile() = default;
  // False once no process has the descriptor, or a copy or mapping of it, any more. May continue on
  // another thread.
  [[nodiscard]] virtual Task<bool> isOpen() = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;  // bytes
};

// An agent's answer to a client of its node.
struct LocalAnswer {
  ControlMessage message;
  OwnedFd descriptor;  // passed and then closed here; may be none
  // Of the descriptor. Lives until the client has given it back, or its connection has ended, and
  // the file is not open any more.
  std::shared_ptr<PassedFile> file;
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
  ClientLimits openBytes;  // of files that clients have open at a time
  // A client that does not take its answer within that time loses its connection.
  Clock::duration sendTimeout = std::chrono::seconds(5);
};

class LocalServer {
 public:
  // Descriptors that one connection may have at a time.
  static constexpr std::size_t kMaxFiles = 1024;
  // Connections and descriptors of all clients; see ClientLimits::shared().
  static constexpr std::size_t kMaxConnections = 1024;
  static constexpr std::size_t kMaxFilesInAll = std::size_t{16} * kMaxFiles;

  // Makes the folder of the path where it is missing. Replaces a socket at the path: the caller
  // owns the path. Anybody who reaches the path may connect; tokens decide about more. Errors:
  // kInvalidArgument for a path that is empty or longer than 90 bytes, those of bind(2). `reactor`
  // and `handler` must remain live while the result is used.
  [[nodiscard]] static Result<std::unique_ptr<LocalServer>> listen(Reactor& reactor,
                                                                   LocalServerOptions options,
                                                                   LocalHandler& handler);
  virtual ~LocalServer() = default;  // after close()

  // Refuses these tokens from now on, and ends the connections of their clients. On the reactor's
  // thread.
  virtual void setRevoked(std::shared_ptr<const RevokedTokens> tokens) = 0;
  // Ends all connections, lets go of all files, and removes the socket.
  [[nodiscard]] virtual Task<void> close() = 0;
};

}  // namespace hearth
