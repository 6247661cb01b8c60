#include "fetch/slot_exchange.h"

#include <utility>

namespace hearth {

void SlotExchange::join(Reactor& reactor, SlotStock& stock, MemoryTier& tier) {
  members_.push_back({.reactor = reactor, .stock = stock, .tier = tier, .notBefore = {}});
}

void SlotExchange::open() {
  std::size_t all = 0;
  for (const Member& member : members_) all += member.stock.size();
  for (std::size_t self = 0; self < members_.size(); ++self) {
    std::size_t others = 0;
    for (const Member& each : members_) others += each.stock.floor();
    Member& member = members_[self];
    member.last = self;
    member.stock.setMore([this, self] { return want(self); },
                         all - (others - member.stock.floor()));
  }
  closed_ = members_.size() < 2;
}

bool SlotExchange::want(std::size_t self) {
  Member& member = members_[self];
  if (closed_.load(std::memory_order_relaxed)) return false;
  if (member.asking) return true;
  if (Clock::now() < member.notBefore) return false;
  member.asking = true;
  // Asks the member that gave last first.
  const std::size_t first = member.last == self ? following(self) : member.last;
  ask({self, first, members_.size() - 2, member.tier.claim()});
  return true;
}

void SlotExchange::ask(const Request& request) {
  members_[request.asked].reactor.post([this, request] { answer(request); });
}

void SlotExchange::answer(const Request& request) {
  std::vector<const ChunkSlot*> slots;
  if (!closed_.load(std::memory_order_relaxed))
    slots = give(members_[request.asked], request.claim);
  members_[request.asker].reactor.post(
      [this, request, slots = std::move(slots)] { receive(request, slots); });
}

std::vector<const ChunkSlot*> SlotExchange::give(Member& asked, const MemoryTier::Claim& claim) {
  std::vector<const ChunkSlot*> slots = asked.stock.lend(kBatch);
  if (!slots.empty()) return slots;
  while (slots.size() < kBatch && asked.stock.mayLend() && asked.tier.yieldTo(claim)) {
    const std::vector<const ChunkSlot*> more = asked.stock.lend(kBatch - slots.size());
    slots.insert(slots.end(), more.begin(), more.end());
  }
  return slots;
}

void SlotExchange::receive(const Request& request, const std::vector<const ChunkSlot*>& slots) {
  Member& member = members_[request.asker];
  if (slots.empty() && request.others > 0) {
    Request next = request;
    next.asked = following(request.asked);
    if (next.asked == request.asker) next.asked = following(next.asked);
    --next.others;
    ask(next);
    return;
  }
  member.asking = false;
  member.last = request.asked;
  if (slots.empty()) {
    member.notBefore = Clock::now() + kPause;
  } else {
    moved_.fetch_add(slots.size(), std::memory_order_relaxed);
  }
  member.stock.receive(slots);
}

}  // namespace hearth
