#include "holder/holder_listener.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <thread>

#include "base/clock.h"
#include "holder/holder_socket.h"

namespace hearth {

Result<OwnedFd> lockHolder(const std::string& socketPath, std::chrono::milliseconds timeout) {
  const std::string path = socketPath + ".lock";
  OwnedFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return errnoError(errno, "open " + path);
  const auto until = Clock::now() + timeout;
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (Clock::now() >= until) {
      return Error{ErrorCode::kInUse, "another hearth-holder serves " + socketPath +
                                          "; stop it, give --take-over or choose another --socket"};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return lock;
}

Result<OwnedFd> listenAsHolder(const std::string& socketPath) {
  const auto address = holderAddress(socketPath);
  if (!address) return address.error();
  OwnedFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errnoError(errno, "create a Unix socket");
  // The lock is ours, so whatever lies here was left by a holder that is gone.
  unlink(socketPath.c_str());
  const mode_t before = umask(0177);
  const int bound =
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address);
  const int error = errno;
  umask(before);
  if (bound != 0) return errnoError(error, "bind " + socketPath);
  if (listen(socket.get(), 16) != 0) return errnoError(errno, "listen at " + socketPath);
  return socket;
}

}  // namespace hearth
