// Agents talking to agents over the wire protocol (wire/frame.h, docs/wire-protocol.md): the TCP
// implementation of the transport interface. Connections are sharded: a PeerTransport serves one
// shard and is used on its thread only; a connection's preface names the dialling shard, and the
// listener hands it to the same shard number modulo its own count, so that with equal counts a key
// stays on one shard at both ends.
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

namespace hearth {

class RdmaDevice;

struct PeerAddress {
  std::string host;  // IP address
  std::uint16_t port = 0;
  auto operator<=>(const PeerAddress&) const = default;
};

struct PeerIdentity {
  std::string node;
  // Empty: any agent of the cluster that answers at the addresses, as clients have it.
  std::string incarnation;
  std::vector<PeerAddress> addresses;  // one a NIC
};

// How long an answer is waited for.
struct RequestTimeouts {
  // NOLINTNEXTLINE(google-explicit-constructor): a deadline alone is the usual case.
  RequestTimeouts(Clock::time_point until) : deadline(until) {}
  RequestTimeouts(Clock::time_point until, Clock::duration longestSilence)
      : deadline(until), silence(longestSilence) {}

  Clock::time_point deadline;
  // The request ends with kDeadlineExceeded when not one byte has come on its connection for so
  // long, not even in answer to a probe; and others with the same timeouts at once, until one
  // comes. A transfer that moves, however slowly, is waited for.
  Clock::duration silence = Clock::duration::max();
};

// Bytes of an answer in memory that its owner may need for something else before they are sent: who
// reads slowly must not hold it. Then they come from somewhere else.
class LentPayload {
 public:
  virtual ~LentPayload() = default;
  // Stays for as long as `keep`, which the transport has for one system call.
  struct Piece {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> keep;
  };
  // All of the payload; nothing when load() has to be called first. Any thread.
  [[nodiscard]] virtual Piece now() = 0;
  // Brings the same bytes, verified, to where they may stay. On the connection's thread. An error:
  // they can no longer be had.
  [[nodiscard]] virtual Task<Status> load() = 0;
  // Gives the memory back. Any thread.
  virtual void release() = 0;
};

// Bytes that a handler answers with; `keep` owns the memory until they are sent. Of lent ones only
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

// Whether an answer is still waited for: until its asker cancels it, its connection ends, or the
// asker's timeout does; and how urgently. Copies are the same. Any thread.
class Interest {
 public:
  explicit Interest(Clock::time_point until = Clock::time_point::max(),
                    RequestClass requestClass = RequestClass::kDemand)
      : until_(until), class_(requestClass) {}
  [[nodiscard]] RequestClass requestClass() const { return class_; }
  [[nodiscard]] bool lives() const { return !*ended_ && Clock::now() < until_; }
  void end() const { *ended_ = true; }

 private:
  Clock::time_point until_;
  RequestClass class_;
  std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
};

// Which of two writes to the same bytes is newer: the greater one, whatever the order in which they
// come. Nodes should not write different bytes with equal generations; when two do, the bytes of
// the node whose name is greater stay (byte by byte), on every agent that takes them.
struct WriteVersion {
  std::uint64_t generation = 0;
  std::string node;  // that writes
  auto operator<=>(const WriteVersion&) const = default;
};

// Memory of a handler for one write of a peer. Destroyed, on the connection's thread, when the
// transport touches the memory no more; when landed() was not called before, the write has failed,
// and any of the memory may have been written to.
class WriteSink {
 public:
  virtual ~WriteSink() = default;
  // As much as is to be written; the transport writes into it until landed(), or the end.
  [[nodiscard]] virtual const MemoryVector& memory() const = 0;
  // All bytes are there and are what `blockChecksums`, the CRC32C of every 64 KiB, say. At most
  // once. The status is the peer's answer; an error of a kind that another try may mend is
  // kUnavailable.
  [[nodiscard]] virtual Task<Status> landed(std::vector<std::uint32_t> blockChecksums) = 0;
};

// What this agent does for others. Called on the shard of the connection; may hop. Coroutines
// outlive the connection only until they end; the answer is then dropped. They count for their node
// until then, so that no node has more under way by ending connections.
class PeerHandler {
 public:
  virtual ~PeerHandler() = default;
  // A range inside one chunk, block-aligned at its start. What takes long need not begin when the
  // interest has ended; any answer will do then.
  virtual Task<Result<BytesAnswer>> onRead(std::string fromNode, ContentKey key,
                                           std::uint64_t offset, std::uint32_t length,
                                           Interest interest) = 0;
  // A manifest by its digest. Fewer bytes than asked say that the manifest ends there; none, that
  // it ends before `offset`.
  virtual Task<Result<BytesAnswer>> onReadManifest(std::string fromNode, Sha256Digest digest,
                                                   std::uint64_t offset, std::uint32_t length) = 0;
  virtual Task<Result<ControlMessage>> onControl(std::string fromNode, ControlMessage request) = 0;
  // The same for a client, which is no agent and has proved a capability that has not expired.
  // Nothing else of a client reaches a handler.
  virtual Task<Result<BytesAnswer>> onClientRead(std::shared_ptr<const Capability> /*client*/,
                                                 ContentKey /*key*/, std::uint64_t /*offset*/,
                                                 std::uint32_t /*length*/, Interest /*interest*/) {
    co_return Error{ErrorCode::kUnsupported, "clients are not served here"};
  }
  virtual Task<Result<ControlMessage>> onClientControl(std::shared_ptr<const Capability> /*client*/,
                                                       ControlMessage /*request*/) {
    co_return Error{ErrorCode::kUnsupported, "clients are not served here"};
  }
  // Memory for a write. It may be waited for: no byte is sent before, and nothing else waits
  // meanwhile. Of writes that overlap one is under way at a time, the newer one (write_order.h);
  // the same write may come again, with the same generation and bytes. One whose WriteVersion is
  // older than that of bytes which have landed is refused here, with kConflict.
  virtual Task<Result<std::unique_ptr<WriteSink>>> onWrite(std::string /*fromNode*/,
                                                           WriteRequest /*request*/,
                                                           Interest /*interest*/) {
    co_return Error{ErrorCode::kUnsupported, "this agent takes no writes"};
  }
};

struct TransportOptions {
  std::string node, incarnation, cluster;
  std::vector<std::byte> secret;  // proved by HMAC-SHA-256 over both nonces, in both directions
  // Of a client, which has no secret and accepts no connections: its token, asked for on the
  // reactor's thread before each connection.
  std::function<Result<CapabilityToken>()> token;
  WireOffer offer;                      // less than this release has only in tests
  std::uint32_t shard = 0, shards = 1;  // ours
  // Of this shard, for payloads: so many, or one for each address of the peer where that is more.
  // Control messages have one more.
  std::uint32_t streamsPerPeer = 1;
  std::uint32_t creditBytes =
      64u << 20;  // a peer may have this much requested from us on one connection
  std::uint32_t writeCreditBytes = 16u << 20;  // the same of what it may want to write to us
  Clock::duration connectTimeout = std::chrono::seconds(3);
  Clock::duration idleProbe =
      std::chrono::seconds(5);  // liveness probe; two missed close the connection
  std::uint64_t openFiles = 0;  // that this process may have; 0: as RLIMIT_NOFILE says
  // RDMA ports over which reads are asked for and answered where the peer has some, too, each by
  // the bandwidth that it turns out to have. The n-th port of an agent meets the n-th one of
  // another, or one of those that it has.
  std::vector<std::shared_ptr<RdmaDevice>> rdma = {};
  // Memory that many answers lie in. Over RDMA they are sent from there, each region from the
  // moment that its owner has registered it with the port.
  std::vector<std::shared_ptr<MemoryRegion>> arena = {};
  // An RDMA endpoint of which nothing comes for so long, although something is asked for on it and
  // a probe was sent, has failed.
  Clock::duration rdmaSilence = std::chrono::milliseconds(100);
  // An RDMA endpoint that is not used for so long is closed, and made again on use.
  Clock::duration rdmaIdle = std::chrono::minutes(1);
};

struct PeerStatistics {
  // Empty: the connections that were turned away before they proved who they are; `requests` is
  // their number, `error` the last one's address and reason.
  std::string node;
  bool connected = false;
  std::uint32_t streams = 0;  // for payloads, that we have dialled
  // Both directions, all of the protocol's bytes; requests that either side has made.
  std::uint64_t bytesReceived = 0, bytesSent = 0, requests = 0;
  // Of the wire protocol, as the last connection agreed on; 0 before there was one.
  std::uint16_t wireVersion = 0;
  std::uint64_t featuresOff = 0;  // WireFeature that this agent has and the other does not
  std::string error;              // why the last connection failed or ended
  // Slices that were asked for again on another connection, because theirs had fallen silent; and
  // how often one had.
  std::uint64_t hedged = 0, paused = 0;
  // Of reads over RDMA, in both directions; and how often an endpoint has failed.
  std::uint64_t rdmaRequests = 0, rdmaBytesReceived = 0, rdmaBytesSent = 0, rdmaFailures = 0;
  std::string rdma;       // ports that reads from this peer use: "mlx5_0/1, mlx5_1/1"; empty: none
  std::string rdmaError;  // why there is none now; empty where RDMA is off
  std::vector<RailStatistics> rdmaRails;  // one for each port that this shard uses

  // Counts what another shard has counted of the same node.
  void add(const PeerStatistics& other);
  // `rdma` and `rdmaError` are what `rdmaRails` say.
  void describeRdma();
};

class PeerTransport {
 public:
  // `reactor` and `handler` must remain live while the result is used, until close() has ended.
  [[nodiscard]] static std::unique_ptr<PeerTransport> create(Reactor& reactor,
                                                             TransportOptions options,
                                                             PeerHandler& handler);
  virtual ~PeerTransport() = default;

  // Replaces the set of known peers; connections to peers that are gone are closed.
  virtual void setPeers(std::vector<PeerIdentity> peers) = 0;
  // Any thread. Takes over an accepted, connected socket (from a Listener of any shard), whose
  // preface has been read; closes it when the transport has gone.
  virtual void adopt(int socket) = 0;

  // Whether a connection for payloads leads to that agent now. Where none does, one is made
  // meanwhile. Always, where what leads there needs no connection.
  [[nodiscard]] virtual bool reaches(const std::string& /*node*/) { return true; }
  // Whether a call to that agent that was not answered in time has reached one that lives: a
  // connection for control messages leads there, and has not been silent for so long.
  [[nodiscard]] virtual bool lives(const std::string& /*node*/, Clock::duration /*silence*/) {
    return true;
  }

  // Fills `into` with [offset, offset + its size) of the key as `node` has it; the range lies
  // inside one chunk and begins on a block. Checksums are compared on receipt (kCorrupt) and given
  // in `blockChecksums`. The bytes are received straight into `into`; after an error that may go on
  // for as long as its owners are kept. A slice that fails is tried on another stream or NIC before
  // the caller hears of it. kTryElsewhere: that agent does not have it; kUnsupported: nothing that
  // leads there reaches such memory.
  [[nodiscard]] virtual Task<Status> read(std::string node, ContentKey key, std::uint64_t offset,
                                          MemoryVector into,
                                          std::vector<std::uint32_t>& blockChecksums,
                                          RequestTimeouts timeouts, RequestClass requestClass) = 0;
  // Writes `from` to [offset, offset + its size) of the key at `node`, a range as of a read, as its
  // handler takes it. `generation`: which of two writes to the same range is newer (WriteVersion);
  // with the same generation the bytes must be the same, since a slice that fails is written again,
  // on another stream or NIC, before the caller hears of it. `target`: memory of `node`, as it has
  // described it to this agent, into which these bytes go from its beginning, and nowhere else; a
  // slice is sent with its part of it. None: its handler knows where the range is. After an error
  // any part may have been written, and the owners of `from` are kept for as long as it is read.
  // kInvalidArgument: `target` is of no kind that is known, or shorter than `from`. kUnsupported,
  // with no byte sent: that agent takes no writes, or nothing that leads there reaches such memory.
  // kConflict: it has newer bytes, or takes newer ones, or was asked to take the same by a later
  // write of this agent; none need have landed. kUnavailable, also: too many writes of this agent
  // wait there; they may be tried again later.
  [[nodiscard]] virtual Task<Status> write(std::string node, ContentKey key, std::uint64_t offset,
                                           std::uint64_t generation,
                                           std::optional<MemoryDescriptor> target,
                                           MemoryVector from, RequestTimeouts timeouts,
                                           RequestClass requestClass) = 0;
  [[nodiscard]] virtual Task<Result<std::vector<std::byte>>> readManifest(
      std::string node, Sha256Digest digest, Clock::time_point deadline) = 0;
  [[nodiscard]] virtual Task<Result<ControlMessage>> call(std::string node, ControlMessage request,
                                                          RequestTimeouts timeouts) = 0;
  // Closes all connections, fails what is pending with kCancelled, waits for handlers. Required
  // before destruction.
  [[nodiscard]] virtual Task<void> close() = 0;
  [[nodiscard]] virtual std::vector<PeerStatistics> statistics() const = 0;
  // Why this shard uses that RDMA port of its options for no peer; kOk where it does.
  [[nodiscard]] virtual Status rdmaStatus(const RdmaDevice& /*port*/) const { return {}; }
};

// Makes the transport of one shard, as PeerTransport::create.
using TransportFactory =
    std::function<std::unique_ptr<PeerTransport>(Reactor&, TransportOptions, PeerHandler&)>;

// One a NIC address; accepts on its reactor, reads the preface and hands the socket to
// `adopt(shard, fd)`.
class Listener {
 public:
  // On the reactor's thread, or before it runs. kInUse with advice when the port is taken. Socket
  // and shard are handed to `adopt` on this thread; the shard is the dialler's, below its own
  // number of shards. `reactor` must remain live while the result is used.
  [[nodiscard]] static Result<std::unique_ptr<Listener>> create(
      Reactor& reactor, PeerAddress address, std::function<void(std::uint32_t, int)> adopt);
  virtual ~Listener() = default;                          // after close()
  [[nodiscard]] virtual PeerAddress address() const = 0;  // with the real port
  [[nodiscard]] virtual Task<void> close() = 0;
};

}  // namespace hearth
