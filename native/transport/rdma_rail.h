// The asking side of an RDMA endpoint to a peer: a Rail on which reads are answered by writes into
// a window of the reader's memory. Requests and answers are frames of the wire protocol
// (ReadRequest with a target, ReadAnswer without a payload) in messages of the endpoint. It is made
// over an authenticated connection, and ends with it. On the reactor's thread.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "transport/client_connection.h"
#include "transport/rail.h"
#include "transport/rdma_shard.h"
#include "verbs/window.h"

namespace hearth {

class RdmaRail final : public Rail, public std::enable_shared_from_this<RdmaRail> {
 public:
  // Exchanges addresses over `control` and proves the path by a message in each direction. The
  // references must remain live while the result is used. kUnsupported: this device has no windows,
  // or the other agent no RDMA.
  [[nodiscard]] static Task<Result<std::shared_ptr<RdmaRail>>> connect(
      Reactor& reactor, Gate& gate, RdmaShard& shard, std::shared_ptr<ClientConnection> control,
      std::shared_ptr<PeerStatistics> account, Clock::time_point deadline);
  RdmaRail(Reactor& reactor, Gate& gate, std::shared_ptr<ClientConnection> control,
           std::shared_ptr<PeerStatistics> account);
  ~RdmaRail() override;

  void post(std::vector<std::unique_ptr<RailWork>> batch) override;
  [[nodiscard]] bool usable() const override;
  [[nodiscard]] bool paused() override { return !usable(); }
  // Reads into one piece of memory that the device knows.
  [[nodiscard]] bool reaches(const RailTransfer& transfer) const override;
  [[nodiscard]] std::uint64_t load() const override { return load_; }
  // Ends it now.
  void fail(Error reason);

 private:
  // A read that is under way; in the frame of its carry().
  struct Reading {
    Event changed;
    std::optional<Result<ReadAnswer>> answer = std::nullopt;
    bool cancelled = false;
  };

  static Task<void> carry(std::shared_ptr<RdmaRail> self, std::unique_ptr<RailWork> work);
  [[nodiscard]] Task<Outcome> read(RailWork& work, Reading& reading);
  [[nodiscard]] Task<Outcome> readInto(RailWork& work, Reading& reading, Window& window);
  // The range is closed to the other side. Its bytes are what the answer's checksums say.
  [[nodiscard]] static Outcome judge(RailWork& work, const Result<ReadAnswer>& answer);
  [[nodiscard]] Status send(std::span<const std::byte> frame);
  void onMessage(const Endpoint::Message& message);
  void onFailure();

  Reactor& reactor_;
  Gate& gate_;
  RdmaShard* shard_ = nullptr;
  const std::shared_ptr<ClientConnection> control_;
  const std::shared_ptr<PeerStatistics> account_;
  std::unique_ptr<Endpoint> endpoint_;
  std::vector<std::unique_ptr<Window>> windows_;  // that are closed; end before the endpoint
  Semaphore requests_;
  Event proved_;
  bool hasProof_ = false;
  bool probing_ = false;                        // a ping is out
  std::map<std::uint64_t, Reading*> readings_;  // by request id
  std::uint64_t lastId_ = 0, load_ = 0;
};

}  // namespace hearth
