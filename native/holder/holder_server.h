// The holder's socket: accepts clients, decodes their requests and answers each with one message.
// One thread runs it and does all the work; nothing in it waits for a client or for a FUSE server.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "holder/held_mounts.h"
#include "holder/owned_fd.h"

namespace hearth {

struct HolderOptions {
  std::string socketPath;
  std::chrono::seconds agentAbsence{900};
  // Folder of a cluster on this node; empty: none. What is mounted below its mounts/ goes with the
  // holder, and the folder of the socket, when it lies below, is closed to others.
  std::string volumes;
  // Lines for people, without a newline.
  std::function<void(const std::string&)> log = [](const std::string&) {};
};

class HolderServer {
 public:
  // Binds the socket (mode 0600; the folder must exist). kInUse when another holder answers there.
  [[nodiscard]] static Result<std::unique_ptr<HolderServer>> create(HolderOptions options);
  // Removes the socket. Mounts that are left lose their descriptors, which ends them.
  ~HolderServer();

  // Serves until stop(), then detaches every mount, also those that agents have left below
  // `volumes`.
  void run();
  // Any thread, and async-signal-safe.
  void stop();

 private:
  struct Client {
    OwnedFd socket;
    pid_t pid = 0;
  };

  explicit HolderServer(HolderOptions options);
  void acceptClient();
  // False when the client is to be closed.
  [[nodiscard]] bool serve(HolderConnection id, Client& client);
  [[nodiscard]] HolderReply answer(HolderConnection id, const Client& client,
                                   const HolderRequest& request,
                                   const HeldMounts::Mount*& descriptors);
  [[nodiscard]] static bool send(const Client& client, const HolderReply& reply,
                                 const HeldMounts::Mount* descriptors);
  [[nodiscard]] int pollTimeoutMs() const;

  HolderOptions options_;
  HeldMounts mounts_;
  OwnedFd lock_;
  OwnedFd listener_;
  OwnedFd wakeup_;
  std::map<HolderConnection, Client> clients_;
  HolderConnection lastConnection_ = 0;
};

}  // namespace hearth
