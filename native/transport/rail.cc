#include "transport/rail.h"

namespace hearth {

RailRequest::RailRequest(Reactor& reactor, RailTransfer transfer)
    : transfer_(std::move(transfer)),
      checksums_(blocksOf(transfer_.memory.size())),
      settled_(reactor),
      released_(reactor) {}

RailRequest::Posted RailRequest::create(Reactor& reactor, RailTransfer transfer) {
  auto request = std::make_shared<RailRequest>(reactor, std::move(transfer));
  auto work = std::make_unique<RailWork>(request);
  return {std::move(request), std::move(work)};
}

Task<bool> RailRequest::awaitSettled(Clock::time_point deadline) {
  co_await settled_.waitUntil(deadline);
  co_return settled_.isSet();
}

Task<bool> RailRequest::awaitReleased(Clock::time_point deadline) {
  co_await released_.waitUntil(deadline);
  co_return released_.isSet();
}

bool RailRequest::cancel() {
  if (!cancelled_ && !released_.isSet()) {
    cancelled_ = true;
    if (!settled_.isSet()) {
      outcome_ = {Error{ErrorCode::kCancelled, "no reader waits for these bytes any more"}, false};
      settled_.set();
    }
    // `then` may destroy the work, and with that all but our caller's reference.
    if (const std::function<void()> then = std::exchange(onCancel_, {})) then();
  }
  return released_.isSet();
}

RailWork::RailWork(std::shared_ptr<RailRequest> request) : request_(std::move(request)) {}

RailWork::~RailWork() {
  settle({Error{ErrorCode::kUnavailable, "the connection dropped the request"}, false});
  request_->onCancel_ = {};
  request_->released_.set();
}

void RailWork::settle(Outcome outcome) {
  if (request_->settled()) return;
  request_->outcome_ = std::move(outcome);
  request_->settled_.set();
}

}  // namespace hearth
