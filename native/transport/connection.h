// One authenticated connection: a coroutine that reads frames, one that sends them, and a probe
// that notices when the other side no longer answers. Connections are one-way: the dialler asks
// (client_connection.h), the acceptor answers (server_connection.h). On the reactor's thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/frame_reader.h"
#include "transport/limits.h"
#include "transport/peer_transport.h"
#include "transport/send_pace.h"
#include "transport/send_queue.h"
#include "transport/socket.h"

namespace hearth {

// The parts of a connection after the handshake.
struct Channel {
  Socket socket;
  FrameReader reader;                       // of that socket; may already hold frames
  std::shared_ptr<PeerStatistics> account;  // of the node at the other side
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Starts the coroutines in the gate; they keep the connection until they end.
  void start();
  [[nodiscard]] bool alive() const { return alive_; }
  // Why the connection ended; valid once it has.
  [[nodiscard]] const Error& failure() const { return failure_; }
  // Ends the connection now; pending requests fail with `reason`. Does nothing the second time.
  void fail(Error reason);
  // The same, after a Goodbye with the reason if nothing else is being sent.
  void part(Error reason);

 protected:
  // `reactor` and `gate` must remain live while this object is used.
  Connection(Reactor& reactor, Gate& gate, Channel channel, Clock::duration probeInterval);

  // Takes a frame of this role. True: a payload follows. An error ends the connection.
  [[nodiscard]] virtual Result<bool> onFrame(const Frame& frame) = 0;
  // Receives the payload that onFrame announced.
  [[nodiscard]] virtual Task<Status> onPayload() = 0;
  // Called once, at the first failure.
  virtual void onEnd() = 0;
  // Called once, when the reader uses no caller's memory any more.
  virtual void onReaderEnd() = 0;
  // Called just before an item with a request id is sent.
  virtual void onSending(const SendQueue::Item& item) = 0;

  // Called when the queue has let go of the payload of an item that has a request id and is not
  // lent.
  virtual void onSent(const SendQueue::Item&) {}

  // Receives [offset, offset + size) of `memory`, from the start of a block to the end of one or of
  // the payload, and compares each block with its checksum. `intact`: kCorrupt when one differs,
  // kInvalidArgument when memory is not there. A returned error ends the connection.
  [[nodiscard]] Task<Status> receiveBlocks(const MemoryVector& memory, std::uint64_t offset,
                                           std::size_t size,
                                           std::span<const std::uint32_t> checksums,
                                           Status& intact);
  // CRC32C of a part of host memory.
  [[nodiscard]] static std::uint32_t blockChecksum(const MemoryVector& memory, std::uint64_t offset,
                                                   std::size_t size);
  [[nodiscard]] TcpProgress tcp() const { return tcpProgress(socket_.fd()); }
  // From now on the connection ends when the other side takes its answers more slowly.
  void expectPace(const SendPace& pace) { pace_.emplace(pace); }
  // The size of slices to be sent from now on.
  [[nodiscard]] std::uint32_t sliceBytes();

  Reactor& reactor_;
  Gate& gate_;
  FrameReader reader_;
  SendQueue queue_;
  std::shared_ptr<PeerStatistics> account_;

 private:
  static Task<void> readFrames(std::shared_ptr<Connection> self);
  static Task<void> sendFrames(std::shared_ptr<Connection> self);
  [[nodiscard]] Result<bool> take(const Frame& frame);
  void probe();
  void coroutineEnded();
  void count();

  Socket socket_;
  Clock::duration probeInterval_;
  Reactor::Timer probeTimer_;
  TcpProgress progress_;
  std::uint32_t sliceBytes_ = kSliceToSendBytes;
  std::optional<SendPace> pace_;
  int silentProbes_ = 0;  // probes in a row since when nothing has moved
  int stuckProbes_ = 0;   // probes in a row since when nothing was taken of what is to be sent
  int coroutines_ = 0;
  std::uint64_t countedIn_ = 0, countedOut_ = 0;
  bool alive_ = true;
  Error failure_;
};

}  // namespace hearth
