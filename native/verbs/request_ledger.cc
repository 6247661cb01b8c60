#include "verbs/request_ledger.h"

#include <algorithm>

namespace hearth {

std::size_t RequestLedger::before(std::uint64_t sequence) const {
  const auto found = std::ranges::lower_bound(requests_, sequence, {},
                                              [](const Request& each) { return each.sequence; });
  if (found == requests_.end() || found->sequence != sequence) return size();
  return static_cast<std::size_t>(found - requests_.begin());
}

bool RequestLedger::succeed(std::uint64_t sequence) {
  const std::size_t count = before(sequence);
  if (count == size()) return false;
  retire(count + 1, Status());
  return true;
}

bool RequestLedger::fail(std::uint64_t sequence, const Error& error, bool isFlush) {
  const std::size_t count = before(sequence);
  if (count == size()) return false;
  retire(count, isFlush ? Status(error) : Status());
  retire(1, error);
  return true;
}

void RequestLedger::retire(std::size_t count, const Status& status) {
  for (; count != 0; --count) {
    const Request request = std::move(requests_.front());
    requests_.pop_front();
    if (request.transfer == nullptr) continue;
    // Of a transfer that was refused in the middle the end has been told.
    if (status.ok() && request.last) {
      if (request.transfer->kind == Transfer::Kind::kWrite && request.transfer->settled)
        bytesWritten_ += request.transfer->local.size();
      request.transfer->settle(status);
    } else if (!status.ok()) {
      request.transfer->settle(status);
    }
  }
}

void RequestLedger::settleAll(const Status& status) {
  // Settling may add requests at the end, of which the same is true.
  for (std::size_t at = 0; at < requests_.size(); ++at)
    if (requests_[at].transfer != nullptr) requests_[at].transfer->settle(status);
}

}  // namespace hearth
