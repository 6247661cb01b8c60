#include "transport/rdma_rails.h"

#include <algorithm>
#include <utility>

namespace hearth {
namespace {

// How long an endpoint may take to connect, and the pause before a peer without RDMA is asked
// again.
constexpr Clock::duration kConnectTimeout = std::chrono::seconds(3);
constexpr Clock::duration kAbsent = std::chrono::minutes(1);
// An endpoint that has lived so long was sound: its failure begins a new series.
constexpr Clock::duration kSound = std::chrono::seconds(10);
constexpr char kPortDown[] = "the RDMA port has gone down";

}  // namespace

RdmaRails::RdmaRails(Reactor& reactor, Gate& gate, std::span<RdmaShard* const> shards,
                     std::shared_ptr<PeerStatistics> account)
    : reactor_(reactor), gate_(gate), account_(std::move(account)) {
  for (RdmaShard* const shard : shards) ports_.push_back({.shard = shard});
}

std::vector<std::shared_ptr<Rail>> RdmaRails::usable(const Control& control) {
  std::vector<std::shared_ptr<Rail>> rails;
  for (std::size_t index = 0; index < ports_.size() && !left_; ++index) {
    Port& port = ports_[index];
    pauseWhileDown(index);
    if (port.rail && port.rail->usable()) {
      rails.push_back(port.rail);
      continue;
    }
    if (port.rail) port.rail->check();
    if (port.running || port.wasDown || !port.pause.isOver()) continue;
    port.running = true;
    gate_.spawn(run(shared_from_this(), index, control));
  }
  return rails;
}

void RdmaRails::pauseWhileDown(std::size_t index) {
  Port& port = ports_[index];
  const bool isDown = !port.shard->device()->usable();
  if (std::exchange(port.wasDown, isDown) == isDown) return;
  // The port's failures before it went down say nothing now.
  port.pause.reset();
  if (!isDown) return;
  account_->rdmaRails[index].error = kPortDown;
  if (port.rail) port.rail->check();
  describe();
}

Task<Result<std::shared_ptr<RdmaRail>>> RdmaRails::connect(std::size_t index,
                                                           const Control& control) {
  const Clock::time_point deadline = Clock::now() + kConnectTimeout;
  Task<Result<std::shared_ptr<ClientConnection>>> picking = control(deadline);
  const Result<std::shared_ptr<ClientConnection>> picked = co_await picking;
  if (!picked.ok()) co_return picked.error();
  Task<Result<std::shared_ptr<RdmaRail>>> connecting =
      RdmaRail::connect({.reactor = reactor_,
                         .gate = gate_,
                         .shard = *ports_[index].shard,
                         .port = static_cast<std::uint32_t>(index),
                         .account = account_,
                         .control = *picked},
                        deadline);
  co_return co_await connecting;
}

Task<void> RdmaRails::run(std::shared_ptr<RdmaRails> self, std::size_t index, Control control) {
  Port& port = self->ports_[index];
  Task<Result<std::shared_ptr<RdmaRail>>> connecting = self->connect(index, control);
  Result<std::shared_ptr<RdmaRail>> connected = co_await connecting;
  // `control` keeps the peer, which the rest does not need.
  control = {};
  if (!connected.ok() || self->left_) {
    self->ended(index, connected.ok() ? Error{ErrorCode::kCancelled, {}} : connected.error(), {});
    co_return;
  }
  const std::shared_ptr<RdmaRail> rail = std::move(*connected);
  const Clock::time_point since = Clock::now();
  port.rail = rail;
  self->account_->rdmaRails[index].error.clear();
  self->describe();
  Task<void> ending = rail->awaitEnd(port.shard->times().idle);
  co_await ending;
  port.rail.reset();
  self->ended(index, rail->failure(), since);
}

void RdmaRails::ended(std::size_t index, const Error& error,
                      std::optional<Clock::time_point> since) {
  Port& port = ports_[index];
  RailStatistics& statistics = account_->rdmaRails[index];
  port.running = false;
  if (left_) return;
  if (error.code == ErrorCode::kCancelled) {
    statistics.idleCloses += since ? 1 : 0;
    port.pause.reset();
    return describe();
  }
  // Gives that reason to an endpoint that was connecting when its port went down, whatever it saw.
  statistics.error = port.wasDown ? kPortDown : error.message;
  if (since) {
    ++statistics.pauses;
    ++statistics.failures;
    ++account_->rdmaFailures;
    if (Clock::now() - *since >= kSound) port.pause.forget();
  }
  if (error.code == ErrorCode::kUnsupported) {
    port.pause.pause(kAbsent);
  } else {
    port.pause.failed();
  }
  describe();
}

void RdmaRails::describe() {
  for (std::size_t index = 0; index < ports_.size(); ++index)
    account_->rdmaRails[index].usable = ports_[index].rail != nullptr;
  account_->describeRdma();
}

void RdmaRails::leave(const Error& reason) {
  left_ = true;
  for (const Port& port : ports_)
    if (port.rail) port.rail->fail(reason);
}

}  // namespace hearth
