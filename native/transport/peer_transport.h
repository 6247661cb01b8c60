// The transport interface by which agents talk to agents over the wire protocol (wire/frame.h,
// docs/wire-protocol.md), with its TCP implementation. Connections are sharded: a PeerTransport
// serves one shard and is used on its thread only; a connection's preface names the dialling shard,
// and the listener hands the connection to the same shard number modulo its own count, so that with
// equal counts a key stays on one shard at both ends.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/content_key.h"
#include "base/result.h"
#include "base/sha256.h"
#include "memory/memory_vector.h"
#include "reactor/reactor.h"
#include "transport/rail_statistics.h"
#include "wire/capability.h"
#include "wire/frame.h"
#include "wire/revoked_tokens.h"

namespace hearth {

class RdmaDevice;

struct PeerAddress {
  std::string host;  // IP address
  std::uint16_t port = 0;
  auto operator<=>(const PeerAddress&) const = default;
};

struct PeerIdentity {
  std::string node;
  // Empty: any agent of the cluster that answers at the addresses; for clients.
  std::string incarnation;
  std::vector<PeerAddress> addresses;  // one a NIC
};

// How long a request waits for its answer.
struct RequestTimeouts {
  // NOLINTNEXTLINE(google-explicit-constructor): a deadline alone is the usual case.
  RequestTimeouts(Clock::time_point until) : deadline(until) {}
  RequestTimeouts(Clock::time_point until, Clock::duration longestSilence)
      : deadline(until), silence(longestSilence) {}

  Clock::time_point deadline;
  // The request ends with kDeadlineExceeded when not one byte has come on its connection for so
  // long, not even in answer to a probe; later requests with the same timeouts then end at once,
  // until a byte comes. A request waits for a transfer that moves, however slowly.
  Clock::duration silence = Clock::duration::max();
};

// Bytes of an answer in memory that its owner may need before they are sent, so that a slow reader
// does not hold the memory. The bytes then come from somewhere else.
class LentPayload {
 public:
  virtual ~LentPayload() = default;
  // Valid as long as `keep`. The transport holds `keep` for one system call, or while an RDMA
  // device reads the bytes, which it bounds in number for each peer (held_slots.h) and in time
  // (TransportOptions::rdmaHold).
  struct Piece {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> keep;
  };
  // All of the payload; empty: call load() first. Any thread.
  [[nodiscard]] virtual Piece now() = 0;
  // Brings the same bytes, verified, to where they may stay. On the connection's thread. An error:
  // they can no longer be had.
  [[nodiscard]] virtual Task<Status> load() = 0;
  // Gives the memory back. Any thread.
  virtual void release() = 0;
};

// A handler's answer of bytes; `keep` owns the memory until they are sent. If `lent` is set only
// the size of `bytes` counts.
struct BytesAnswer {
  std::span<const std::byte> bytes;
  std::vector<std::uint32_t> blockChecksums;  // CRC32C of every 64 KiB from the start of `bytes`
  std::shared_ptr<const void> keep;
  std::shared_ptr<LentPayload> lent = nullptr;
};

// Small request and answer bodies of the key directory and other control calls: opaque here,
// encoded by the room that owns them. `type` is from wire/frame.h's table.
struct ControlMessage {
  std::uint16_t type = 0;
  std::vector<std::byte> body;
};

// Tells a handler whether the asker still waits for the answer, and how urgently. The interest ends
// when the asker cancels, its connection ends, or its timeout is over. Copies share one state. Any
// thread.
class Interest {
 public:
  explicit Interest(Clock::time_point until = Clock::time_point::max(),
                    RequestClass requestClass = RequestClass::kDemand)
      : until_(until), class_(requestClass) {}
  [[nodiscard]] RequestClass requestClass() const { return class_; }
  // The end of the asker's timeout.
  [[nodiscard]] Clock::time_point until() const { return until_; }
  [[nodiscard]] bool lives() const { return !*ended_ && Clock::now() < until_; }
  void end() const { *ended_ = true; }

 private:
  Clock::time_point until_;
  RequestClass class_;
  std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
};

// Orders writes to the same bytes: the greater one is newer, in whatever order they come. Nodes
// should not write different bytes with equal generations; when two do, the bytes of the node with
// the greater name stay (byte by byte), on every agent that takes them.
struct WriteVersion {
  std::uint64_t generation = 0;
  std::string node;  // the writer
  auto operator<=>(const WriteVersion&) const = default;
};

// A handler's memory for one write of a peer. The transport destroys it, on the connection's
// thread, when it no longer touches the memory. Without a call of landed() the write has failed,
// and any of the memory may have been written to.
class WriteSink {
 public:
  virtual ~WriteSink() = default;
  // As large as the write; the transport writes into it until landed(), or the end.
  [[nodiscard]] virtual const MemoryVector& memory() const = 0;
  // All bytes are there and match `blockChecksums`, the CRC32C of every 64 KiB. Called at most
  // once. The status is the peer's answer; kUnavailable stands for errors that another try may
  // mend.
  [[nodiscard]] virtual Task<Status> landed(std::vector<std::uint32_t> blockChecksums) = 0;
};

// This agent's answers to others. Called on the shard of the connection; may continue on another
// thread. A coroutine may outlive its connection; its answer is then dropped. It counts for its
// node until it ends, so that no node has more under way by ending connections.
class PeerHandler {
 public:
  virtual ~PeerHandler() = default;
  // Reads a range inside one chunk that starts on a block. Long work need not begin when the
  // interest has ended; any answer will do then.
  virtual Task<Result<BytesAnswer>> onRead(std::string fromNode, ContentKey key,
                                           std::uint64_t offset, std::uint32_t length,
                                           Interest interest) = 0;
  // Reads a manifest by its digest. Fewer bytes than asked: the manifest ends there; none: it ends
  // before `offset`.
  virtual Task<Result<BytesAnswer>> onReadManifest(std::string fromNode, Sha256Digest digest,
                                                   std::uint64_t offset, std::uint32_t length) = 0;
  virtual Task<Result<ControlMessage>> onControl(std::string fromNode, ControlMessage request) = 0;
  // The same for a client, which is no agent and has proved a capability that has not expired. Only
  // these three calls of a client reach a handler.
  virtual Task<Result<BytesAnswer>> onClientRead(std::shared_ptr<const Capability> /*client*/,
                                                 ContentKey /*key*/, std::uint64_t /*offset*/,
                                                 std::uint32_t /*length*/, Interest /*interest*/) {
    co_return Error{ErrorCode::kUnsupported, "clients are not served here"};
  }
  virtual Task<Result<ControlMessage>> onClientControl(std::shared_ptr<const Capability> /*client*/,
                                                       ControlMessage /*request*/,
                                                       Interest /*interest*/) {
    co_return Error{ErrorCode::kUnsupported, "clients are not served here"};
  }
  // As onWrite(); the request's key is a ticket (wire/client_message.h).
  virtual Task<Result<std::unique_ptr<WriteSink>>> onClientWrite(
      std::shared_ptr<const Capability> /*client*/, WriteRequest /*request*/,
      Interest /*interest*/) {
    co_return Error{ErrorCode::kUnsupported, "clients write nothing here"};
  }
  // Returns memory for a write. The handler may wait for it: no byte is sent before, and nothing
  // else waits meanwhile. Of overlapping writes the transport lets only the newer one go on
  // (write_order.h); the same write may come again, with the same generation and bytes. The handler
  // refuses a write that is older (WriteVersion) than bytes which have landed, with kConflict.
  virtual Task<Result<std::unique_ptr<WriteSink>>> onWrite(std::string /*fromNode*/,
                                                           WriteRequest /*request*/,
                                                           Interest /*interest*/) {
    co_return Error{ErrorCode::kUnsupported, "this agent takes no writes"};
  }
};

struct TransportOptions {
  std::string node, incarnation, cluster;
  std::vector<std::byte> secret;  // proved by HMAC-SHA-256 over both nonces, in both directions
  // For a client, which has no secret and accepts no connections: returns its token. Called on the
  // reactor's thread before each connection.
  std::function<Result<CapabilityToken>()> token;
  WireOffer offer;                      // tests offer less
  std::uint32_t shard = 0, shards = 1;  // ours
  // Streams of this shard for payloads; more if the peer has more addresses. Control messages have
  // one stream more.
  std::uint32_t streamsPerPeer = 1;
  std::uint32_t creditBytes =
      64u << 20;  // a peer may have this much requested from us on one connection
  std::uint32_t writeCreditBytes = 16u << 20;  // the same for its writes to us
  Clock::duration connectTimeout = std::chrono::seconds(3);
  Clock::duration idleProbe =
      std::chrono::seconds(5);  // liveness probe; two missed close the connection
  std::uint64_t openFiles = 0;  // of this process; 0: as RLIMIT_NOFILE says
  // IP addresses of this host that connections come from, in turn, where the peer's is of the same
  // family; empty: the kernel chooses.
  std::vector<std::string> localAddresses = {};
  // RDMA ports for reads in both directions where the peer has some, too; each carries reads by its
  // measured bandwidth. The n-th port of an agent meets the n-th port of another, or one of those
  // that it has.
  std::vector<std::shared_ptr<RdmaDevice>> rdma = {};
  // Memory of slots of kChunkBytes that holds most answers. RDMA sends from there, from each region
  // once its owner has registered it with the port.
  std::vector<std::shared_ptr<MemoryRegion>> arena = {};
  // An RDMA endpoint has failed when nothing comes on it for so long, although requests are out and
  // a probe was sent.
  Clock::duration rdmaSilence = std::chrono::milliseconds(100);
  // An RDMA endpoint is closed when its device has finished no answer for so long although some are
  // under way: their memory comes back then, whatever the peer does.
  Clock::duration rdmaHold = std::chrono::seconds(5);
  // An RDMA endpoint that is unused for so long is closed, and made again on use.
  Clock::duration rdmaIdle = std::chrono::minutes(1);
};

struct PeerStatistics {
  // Empty: connections that were turned away before they proved who they are; `requests` is their
  // number, `error` has the address and reason of the last one.
  std::string node;
  bool connected = false;
  std::uint32_t streams = 0;  // that we have dialled for payloads
  // All bytes of the protocol, by direction; requests of either side.
  std::uint64_t bytesReceived = 0, bytesSent = 0, requests = 0;
  // Version of the last connection; 0 before there was one.
  std::uint16_t wireVersion = 0;
  std::uint64_t featuresOff = 0;  // WireFeature that this agent has and the other does not
  std::string error;              // why the last connection failed or ended
  // Slices that moved to another connection because theirs had fallen silent; and how often one
  // had.
  std::uint64_t hedged = 0, paused = 0;
  // Reads over RDMA, in both directions; and failures of endpoints.
  std::uint64_t rdmaRequests = 0, rdmaBytesReceived = 0, rdmaBytesSent = 0, rdmaFailures = 0;
  std::string rdma;       // ports that reads from this peer use: "mlx5_0/1, mlx5_1/1"; empty: none
  std::string rdmaError;  // why there is none now; empty where RDMA is off
  std::vector<RailStatistics> rdmaRails;  // one for each port that this shard uses

  // Adds another shard's counts of the same node.
  void add(const PeerStatistics& other);
  // Sets `rdma` and `rdmaError` from `rdmaRails`.
  void describeRdma();
};

class PeerTransport {
 public:
  // `reactor` and `handler` must remain live while the result is used, until close() has ended.
  [[nodiscard]] static std::unique_ptr<PeerTransport> create(Reactor& reactor,
                                                             TransportOptions options,
                                                             PeerHandler& handler);
  virtual ~PeerTransport() = default;

  // Replaces the set of known peers, and closes connections to peers that are gone.
  virtual void setPeers(std::vector<PeerIdentity> peers) = 0;
  // Refuses these tokens from now on, and ends the connections of their clients.
  virtual void setRevoked(std::shared_ptr<const RevokedTokens> /*tokens*/) {}
  // Any thread. Takes over an accepted, connected socket (from a Listener of any shard) whose
  // preface has been read. Closes the socket when the transport has gone.
  virtual void adopt(int socket) = 0;

  // True: a connection for payloads leads to that agent now, or none is needed. Dials one meanwhile
  // if there is none.
  [[nodiscard]] virtual bool reaches(const std::string& /*node*/) { return true; }
  // True: the agent lives, though it has not answered a call in time: a connection for control
  // messages leads there, and has not been silent for so long.
  [[nodiscard]] virtual bool lives(const std::string& /*node*/, Clock::duration /*silence*/) {
    return true;
  }

  // Fills `into` with [offset, offset + its size) of the key as `node` has it. The range lies
  // inside one chunk and begins on a block. Compares checksums on receipt (kCorrupt) and returns
  // them in `blockChecksums`. Receives straight into `into`; after an error that may go on for as
  // long as its owners live. Tries a slice that fails on another stream or NIC before it returns.
  // kTryElsewhere: that agent does not have the bytes; kUnsupported: no connection to it reaches
  // such memory.
  [[nodiscard]] virtual Task<Status> read(std::string node, ContentKey key, std::uint64_t offset,
                                          MemoryVector into,
                                          std::vector<std::uint32_t>& blockChecksums,
                                          RequestTimeouts timeouts, RequestClass requestClass) = 0;
  // Writes `from` to [offset, offset + its size) of the key at `node`, a range as of a read, as its
  // handler takes it. `generation` orders writes to the same range (WriteVersion); with the same
  // generation the bytes must be the same, as a slice that fails is written again on another stream
  // or NIC before write() returns. `target`: memory of `node`, as it has described it to this
  // agent, which the bytes fill from its beginning; each slice is sent with its part of it. None:
  // the handler knows where the range is. After an error any part may have been written, and the
  // owners of `from` live as long as it is read. kInvalidArgument: `target` is of an unknown kind,
  // or shorter than `from`. kUnsupported, with no byte sent: that agent takes no writes, or no
  // connection to it reaches such memory. kConflict: that agent has newer bytes, or takes newer
  // ones, or takes the same bytes from a later write of this agent; none need have landed.
  // kUnavailable, also: too many writes of this agent wait there; try again later.
  [[nodiscard]] virtual Task<Status> write(std::string node, ContentKey key, std::uint64_t offset,
                                           std::uint64_t generation,
                                           std::optional<MemoryDescriptor> target,
                                           MemoryVector from, RequestTimeouts timeouts,
                                           RequestClass requestClass) = 0;
  [[nodiscard]] virtual Task<Result<std::vector<std::byte>>> readManifest(
      std::string node, Sha256Digest digest, Clock::time_point deadline) = 0;
  [[nodiscard]] virtual Task<Result<ControlMessage>> call(std::string node, ControlMessage request,
                                                          RequestTimeouts timeouts) = 0;
  // Closes all connections, fails pending calls with kCancelled, waits for handlers. Required
  // before destruction.
  [[nodiscard]] virtual Task<void> close() = 0;
  [[nodiscard]] virtual std::vector<PeerStatistics> statistics() const = 0;
  // Why this shard uses that RDMA port of its options for no peer; kOk: it does.
  [[nodiscard]] virtual Status rdmaStatus(const RdmaDevice& /*port*/) const { return {}; }
};

// Makes the transport of one shard, as PeerTransport::create.
using TransportFactory =
    std::function<std::unique_ptr<PeerTransport>(Reactor&, TransportOptions, PeerHandler&)>;

// Accepts at one NIC address on its reactor, reads the preface and hands the socket to
// `adopt(shard, fd)`.
class Listener {
 public:
  // On the reactor's thread, or before it runs. kInUse with advice when the port is taken. Calls
  // `adopt` with shard and socket on this thread; the shard is the dialler's, below its own number
  // of shards. `reactor` must remain live while the result is used.
  [[nodiscard]] static Result<std::unique_ptr<Listener>> create(
      Reactor& reactor, PeerAddress address, std::function<void(std::uint32_t, int)> adopt);
  virtual ~Listener() = default;  // after close()
  // On the reactor's thread. Replaces the set of known peers: connections from their addresses have
  // places of their own until their preface has come.
  virtual void setPeers(const std::vector<PeerIdentity>& peers) = 0;
  [[nodiscard]] virtual PeerAddress address() const = 0;  // with the real port
  [[nodiscard]] virtual Task<void> close() = 0;
};

}  // namespace hearth
