// The switch of the fabric: faults on demand. Objects and packets are in in_process_objects.cc.
#include <utility>

#include "verbs/testing/in_process_objects.h"

namespace hearth::testing_verbs {

Fabric::Fabric() : state_(std::make_unique<State>()) {}
Fabric::~Fabric() = default;

void Fabric::judgeBy(Judge judge) {
  const FabricLock lock(state_->mutex);
  state_->judge = std::move(judge);
}

void Fabric::judgePostsBy(PostJudge judge) {
  const FabricLock lock(state_->mutex);
  state_->postJudge = std::move(judge);
}

void Fabric::resume() {
  const FabricLock lock(state_->mutex);
  for (const auto& [number, pair] : state_->pairs) state_->progress(*pair);
}

void Fabric::endReceiverRetries() {
  const FabricLock lock(state_->mutex);
  for (const auto& [number, pair] : state_->pairs) {
    if (!pair->waitsForReceive || pair->path.rnr_retry == 7) continue;
    ibv_wc done{};
    done.wr_id = pair->sends.front().request.wr_id;
    done.status = IBV_WC_RNR_RETRY_EXC_ERR;
    pair->sends.pop_front();
    state_->complete(*pair, done, pair->send_cq);
    state_->fail(*pair);
  }
}

void Fabric::setLink(std::uint8_t address, bool up) {
  const FabricLock lock(state_->mutex);
  Host* const host = state_->hostOf(address);
  host->linkUp = up;
  ibv_async_event event{};
  event.event_type = up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
  event.element.port_num = 1;
  state_->raise(*host, event);
}

void Fabric::remove(std::uint8_t address) {
  const FabricLock lock(state_->mutex);
  Host* const host = state_->hostOf(address);
  host->gone = true;
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  state_->raise(*host, event);
}

void Fabric::forgeCompletion(std::uint32_t queuePair, std::uint64_t id) {
  const FabricLock lock(state_->mutex);
  QueuePair& pair = *state_->pairs.at(queuePair);
  ibv_wc forged{};
  forged.wr_id = id;
  state_->complete(pair, forged, pair.send_cq);
}

Fabric::Counts Fabric::counts() const {
  const FabricLock lock(state_->mutex);
  return state_->counts;
}

std::size_t Fabric::objects() const {
  const FabricLock lock(state_->mutex);
  return state_->objects;
}

}  // namespace hearth::testing_verbs
