#include "transport/peer.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "transport/limits.h"

namespace hearth {
namespace {

// Streams that are not for payloads of any size.
constexpr std::size_t kOtherStreams = 2;

}  // namespace

Peer::Peer(Reactor& reactor, Gate& gate, Dialler& dialler, PeerIdentity identity,
           std::uint32_t streams, std::uint32_t firstAddress,
           std::shared_ptr<PeerStatistics> account)
    : reactor_(reactor),
      gate_(gate),
      dialler_(dialler),
      identity_(std::move(identity)),
      streams_(std::max(streams, 1u) + kOtherStreams),
      firstAddress_(firstAddress),
      account_(std::move(account)),
      changed_(reactor),
      lastError_{ErrorCode::kUnavailable, identity_.node + " has no address"} {
  addStreams();
}

void Peer::addStreams() {
  const std::size_t payloads = std::min(identity_.addresses.size(), kStreamsForAddresses);
  if (streams_.size() < payloads + kOtherStreams) streams_.resize(payloads + kOtherStreams);
}

bool Peer::listed(const PeerAddress& address) const {
  return std::find(identity_.addresses.begin(), identity_.addresses.end(), address) !=
         identity_.addresses.end();
}

void Peer::setAddresses(std::vector<PeerAddress> addresses) {
  if (addresses == identity_.addresses) return;
  identity_.addresses = std::move(addresses);
  addStreams();
  for (Stream& stream : streams_) {
    stream.pause.reset();
    if (!stream.connection || listed(stream.connection->address())) continue;
    stream.connection->part({ErrorCode::kUnavailable, identity_.node + " has changed its address"});
  }
}

std::span<Peer::Stream> Peer::streamsOf(Lane lane) {
  const std::span<Stream> all(streams_);
  switch (lane) {
    case Lane::kControl:
      return all.first(1);
    case Lane::kSmall:
      return all.subspan(1, 1);
    case Lane::kPayload:
      return all.subspan(kOtherStreams);
  }
}

Task<Result<std::shared_ptr<ClientConnection>>> Peer::stream(Lane lane, std::shared_ptr<Rail> avoid,
                                                             RequestTimeouts timeouts) {
  // A rail that is no stream has no address to be avoided.
  const auto avoidedStream = std::dynamic_pointer_cast<ClientConnection>(avoid);
  const std::shared_ptr<Peer> self = shared_from_this();
  for (;;) {
    if (left_) co_return lastError_;
    dialMissing(lane);
    std::shared_ptr<ClientConnection> best;
    bool dialling = false;
    for (const Stream& stream : streamsOf(lane)) {
      dialling = dialling || stream.dialling;
      const std::shared_ptr<ClientConnection>& candidate = stream.connection;
      if (!candidate || !candidate->alive()) continue;
      const auto rank = [&](const std::shared_ptr<ClientConnection>& connection) {
        const bool there = avoidedStream && connection->address() == avoidedStream->address();
        return std::tuple(connection->paused(), connection == avoidedStream, there,
                          connection->load());
      };
      if (!best || rank(candidate) < rank(best)) best = candidate;
    }
    if (best) co_return best;
    if (!dialling) co_return lastError_;
    // The dial under way is the peer's probe; a caller that can ask elsewhere does so meanwhile.
    const bool patient = timeouts.silence == Clock::duration::max();
    if (!patient && std::any_of(streams_.begin(), streams_.end(),
                                [](const Stream& stream) { return stream.fellSilent; })) {
      co_return Error{ErrorCode::kDeadlineExceeded, identity_.node + " has fallen silent"};
    }
    changed_.reset();
    const bool inTime = co_await changed_.waitUntil(timeouts.deadline);
    if (!inTime && !changed_.isSet()) {
      co_return Error{ErrorCode::kDeadlineExceeded,
                      "no connection to " + identity_.node + " in time"};
    }
  }
}

Task<Result<std::shared_ptr<Rail>>> Peer::rail(std::shared_ptr<Rail> avoid,
                                               RequestTimeouts timeouts) {
  Task<Result<std::shared_ptr<ClientConnection>>> picking =
      stream(Lane::kPayload, std::move(avoid), timeouts);
  const Result<std::shared_ptr<ClientConnection>> picked = co_await picking;
  if (!picked.ok()) co_return picked.error();
  co_return std::shared_ptr<Rail>(*picked);
}

std::vector<std::shared_ptr<Rail>> Peer::usableRails(std::size_t bytes) {
  std::vector<std::shared_ptr<Rail>> usable;
  if (left_) return usable;
  const auto addReady = [&](Lane lane) {
    dialMissing(lane);
    for (const Stream& stream : streamsOf(lane)) {
      if (ready(stream)) usable.push_back(stream.connection);
    }
  };
  addReady(Lane::kPayload);
  const auto busy = [](const std::shared_ptr<Rail>& rail) { return rail->load() != 0; };
  if (bytes <= kSmallTransferBytes && !usable.empty() && std::ranges::all_of(usable, busy))
    addReady(Lane::kSmall);
  return usable;
}

std::vector<std::shared_ptr<Rail>> Peer::fastRails() {
  if (rdma_ == nullptr || left_) return {};
  return rdma_->usable([self = shared_from_this()](RequestTimeouts timeouts) {
    return self->stream(Lane::kControl, nullptr, timeouts);
  });
}

void Peer::dialMissing(Lane lane) {
  for (Stream& stream : streamsOf(lane)) {
    if (ready(stream) || stream.dialling || !stream.pause.isOver()) continue;
    if (const auto ended = std::exchange(stream.connection, nullptr)) {
      stream.fellSilent = ended->failure().code == ErrorCode::kDeadlineExceeded;
      stream.brokeOff = ended->address();
      if (ended->authenticated()) {
        stream.pause.forget();
      } else {
        lastError_ = ended->failure();
        stream.pause.failed();
        continue;
      }
    }
    stream.dialling = true;
    gate_.spawn(
        dialStream(shared_from_this(), static_cast<std::size_t>(&stream - streams_.data())));
  }
}

bool Peer::ready(const Stream& stream) { return stream.connection && stream.connection->alive(); }

std::vector<PeerAddress> Peer::addressesOf(std::size_t index) const {
  std::vector<PeerAddress> addresses = identity_.addresses;
  if (addresses.empty()) return addresses;
  // Other streams begin where further ones for payloads would.
  const std::size_t place =
      index < kOtherStreams ? streams_.size() - 1 - index : index - kOtherStreams;
  const auto own = static_cast<std::ptrdiff_t>((firstAddress_ + place) % addresses.size());
  std::rotate(addresses.begin(), addresses.begin() + own, addresses.end());
  const PeerAddress& last = streams_[index].brokeOff;
  std::stable_partition(addresses.begin(), addresses.end(),
                        [&](const PeerAddress& address) { return address != last; });
  return addresses;
}

Task<void> Peer::dialStream(std::shared_ptr<Peer> self, std::size_t index) {
  const std::vector<PeerAddress> addresses = self->addressesOf(index);
  for (const PeerAddress& address : addresses) {
    const Result<std::shared_ptr<ClientConnection>> dialled = co_await self->dialler_.dial(
        self->identity_.node, self->identity_.incarnation, address, self->account_);
    if (dialled.ok() && (self->left_ || !self->listed(address))) {
      (*dialled)->part({ErrorCode::kUnavailable, self->identity_.node + " is no longer there"});
      continue;
    }
    if (dialled.ok()) {
      self->streams_[index].connection = *dialled;
      for (Stream& stream : self->streams_) stream.fellSilent = false;
      break;
    }
    if (self->left_) break;
    self->lastError_ = dialled.error();
    self->account_->error = dialled.error().message;
  }
  Stream& stream = self->streams_[index];
  stream.dialling = false;
  if (!stream.connection) stream.pause.failed();
  self->changed_.set();
}

void Peer::leave(Error reason) {
  left_ = true;
  lastError_ = std::move(reason);
  for (Stream& stream : streams_) {
    if (stream.connection) stream.connection->part(lastError_);
  }
  if (rdma_) rdma_->leave(lastError_);
  changed_.set();
}

bool Peer::connected() const { return std::any_of(streams_.begin(), streams_.end(), ready); }

bool Peer::lives(Clock::duration silence) {
  return std::ranges::any_of(streamsOf(Lane::kControl), [silence](const Stream& stream) {
    return ready(stream) && stream.connection->authenticated() &&
           !stream.connection->silentFor(silence);
  });
}

std::uint32_t Peer::readyStreams() const {
  return static_cast<std::uint32_t>(
      std::count_if(streams_.begin() + kOtherStreams, streams_.end(), ready));
}

}  // namespace hearth
