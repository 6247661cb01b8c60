// The asking side of one peer: its streams, which are dialled when they are needed. A stream is
// idle -> dialling -> ready -> idle ... After a dial that failed, or a connection that the peer
// ended before it gave credit (it has no room for another one), the stream is idle for a pause.
//
// Each stream begins at an address (NIC) of its own and goes on to the others when that fails, or
// when its last connection broke off there.
//
// Control messages have a stream of their own: behind the payloads of a slow link they would come
// seconds late. Small transfers have one, too, while all streams for payloads are busy.
//
// On the reactor's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/back_off.h"
#include "transport/client_connection.h"
#include "transport/dialler.h"
#include "transport/peer_transport.h"
#include "transport/rdma_rails.h"

namespace hearth {

enum class Lane : std::uint8_t { kPayload, kSmall, kControl };

class Peer : public RailSource, public std::enable_shared_from_this<Peer> {
 public:
  // `firstAddress`: index of the first stream's address, so that shards differ. `reactor`, `gate`
  // and `dialler` must remain live while this object is used.
  Peer(Reactor& reactor, Gate& gate, Dialler& dialler, PeerIdentity identity, std::uint32_t streams,
       std::uint32_t firstAddress, std::shared_ptr<PeerStatistics> account);
  // Reads go over endpoints of `shards`, one for each port of ours. The shards must remain live
  // while this object is used.
  void useRdma(std::span<RdmaShard* const> shards) {
    rdma_ = std::make_shared<RdmaRails>(reactor_, gate_, shards, account_);
  }

  [[nodiscard]] const PeerIdentity& identity() const { return identity_; }
  // Sets the addresses for later dials, and closes connections to addresses that are no longer
  // listed.
  void setAddresses(std::vector<PeerAddress> addresses);
  // The lane's ready stream with the least to do. Prefers streams that are not paused, other than
  // `avoid`, and at another address than `avoid`. Dials missing streams, and waits for the first
  // when none is ready. kUnavailable at once when none can be dialled now; kDeadlineExceeded, also
  // at once while the peer has fallen silent and the caller's timeouts do not allow for that.
  [[nodiscard]] Task<Result<std::shared_ptr<ClientConnection>>> stream(Lane lane,
                                                                       std::shared_ptr<Rail> avoid,
                                                                       RequestTimeouts timeouts);
  // The streams for payloads, as rails.
  [[nodiscard]] const std::string& peer() const override { return identity_.node; }
  [[nodiscard]] Task<Result<std::shared_ptr<Rail>>> rail(std::shared_ptr<Rail> avoid,
                                                         RequestTimeouts timeouts) override;
  [[nodiscard]] std::vector<std::shared_ptr<Rail>> usableRails(std::size_t bytes) override;
  // The RDMA endpoints; connects missing ones.
  [[nodiscard]] std::vector<std::shared_ptr<Rail>> fastRails() override;
  void countHedged() override { ++account_->hedged; }
  // Ends everything with `reason`, now and in future.
  void leave(Error reason);

  [[nodiscard]] bool connected() const;
  // True: a connection for control messages is there, and has not been silent for so long.
  [[nodiscard]] bool lives(Clock::duration silence);
  // Ready streams for payloads.
  [[nodiscard]] std::uint32_t readyStreams() const;

 private:
  struct Stream {
    std::shared_ptr<ClientConnection> connection;
    bool dialling = false;
    bool fellSilent = false;  // the last connection fell silent inside an answer
    PeerAddress brokeOff;     // of the last connection that ended, and so dialled last
    BackOff pause;
  };
  // Adds streams until each address has one.
  void addStreams();
  static Task<void> dialStream(std::shared_ptr<Peer> self, std::size_t index);
  [[nodiscard]] static bool ready(const Stream& stream);
  [[nodiscard]] std::span<Stream> streamsOf(Lane lane);
  // The addresses in the order in which the stream dials them.
  [[nodiscard]] std::vector<PeerAddress> addressesOf(std::size_t index) const;
  void dialMissing(Lane lane);
  [[nodiscard]] bool listed(const PeerAddress& address) const;

  Reactor& reactor_;
  Gate& gate_;
  Dialler& dialler_;
  PeerIdentity identity_;
  // The first stream is for control messages, the second for small transfers, the others for
  // payloads.
  std::vector<Stream> streams_;
  std::uint32_t firstAddress_;
  std::shared_ptr<PeerStatistics> account_;
  std::shared_ptr<RdmaRails> rdma_;  // null: there is no RDMA here
  Event changed_;                    // a dial has ended
  bool left_ = false;
  Error lastError_;  // of the last dial that failed; when left, the reason
};

}  // namespace hearth
