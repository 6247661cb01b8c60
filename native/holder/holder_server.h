// The holder's socket: accepts clients, decodes their requests and answers each with one message.
// One thread runs it and does all the work; nothing in it waits for a client or for a FUSE server.
// A path that a request names may lead through a file system that hangs: a child process walks it
// while others are served, and the request is answered when that has come to its end.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "holder/child_call.h"
#include "holder/held_mounts.h"
#include "holder/holder_calls.h"
#include "holder/holder_listener.h"
#include "holder/holder_protocol.h"

namespace hearth {

struct HolderOptions {
  std::string socketPath;
  std::chrono::seconds agentAbsence{900};
  // Of a walk of a path, and of a call of mount(2) or umount(2).
  std::chrono::milliseconds callDeadline{5000};
  // Folder of a cluster on this node; empty: none. What is mounted below its mounts/ goes with the
  // holder, and the folder of the socket, when it lies below, is closed to others.
  std::string volumes;
  // Take the place of a holder that serves the socket, with all that it has.
  bool takeOver = false;
  // When the holder is to end, agents that are attached get this long to end too; then their mounts
  // stay as they are, for the agents to give to the next holder.
  std::chrono::milliseconds endTimeout{0};
  // A successor takes everything within this, or nothing.
  std::chrono::milliseconds handOverTimeout{10'000};
  // So large may all memory together be that this holder touches for agents; 0: none.
  std::uint64_t touchBytes = 0;
  std::string release;  // of this program, for people
  // Lines for people, without a newline.
  std::function<void(const std::string&)> log = [](const std::string&) {};
};

class HolderServer {
 public:
  // Binds the socket (mode 0600; the folder must exist). kInUse when another holder answers there.
  [[nodiscard]] static Result<std::unique_ptr<HolderServer>> create(HolderOptions options);
  // Removes the socket. Mounts that are left lose their descriptors, which ends them.
  ~HolderServer();

  // Serves until stop(), then detaches every mount that no agent serves, and when no agent is
  // attached also what agents have left below `volumes`. Or until another holder has taken over.
  void run();
  // Any thread, and async-signal-safe.
  void stop();

 private:
  // A request whose path is being walked, or whose memory is being touched, by a child process. Its
  // client is asked for nothing else meanwhile.
  struct Walked {
    HolderRequest request;
    std::vector<OwnedFd> descriptors;
    ChildCalls::Running walk;
  };
  struct Client {
    OwnedFd socket;
    pid_t pid = 0;
    uid_t user = 0;
    gid_t group = 0;
    OwnedFd process;
    std::optional<Walked> walked;
  };
  // The descriptors of poll(), in the same order.
  struct Waited {
    HolderConnection id = 0;
    bool walk = false;  // for the end of its walk; else for the client
  };

  explicit HolderServer(HolderOptions options);
  [[nodiscard]] Status listenOrTakeOver();
  [[nodiscard]] bool mayAccept() const;
  void acceptClient();
  // Answers whoever has asked, for as long as the descriptors that are waited for say. False when
  // the server is to end.
  [[nodiscard]] bool serveOnce();
  void waitForClient(HolderConnection id, const Client& client, std::vector<pollfd>& waiting,
                     std::vector<Waited>& waited) const;
  // `events` of what was waited for.
  void serveClient(Waited waited, short events);
  // Closes it; what it was the agent of has none any more.
  void endClient(HolderConnection id);
  // These are false when the client is to be closed.
  [[nodiscard]] bool serve(HolderConnection id, Client& client);
  [[nodiscard]] bool serveWalked(HolderConnection id, Client& client);
  [[nodiscard]] bool reply(HolderConnection id, const Client& client, const HolderRequest& request,
                           std::vector<OwnedFd> descriptors);
  // True when a child has to walk the path of the request first, or to touch memory.
  [[nodiscard]] bool needsWalk(const HolderRequest& request) const;
  [[nodiscard]] Result<ChildCalls::Running> begin(HolderConnection id, const HolderRequest& request,
                                                  const std::vector<OwnedFd>& descriptors);
  [[nodiscard]] static bool touches(const HolderRequest& request);
  [[nodiscard]] bool serveTouched(const Client& client, Walked touched);
  [[nodiscard]] static bool send(const Client& client, const HolderAnswer& answer);
  [[nodiscard]] HolderAnswer answer(const HolderCaller& caller, const HolderRequest& request,
                                    std::vector<OwnedFd> descriptors);
  // kInvalidArgument when the hand-over that goes on or ends has not begun on this connection.
  [[nodiscard]] Status noteHandOver(HolderConnection id, const HolderRequest& request);
  [[nodiscard]] static bool finishesHandOver(const HolderRequest& request,
                                             const HolderAnswer& answer);
  void releaseMounts();
  // Fails every request that waits for a walk.
  void endWalks();
  void detachAll();
  [[nodiscard]] int pollTimeoutMs() const;

  HolderOptions options_;
  HeldMounts mounts_;
  HolderCalls calls_;
  HolderListener listener_;
  OwnedFd wakeup_;
  std::map<HolderConnection, Client> clients_;
  HolderConnection lastConnection_ = 0;
  // The holder that takes over now, and until when it may; no other is answered. 0: none.
  HolderConnection successor_ = 0;
  HeldMounts::Time successorUntil_;
  bool handedOver_ = false;
  // When a client is let in again, after one could not be; nothing while they can.
  std::optional<HeldMounts::Time> acceptsAt_;
  std::optional<HeldMounts::Time> endsAt_;  // after stop()
};

}  // namespace hearth
