// The asking side of an RDMA endpoint to a peer: a Rail on which the peer answers reads by writes
// into a window of the reader's memory. Where the device has no windows the bytes come in messages,
// a block in each, into receives of the endpoint, from which they are copied. Requests and answers
// are frames of the wire protocol (ReadRequest, ReadAnswer). The rail is made over an authenticated
// connection, and ends with it. On the reactor's thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/client_connection.h"
#include "transport/peer_liveness.h"
#include "transport/rail.h"
#include "transport/rate_meter.h"
#include "transport/rdma_channel.h"
#include "verbs/window.h"

namespace hearth {

class RdmaRail final : public Rail, public std::enable_shared_from_this<RdmaRail> {
 public:
  // The parts that a rail uses. The references must remain live while the rail is used.
  struct With {
    Reactor& reactor;
    Gate& gate;
    RdmaShard& shard;
    std::uint32_t port;  // its number among our ports, of which account->rdmaRails has an entry
    std::shared_ptr<PeerStatistics> account;
    std::shared_ptr<ClientConnection> control;
  };
  // Exchanges addresses over `with.control` and proves the path by a message in each direction.
  // kUnsupported: the other agent has no RDMA.
  [[nodiscard]] static Task<Result<std::shared_ptr<RdmaRail>>> connect(With with,
                                                                       Clock::time_point deadline);
  explicit RdmaRail(With with);
  ~RdmaRail() override;

  void post(std::vector<std::unique_ptr<RailWork>> batch) override;
  [[nodiscard]] bool usable() const override;
  [[nodiscard]] bool paused() override { return !usable(); }
  // True for reads into one piece of memory that the device knows; without windows, into host
  // memory. False while as many requests wait as may be asked at once.
  [[nodiscard]] bool reaches(const RailTransfer& transfer) const override;
  [[nodiscard]] std::uint64_t load() const override { return load_; }
  [[nodiscard]] double bytesPerSecond() const override {
    return meter_.bytesPerSecond(Clock::now());
  }

  // Ends the rail now.
  void fail(Error reason) { channel_->fail(std::move(reason)); }
  // Ends the rail when its port is down, or the connection over which it was made has ended.
  void check();
  // Waits until the rail has ended, or nothing has gone over it for `idle`: then it closes the
  // rail, and failure() is kCancelled.
  [[nodiscard]] Task<void> awaitEnd(Clock::duration idle);
  [[nodiscard]] Error failure() const { return channel_->failure(); }

 private:
  // A request under way; in the frame of its coroutine.
  struct Reading {
    Event changed;
    MemoryVector into = {};  // of an answer that comes in a message
    std::optional<Result<ReadAnswer>> answer = std::nullopt;
    bool cancelled = false;
    std::vector<Reading*> parts = {};
    void cancel();
  };

  [[nodiscard]] bool hasWindows() const { return with_.shard.device()->limits().hasWindows; }
  [[nodiscard]] RailStatistics& statistics() { return with_.account->rdmaRails[with_.port]; }
  [[nodiscard]] Task<Status> prove(Clock::time_point deadline);
  static Task<void> carry(std::shared_ptr<RdmaRail> self, std::unique_ptr<RailWork> work);
  void account(const Outcome& outcome, std::uint64_t bytes, Clock::time_point began);
  [[nodiscard]] Status onFrame(const RdmaChannel::Frame& frame);
  void onEnd();

  // rdma_reads.cc
  [[nodiscard]] Task<Outcome> read(RailWork& work, Reading& reading);
  [[nodiscard]] Task<Outcome> readInto(RailWork& work, Reading& reading, Window& window);
  [[nodiscard]] Task<Outcome> readByMessages(RailWork& work, Reading& reading);
  [[nodiscard]] Task<void> readBlock(RailWork& work, std::size_t block, Reading& whole,
                                     Outcome& outcome);
  // Waits until one more request may be asked. False: none may, and the answer says why unless it
  // is cancelled.
  [[nodiscard]] Task<bool> admit(Reading& reading);
  // Once admitted: sends a request and waits for its answer.
  [[nodiscard]] Task<void> ask(ReadRequest request, Reading& reading, RailWork& work);
  // Waits, and looks meanwhile whether the path is alive: a dead path ends the requests.
  [[nodiscard]] Task<void> awaitAnswer(Reading& reading, Clock::time_point until);
  [[nodiscard]] Task<void> awaitDone(Event& done);
  void look();
  // Compares the memory, which is closed to the other side, with the answer's checksums.
  [[nodiscard]] static Outcome judge(const MemoryVector& memory,
                                     const std::optional<Result<ReadAnswer>>& answer,
                                     std::span<std::uint32_t> checksums);

  const With with_;
  std::unique_ptr<RdmaChannel> channel_;
  std::vector<std::unique_ptr<Window>> windows_;  // closed ones; must end before the channel
  const std::uint32_t most_;                      // requests that may be unanswered
  Semaphore requests_;                            // a request holds one until its answer has come
  Event changed_;                                 // the path is proved, or has ended
  PeerLiveness liveness_;
  RateMeter meter_;
  // Unanswered requests by their id; null: nobody waits for the answer any more.
  std::map<std::uint64_t, Reading*> readings_;
  std::uint64_t lastId_ = 0, load_ = 0;
  std::uint32_t underWay_ = 0;  // reads
  Clock::time_point lastUsed_ = Clock::now();
  bool closing_ = false;
};

}  // namespace hearth
