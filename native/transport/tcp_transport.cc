#include "transport/tcp_transport.h"

#include <algorithm>

#include "transport/limits.h"
#include "transport/rail_mover.h"

namespace hearth {
namespace {

Error shuttingDown() { return {ErrorCode::kCancelled, "this agent is shutting down"}; }

SocketLimits limitsFor(const TransportOptions& options) {
  return socketLimits(options.openFiles != 0 ? options.openFiles : openFileLimit(), options.shards);
}

// One try of a request on one connection.
struct ManifestAttempt {
  Sha256Digest digest;
  std::uint64_t offset;
  std::span<std::byte> into;
  std::size_t received = 0;
  Task<Outcome> operator()(ClientConnection& connection, RequestTimeouts timeouts) {
    return connection.readManifest(digest, offset, into, received, timeouts);
  }
};
struct ControlAttempt {
  ControlMessage message;  // replaced by the answer
  Task<Outcome> operator()(ClientConnection& connection, RequestTimeouts timeouts) {
    return connection.call(message, timeouts);
  }
};

}  // namespace

std::unique_ptr<PeerTransport> PeerTransport::create(Reactor& reactor, TransportOptions options,
                                                     PeerHandler& handler) {
  return std::make_unique<TcpTransport>(reactor, std::move(options), handler);
}

TcpTransport::TcpTransport(Reactor& reactor, TransportOptions options, PeerHandler& handler)
    : reactor_(reactor),
      options_(std::move(options)),
      limits_(limitsFor(options_)),
      gate_(reactor),
      dialler_(reactor, gate_, options_),
      acceptor_(reactor, gate_, options_, limits_, handler,
                [this](const std::string& node) { return accountOf(node); }),
      callers_(reactor),
      self_(std::make_shared<TcpTransport*>(this)) {
  std::uint64_t arenaBytes = 0;
  for (const std::shared_ptr<MemoryRegion>& region : options_.arena) arenaBytes += region->size();
  heldSlots_ = std::make_shared<HeldSlots>(HeldSlots::Limits::of(arenaBytes, options_.shards));
  for (const std::shared_ptr<RdmaDevice>& device : options_.rdma) startRdma(device);
  acceptor_.useRdma(rdma_);
}

void TcpTransport::startRdma(const std::shared_ptr<RdmaDevice>& device) {
  auto made = RdmaShard::create(
      reactor_, device, {options_.arena, heldSlots_},
      {.silence = options_.rdmaSilence, .idle = options_.rdmaIdle, .hold = options_.rdmaHold});
  if (!made.ok()) {
    rdmaRefused_.emplace(device.get(), made.error());
    return;
  }
  rdmaShards_.push_back(std::move(*made));
  rdma_.push_back(rdmaShards_.back().get());
  rdma_.back()->start(gate_, options_.shard == 0);
}

std::shared_ptr<PeerStatistics> TcpTransport::accountOf(const std::string& node) {
  std::shared_ptr<PeerStatistics>& account = accounts_[node];
  if (!account) {
    account = std::make_shared<PeerStatistics>();
    account->node = node;
    for (const RdmaShard* const port : rdma_)
      account->rdmaRails.push_back({.port = std::string(port->device()->name())});
  }
  return account;
}

Status TcpTransport::rdmaStatus(const RdmaDevice& port) const {
  const auto found = rdmaRefused_.find(&port);
  return found == rdmaRefused_.end() ? Status() : found->second;
}

Result<std::shared_ptr<Peer>> TcpTransport::peerOf(const std::string& node) const {
  if (closed_) return shuttingDown();
  const auto found = peers_.find(node);
  if (found == peers_.end()) {
    return Error{ErrorCode::kUnavailable, node + " is not in this agent's view of the cluster"};
  }
  return found->second;
}

void TcpTransport::setPeers(std::vector<PeerIdentity> peers) {
  if (closed_) return;
  acceptor_.setAgents(hostsOf(peers));
  std::map<std::string, std::shared_ptr<Peer>> known;
  known.swap(peers_);
  for (PeerIdentity& identity : peers) {
    const auto found = known.find(identity.node);
    if (found != known.end() && found->second->identity().incarnation == identity.incarnation) {
      found->second->setAddresses(std::move(identity.addresses));
      peers_.insert(known.extract(found));
      continue;
    }
    const std::string node = identity.node;
    peers_[node] = std::make_shared<Peer>(reactor_, gate_, dialler_, std::move(identity),
                                          options_.streamsPerPeer, options_.shard, accountOf(node));
    if (!rdma_.empty()) {
      peers_[node]->useRdma(rdma_);
    } else if (!rdmaRefused_.empty()) {
      accountOf(node)->rdmaError = rdmaRefused_.begin()->second.message;
    }
  }
  // The rest are agents that have gone, and former incarnations. Agents that dialled us before we
  // heard of them stay.
  for (const auto& [node, peer] : known) {
    const Error reason{ErrorCode::kUnavailable, node + " has left the cluster or has restarted"};
    peer->leave(reason);
    const PeerIdentity& gone = peer->identity();
    acceptor_.dismiss(
        [&](const ServerConnection& connection) {
          return connection.node() == gone.node && connection.incarnation() == gone.incarnation;
        },
        reason);
  }
  std::erase_if(accounts_, [&](const auto& entry) {
    return !peers_.contains(entry.first) && acceptor_.connectionsOf(entry.first) == 0;
  });
}

void TcpTransport::setRevoked(std::shared_ptr<const RevokedTokens> tokens) {
  if (!closed_) acceptor_.setRevoked(std::move(tokens));
}

void TcpTransport::adopt(int fd) {
  // A shared pointer, because std::function wants copies; the last owner closes the socket.
  auto socket = std::make_shared<Socket>(fd);
  if (reactor_.onThisThread()) return acceptor_.adopt(std::move(*socket));
  // A shard with so many sockets to take is behind; the dialler finds out and dials again.
  if (arriving_.fetch_add(1) >= limits_.arriving) {
    --arriving_;
    return;
  }
  reactor_.post([socket, self = std::weak_ptr(self_)] {
    const std::shared_ptr<TcpTransport*> transport = self.lock();
    if (!transport) return;
    --(*transport)->arriving_;
    (*transport)->acceptor_.adopt(std::move(*socket));
  });
}

bool TcpTransport::reaches(const std::string& node) {
  const Result<std::shared_ptr<Peer>> peer = peerOf(node);
  return peer.ok() && !(*peer)->usableRails(kChunkBytes).empty();
}

bool TcpTransport::lives(const std::string& node, Clock::duration silence) {
  const Result<std::shared_ptr<Peer>> peer = peerOf(node);
  return peer.ok() && (*peer)->lives(silence);
}

// A request that failed without being answered is tried once more, on another stream where there is
// one.
template <class Attempt>
Task<Status> TcpTransport::tryTwice(std::shared_ptr<Peer> peer, Lane lane, Attempt& attempt,
                                    RequestTimeouts timeouts) {
  std::shared_ptr<ClientConnection> tried;
  Status status;
  for (int i = 0; i < 2; ++i) {
    const Result<std::shared_ptr<ClientConnection>> picked =
        co_await peer->stream(lane, tried, timeouts);
    if (!picked.ok()) co_return tried ? status : Status(picked.error());
    tried = *picked;
    const Outcome outcome = co_await attempt(*tried, timeouts);
    if (outcome.status.ok()) co_return outcome.status;
    status = outcome.status.error().within(peer->identity().node);
    if (!outcome.retryable()) break;
  }
  co_return status;
}

Task<Status> TcpTransport::move(std::string node, RailTransfer transfer,
                                std::vector<std::uint32_t>& blockChecksums) {
  const Callers::Inside inside(callers_);
  const std::size_t length = transfer.memory.size();
  blockChecksums.clear();
  if (length == 0) co_return Status();
  if (transfer.offset % kBlockBytes != 0 || transfer.offset % kChunkBytes + length > kChunkBytes) {
    co_return Error{ErrorCode::kInvalidArgument,
                    "what is read from or written to a peer must begin on a block and lie inside "
                    "one chunk"};
  }
  const Result<std::shared_ptr<Peer>> peer = peerOf(node);
  if (!peer.ok()) co_return peer.error();
  RailMover mover(reactor_, **peer);
  co_return co_await mover.move(std::move(transfer), blockChecksums);
}

Task<Status> TcpTransport::read(std::string node, ContentKey key, std::uint64_t offset,
                                MemoryVector into, std::vector<std::uint32_t>& blockChecksums,
                                RequestTimeouts timeouts, RequestClass requestClass) {
  return move(std::move(node), {key, offset, std::move(into), timeouts, requestClass},
              blockChecksums);
}

Task<Status> TcpTransport::write(std::string node, ContentKey key, std::uint64_t offset,
                                 std::uint64_t generation, std::optional<MemoryDescriptor> target,
                                 MemoryVector from, RequestTimeouts timeouts,
                                 RequestClass requestClass) {
  if (target && (target->kind == MemoryKind::kUnknown || target->length < from.size())) {
    co_return Error{ErrorCode::kInvalidArgument,
                    "the memory of a peer that is written to must be of a known kind and have "
                    "room for what is written"};
  }
  std::vector<std::uint32_t> checksums;
  RailTransfer transfer{key,        offset,           std::move(from),
                        timeouts,   requestClass,     Direction::kWrite,
                        generation, std::move(target)};
  co_return co_await move(std::move(node), std::move(transfer), checksums);
}

Task<Result<std::vector<std::byte>>> TcpTransport::readManifest(std::string node,
                                                                Sha256Digest digest,
                                                                Clock::time_point deadline) {
  const Callers::Inside inside(callers_);
  const Result<std::shared_ptr<Peer>> peer = peerOf(node);
  if (!peer.ok()) co_return peer.error();
  std::vector<std::byte> bytes;
  Sha256 hash;  // piece by piece: all at once would hold up the shard
  for (;;) {
    const std::size_t before = bytes.size();
    if (before > kMaxManifestBytes) {
      co_return Error{ErrorCode::kProtocolError, node + " sends a manifest without an end"};
    }
    bytes.resize(before + kChunkBytes);
    ManifestAttempt attempt{digest, before, std::span(bytes).subspan(before)};
    const Status status = co_await tryTwice(*peer, Lane::kPayload, attempt, deadline);
    if (!status.ok()) co_return status.error();
    bytes.resize(before + attempt.received);
    hash.update(std::span(bytes).subspan(before));
    if (attempt.received < kChunkBytes) break;
  }
  if (hash.finish() != digest) {
    co_return Error{ErrorCode::kCorrupt, "the manifest that " + node + " sent has another digest"};
  }
  co_return bytes;
}

Task<Result<ControlMessage>> TcpTransport::call(std::string node, ControlMessage request,
                                                RequestTimeouts timeouts) {
  const Callers::Inside inside(callers_);
  if (request.body.size() > kMaxControlBytes) {
    co_return Error{ErrorCode::kInvalidArgument, "a control message is at most 1 MiB long"};
  }
  const Result<std::shared_ptr<Peer>> peer = peerOf(node);
  if (!peer.ok()) co_return peer.error();
  ControlAttempt attempt{std::move(request)};
  const Status status = co_await tryTwice(*peer, Lane::kControl, attempt, timeouts);
  if (!status.ok()) co_return status.error();
  co_return std::move(attempt.message);
}

Task<void> TcpTransport::close() {
  closed_ = true;
  for (const auto& [node, peer] : peers_) peer->leave(shuttingDown());
  dialler_.close();
  acceptor_.close(shuttingDown());
  for (RdmaShard* const shard : rdma_) shard->stop();
  co_await callers_.gone();
  co_await gate_.close();
  self_.reset();
}

std::vector<PeerStatistics> TcpTransport::statistics() const {
  std::vector<PeerStatistics> result;
  for (const auto& [node, account] : accounts_) {
    result.push_back(*account);
    const auto found = peers_.find(node);
    if (found == peers_.end()) continue;
    result.back().streams = found->second->readyStreams();
    result.back().connected = found->second->connected();
  }
  if (acceptor_.rejected() > 0) {
    PeerStatistics rejected;
    rejected.requests = acceptor_.rejected();
    rejected.error = acceptor_.lastRejected();
    result.push_back(std::move(rejected));
  }
  return result;
}

}  // namespace hearth
