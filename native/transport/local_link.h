// A client's connection to the agent of its own node (local_server.h), which passes open files. On
// the reactor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"
#include "wire/capability.h"
#include "wire/frame.h"

namespace hearth {

struct LocalLinkOptions {
  std::string path;    // the agent's socket
  std::string client;  // the client's name
  std::string cluster;
  CapabilityToken token;
  Clock::duration timeout = std::chrono::seconds(3);  // of the handshake
};

class LocalLink : public std::enable_shared_from_this<LocalLink> {
 public:
  struct Answer {
    ControlMessage message;
    OwnedFd descriptor;        // close-on-exec; may be none
    std::uint64_t number = 0;  // for giveBack()
  };

  // Calls `ended` once, when the connection has ended for any reason. The link's coroutines are in
  // `gate`; call end() before `gate` and `reactor` go. kNotFound: nobody listens at the path;
  // kUnauthenticated: the agent or the token is of another cluster; kUnavailable.
  [[nodiscard]] static Task<Result<std::shared_ptr<LocalLink>>> dial(Reactor& reactor, Gate& gate,
                                                                     LocalLinkOptions options,
                                                                     std::function<void()> ended);
  LocalLink(const LocalLink&) = delete;
  LocalLink& operator=(const LocalLink&) = delete;

  // The agent's answer or error. kUnavailable: the connection has ended, as it does when no answer
  // has come by `deadline`.
  [[nodiscard]] Task<Result<Answer>> ask(ControlMessage request, Clock::time_point deadline);
  // Tells the agent that the descriptor of that answer is closed, or will be soon.
  void giveBack(std::uint64_t number);
  void end();

 private:
  LocalLink(Reactor& reactor, OwnedFd socket, std::function<void()> ended);
  static Task<void> watch(std::shared_ptr<LocalLink> link);
  [[nodiscard]] Task<Result<Answer>> askInTurn(ControlMessage request, Clock::time_point deadline);
  struct Received {
    ControlAnswer answer;
    OwnedFd descriptor;
  };
  [[nodiscard]] Task<Result<Received>> exchange(std::vector<std::byte> request,
                                                std::uint64_t number);
  void sayGivenBack();
  // Fills `into`; a descriptor that comes with the bytes goes into `descriptor`.
  [[nodiscard]] Task<Status> receiveAll(std::span<std::byte> into, OwnedFd& descriptor);

  Reactor& reactor_;
  const OwnedFd socket_;
  const OwnedFd watched_;  // the same socket: not every reactor polls one that it receives from
  const std::function<void()> ended_;
  Semaphore turn_;
  bool asking_ = false;
  std::vector<std::uint64_t> givenBack_;  // to be said between two requests
  std::uint64_t lastNumber_ = 0;
};

}  // namespace hearth
