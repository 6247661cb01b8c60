// The TCP connection over which both sides of a measurement arrange it: lines of at most 1024
// bytes. Nobody is authenticated; a peer can make the other side measure, and write into the memory
// that the other side has set apart for the measurement. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth::rdma_bench {

class Control {
 public:
  explicit Control(OwnedFd socket) : socket_(std::move(socket)) {}

  // Connects to "host:port" or "[address]:port". Blocks as long as the kernel tries.
  [[nodiscard]] static Result<std::unique_ptr<Control>> connect(const std::string& address);

  [[nodiscard]] Status send(std::string line);
  // The next line without its end; none: there is none yet. kUnavailable: the other side has closed
  // the connection.
  [[nodiscard]] Result<std::optional<std::string>> received();
  // Waits for a line.
  [[nodiscard]] Result<std::string> receive();
  // Readable when received() may have a line.
  [[nodiscard]] int descriptor() const { return socket_.get(); }

 private:
  OwnedFd socket_;
  std::string text_;  // that has come, and no call has returned
};

class Listener {
 public:
  // On "host:port"; port 0 takes a free one. kInvalidArgument, kInUse, kPermissionDenied.
  [[nodiscard]] static Result<std::unique_ptr<Listener>> bind(const std::string& address);
  // Blocks until a client connects.
  [[nodiscard]] Result<std::unique_ptr<Control>> accept();
  // "10.0.0.7:18600", as it was taken.
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  explicit Listener(OwnedFd socket) : socket_(std::move(socket)) {}
  OwnedFd socket_;
  std::string address_;
};

}  // namespace hearth::rdma_bench
