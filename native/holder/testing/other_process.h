// Processes and holders that tests make by hand.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <csignal>
#include <string>
#include <utility>

#include "base/owned_fd.h"
#include "holder/holder_socket.h"

namespace hearth::holder_testing {

// Ends a child, and waits until it has gone. Nothing when `child` is 0, as it is afterwards.
inline void endChild(pid_t& child) {
  if (child == 0) return;
  kill(child, SIGKILL);
  waitpid(std::exchange(child, 0), nullptr, 0);
}

// A socket as a holder has it at `path`.
inline OwnedFd listeningAt(const std::string& path) {
  OwnedFd listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const auto address = holderAddress(path);
  EXPECT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  return listener;
}

}  // namespace hearth::holder_testing
