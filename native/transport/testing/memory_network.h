// Transports of agents in this process, without sockets: one agent posts its calls to the reactor
// of the other, reads and writes go over faulty rails (faulty_rail.h), and control messages have
// faults of their own. All faults come from a seed. For tests of code above transports, whole
// engines first.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "transport/callers.h"
#include "transport/rail_mover.h"
#include "transport/testing/faulty_rail.h"
#include "transport/testing/mailbox.h"
#include "transport/testing/served.h"
#include "transport/write_order.h"

namespace hearth::testing_rails {

struct NetworkFaults {
  Faults rails;
  // Percent of the control messages and pieces of manifests; the others are answered.
  unsigned lost = 0;        // on the way there
  unsigned answerLost = 0;  // on the way back, after execution
  unsigned broken = 0;      // the connection ends with the answer on it
};

class MemoryTransport;

// Must outlive the transports that it makes.
class MemoryNetwork {
 public:
  MemoryNetwork(NetworkFaults faults, std::uint64_t seed) : faults_(faults), random_(seed) {}

  [[nodiscard]] TransportFactory factory();
  // Requests that met with a fault; reads are counted when their transport is closed. Any thread.
  [[nodiscard]] std::size_t faultsMet() const { return faultsMet_; }

 private:
  friend MemoryTransport;
  // The place of an agent's shard.
  struct Place {
    std::string incarnation;
    std::shared_ptr<Mailbox> mailbox;
    MemoryTransport* transport = nullptr;  // for functions in its mailbox
  };
  // `shard`: the dialler's, taken modulo the number of shards there.
  [[nodiscard]] std::optional<Place> find(const std::string& node, std::uint32_t shard) const {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(node);
    if (found == places_.end() || found->second.empty()) return std::nullopt;
    const auto& shards = found->second;
    const auto place = shards.find(shard % static_cast<std::uint32_t>(shards.size()));
    return place == shards.end() ? std::nullopt : std::optional(place->second);
  }
  [[nodiscard]] std::uint64_t draw() {
    const std::lock_guard lock(mutex_);
    return random_();
  }

  const NetworkFaults faults_;
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  std::map<std::string, std::map<std::uint32_t, Place>> places_;
  std::atomic<std::size_t> faultsMet_{0};
};

class MemoryTransport final : public PeerTransport {
 public:
  MemoryTransport(MemoryNetwork& network, Reactor& reactor, TransportOptions options,
                  PeerHandler& handler)
      : network_(network),
        reactor_(reactor),
        options_(std::move(options)),
        handler_(handler),
        mailbox_(std::make_shared<Mailbox>(reactor)),
        gate_(reactor),
        random_(network.draw()),
        callers_(reactor),
        writeOrder_(reactor) {
    const std::lock_guard lock(network_.mutex_);
    network_.places_[options_.node][options_.shard] = {options_.incarnation, mailbox_, this};
  }

  void setPeers(std::vector<PeerIdentity> peers) override {
    std::map<std::string, std::shared_ptr<Known>> known;
    known.swap(peers_);
    for (PeerIdentity& identity : peers) {
      auto found = known.find(identity.node);
      const bool same = found != known.end() && found->second->incarnation == identity.incarnation;
      const std::string node = identity.node;
      peers_[node] = same ? found->second : meet(node, std::move(identity.incarnation));
    }
    for (auto& [node, peer] : known) left_.push_back(std::move(peer));
  }
  void adopt(int socket) override { ::close(socket); }
  // Fails everything under way to others, as when connections break.
  void breakRails() {
    for (const auto& [node, peer] : peers_) peer->rails.endAll();
  }

  Task<Status> read(std::string node, ContentKey key, std::uint64_t offset, MemoryVector into,
                    std::vector<std::uint32_t>& blockChecksums, RequestTimeouts timeouts,
                    RequestClass requestClass) override {
    RailTransfer read{key, offset, std::move(into), timeouts, requestClass};
    co_return co_await move(std::move(node), std::move(read), blockChecksums);
  }
  Task<Status> write(std::string node, ContentKey key, std::uint64_t offset,
                     std::uint64_t generation, std::optional<MemoryDescriptor> target,
                     MemoryVector from, RequestTimeouts timeouts,
                     RequestClass requestClass) override {
    std::vector<std::uint32_t> checksums;
    RailTransfer write{key,        offset,           std::move(from),
                       timeouts,   requestClass,     Direction::kWrite,
                       generation, std::move(target)};
    co_return co_await move(std::move(node), std::move(write), checksums);
  }

  Task<Result<std::vector<std::byte>>> readManifest(std::string node, Sha256Digest digest,
                                                    Clock::time_point deadline) override {
    const Callers::Inside inside(callers_);
    std::vector<std::byte> all;
    for (;;) {
      Serve serve = [digest, offset = all.size()](MemoryTransport& there, std::string from) {
        return pieceOfManifest(there.handler_, std::move(from), digest, offset);
      };
      const Result<Answer> piece = co_await askTwice(node, std::move(serve), deadline);
      if (!piece.ok()) co_return piece.error();
      all.insert(all.end(), piece->bytes.begin(), piece->bytes.end());
      if (piece->bytes.size() < kChunkBytes) break;
    }
    if (Sha256::of(all) != digest)
      co_return Error{ErrorCode::kCorrupt, "the manifest has another digest"};
    co_return all;
  }

  Task<Result<ControlMessage>> call(std::string node, ControlMessage request,
                                    RequestTimeouts timeouts) override {
    const Callers::Inside inside(callers_);
    Serve serve = [request](MemoryTransport& there, std::string from) {
      return controlOf(there.handler_, std::move(from), request);
    };
    const Result<Answer> answer = co_await askTwice(std::move(node), std::move(serve), timeouts);
    if (!answer.ok()) co_return answer.error();
    co_return ControlMessage{answer->type, answer->bytes};
  }

  Task<void> close() override {
    closed_ = true;
    {
      const std::lock_guard lock(network_.mutex_);
      network_.places_[options_.node].erase(options_.shard);
    }
    for (Event* const waiting : std::set(asking_)) waiting->set();
    for (const auto& [node, peer] : std::exchange(peers_, {})) left_.push_back(peer);
    for (const std::shared_ptr<Known>& peer : left_) peer->rails.leave();
    co_await callers_.gone();
    for (const std::shared_ptr<Known>& peer : left_) {
      co_await peer->rails.close();
      network_.faultsMet_ += peer->rails.counts().faulty;
    }
    co_await gate_.close();
    mailbox_->close();
  }

  std::vector<PeerStatistics> statistics() const override {
    std::vector<PeerStatistics> all;
    for (const auto& [node, peer] : peers_) {
      all.emplace_back();
      all.back().node = node;
      all.back().connected = true;
    }
    return all;
  }

 private:
  Task<Status> move(std::string node, RailTransfer transfer,
                    std::vector<std::uint32_t>& blockChecksums) {
    const Callers::Inside inside(callers_);
    blockChecksums.clear();
    if (transfer.memory.empty()) co_return Status();
    const std::shared_ptr<Known> peer = peerOf(node);
    if (peer == nullptr) co_return unreachable(node);
    RailMover mover(reactor_, peer->rails, kBlockBytes);
    co_return co_await mover.move(std::move(transfer), blockChecksums);
  }

  struct Known {
    Known(Reactor& reactor, std::string node, std::string started, Faults faults,
          std::uint64_t seed, Give give, Take take)
        : incarnation(std::move(started)),
          rails(reactor, 2, faults, seed, std::move(give), std::move(node), std::move(take)) {}
    const std::string incarnation;
    FaultyRails rails;
  };
  // Runs on the other side.
  using Serve = std::function<Task<Result<Answer>>(MemoryTransport&, std::string from)>;
  [[nodiscard]] static Error unreachable(const std::string& node) {
    return {ErrorCode::kUnavailable, node + " is not reached"};
  }
  [[nodiscard]] std::shared_ptr<Known> meet(const std::string& node, std::string incarnation) {
    Give give = [this, node](const RailTransfer& read) { return bytesFrom(node, read); };
    Take take = [this, node](const RailTransfer& write, const std::function<void()>&) {
      return std::make_unique<Write>(*this, node, write);
    };
    return std::make_shared<Known>(reactor_, node, std::move(incarnation), network_.faults_.rails,
                                   random_(), std::move(give), std::move(take));
  }
  [[nodiscard]] std::shared_ptr<Known> peerOf(const std::string& node) const {
    const auto found = peers_.find(node);
    return closed_ || found == peers_.end() ? nullptr : found->second;
  }

  // Keeps the bytes of a write until it is whole.
  class Write final : public Taker {
   public:
    Write(MemoryTransport& transport, std::string node, const RailTransfer& write)
        : transport_(transport),
          node_(std::move(node)),
          timeouts_(write.timeouts),
          request_{.key = write.key,
                   .offset = write.offset,
                   .length = static_cast<std::uint32_t>(write.memory.size()),
                   .requestClass = write.requestClass,
                   .generation = write.generation,
                   .target = write.target},
          bytes_(request_.length) {}
    Task<Outcome> begin() override { co_return Outcome{Status(), true}; }
    void put(std::uint64_t offset, std::span<const std::byte> bytes) override {
      std::ranges::copy(bytes, std::span(bytes_).subspan(offset).begin());
    }
    Task<Outcome> end(std::vector<std::uint32_t> checksums) override {
      if (crc32cOfBlocks(bytes_, kBlockBytes) != checksums)
        co_return Outcome{Error{ErrorCode::kCorrupt, "checksums differ"}, false};
      Serve serve = [request = request_, bytes = bytes_, checksums, until = timeouts_.deadline](
                        MemoryTransport& there, std::string from) {
        return takeWrite(there, std::move(from), request, bytes, checksums, Interest(until));
      };
      const Result<Answer> answer = co_await transport_.ask(node_, std::move(serve), timeouts_);
      co_return answer.ok() ? Outcome{Status(), true} : failed(answer.error());
    }

   private:
    MemoryTransport& transport_;
    const std::string node_;
    const RequestTimeouts timeouts_;
    const WriteRequest request_;
    std::vector<std::byte> bytes_;
  };
  static Task<Result<Answer>> takeWrite(MemoryTransport& there, std::string from,
                                        WriteRequest request, std::vector<std::byte> bytes,
                                        std::vector<std::uint32_t> checksums, Interest interest) {
    bool lost = false;
    Task<Result<std::unique_ptr<WriteOrder::Place>>> entering =
        there.writeOrder_.enter(from, request, interest, [interest, &lost](bool) {
          lost = true;
          interest.end();
        });
    const Result<std::unique_ptr<WriteOrder::Place>> place = co_await entering;
    if (!place.ok()) co_return place.error();
    Task<Result<std::unique_ptr<WriteSink>>> asking =
        there.handler_.onWrite(std::move(from), std::move(request), interest);
    const Result<std::unique_ptr<WriteSink>> sink = co_await asking;
    co_await there.reactor_.enter();
    if (!sink.ok()) co_return sink.error();
    if (lost) co_return WriteOrder::lost();
    std::span<const std::byte> rest = bytes;
    forEachPiece((*sink)->memory(), 0, rest.size(), [&rest](std::span<std::byte> piece) {
      std::ranges::copy(rest.first(piece.size()), piece.begin());
      rest = rest.subspan(piece.size());
    });
    const Status landed = co_await (*sink)->landed(std::move(checksums));
    co_await there.reactor_.enter();
    if (!landed.ok()) co_return landed.error();
    co_return Answer{};
  }

  // Reads bytes for a rail, which compares them with their checksums as any transport does.
  Task<Delivery> bytesFrom(std::string node, RailTransfer read) {
    const Interest interest(read.timeouts.deadline);
    const auto size = static_cast<std::uint32_t>(read.memory.size());
    Serve serve = [key = read.key, offset = read.offset, size, interest](MemoryTransport& there,
                                                                         std::string from) {
      return partOfFile(there.handler_, std::move(from), key, offset, size, interest);
    };
    Result<Answer> answer = co_await ask(std::move(node), std::move(serve), read.timeouts);
    interest.end();
    if (!answer.ok()) co_return Delivery{.outcome = failed(answer.error())};
    auto kept = std::make_shared<Answer>(std::move(*answer));
    const bool right =
        kept->bytes.size() == size && crc32cOfBlocks(kept->bytes, kBlockBytes) == kept->checksums;
    if (!right)
      co_return Delivery{.outcome = {Error{ErrorCode::kCorrupt, "checksums differ"}, false}};
    co_return Delivery{.outcome = {Status(), true},
                       .bytes = kept->bytes,
                       .checksums = kept->checksums,
                       .keep = kept};
  }
  [[nodiscard]] static Outcome failed(const Error& error) {
    const bool ours = error.code == ErrorCode::kUnavailable ||
                      error.code == ErrorCode::kDeadlineExceeded ||
                      error.code == ErrorCode::kCancelled;
    return {error, !ours};
  }

  // Asks once more when the first call fails on its way.
  Task<Result<Answer>> askTwice(std::string node, Serve serve, RequestTimeouts timeouts) {
    const unsigned at = static_cast<unsigned>(random_() % 100);
    const NetworkFaults& faults = network_.faults_;
    const bool lost = at < faults.lost;
    const bool answerLost = !lost && at < faults.lost + faults.answerLost;
    const bool broken =
        !lost && !answerLost && at < faults.lost + faults.answerLost + faults.broken;
    if (lost || answerLost || broken) ++network_.faultsMet_;
    if (!lost) {
      Result<Answer> answer = co_await ask(node, serve, timeouts);
      if (!answerLost && !broken) co_return answer;
    }
    if (broken) {
      Result<Answer> answer = co_await ask(std::move(node), std::move(serve), timeouts);
      co_return answer;
    }
    Event never(reactor_);
    asking_.insert(&never);
    co_await never.waitUntil(endOf(timeouts));
    asking_.erase(&never);
    co_return Error{ErrorCode::kDeadlineExceeded, node + " has given no sign of life"};
  }
  Task<Result<Answer>> ask(std::string node, Serve serve, RequestTimeouts timeouts) {
    const std::shared_ptr<Known> peer = peerOf(node);
    const auto place = network_.find(node, options_.shard);
    if (peer == nullptr || !place || place->incarnation != peer->incarnation)
      co_return unreachable(node);
    const auto pending = std::make_shared<PendingCall>(reactor_);
    // Only the other side has the reply, which goes when that side drops the request.
    place->mailbox->post([there = place->transport, serve, from = options_.node,
                          reply = std::make_shared<Reply>(mailbox_, pending)] {
      there->gate_.spawn(answer(*there, serve, from, reply));
    });
    asking_.insert(&pending->ended);
    co_await pending->ended.waitUntil(timeouts.deadline);
    asking_.erase(&pending->ended);
    if (pending->answer) co_return std::move(*pending->answer);
    if (closed_) co_return Error{ErrorCode::kCancelled, "this agent is shutting down"};
    co_return Error{ErrorCode::kDeadlineExceeded, node + " did not answer in time"};
  }
  static Task<void> answer(MemoryTransport& there, Serve serve, std::string from,
                           std::shared_ptr<Reply> reply) {
    Result<Answer> given = co_await serve(there, std::move(from));
    reply->give(std::move(given));
  }

  MemoryNetwork& network_;
  Reactor& reactor_;
  const TransportOptions options_;
  PeerHandler& handler_;
  const std::shared_ptr<Mailbox> mailbox_;
  Gate gate_;  // calls of others
  std::mt19937_64 random_;
  std::map<std::string, std::shared_ptr<Known>> peers_;
  std::vector<std::shared_ptr<Known>> left_;
  std::set<Event*> asking_;
  Callers callers_;
  WriteOrder writeOrder_;
  bool closed_ = false;
};

inline TransportFactory MemoryNetwork::factory() {
  return [this](Reactor& reactor, TransportOptions options, PeerHandler& handler) {
    return std::make_unique<MemoryTransport>(*this, reactor, std::move(options), handler);
  };
}

}  // namespace hearth::testing_rails
