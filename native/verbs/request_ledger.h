// The work requests that a device has of one queue pair, in the order in which it completes them,
// and whose they are. Only some are signalled: a completion ends all requests before its own, which
// have succeeded, since a request that fails always completes. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "verbs/transfer.h"

namespace hearth {

class RequestLedger {
 public:
  // Ascending. `transfer`: whose request this is; null: a marker, of nobody.
  void add(std::uint64_t sequence, Transfer* transfer, bool signalled) {
    requests_.push_back({sequence, transfer, signalled});
  }
  // The newest request is the last one of that transfer, which lives until the request has ended.
  void own(std::unique_ptr<Transfer> transfer) { requests_.back().last = std::move(transfer); }

  // Ends the requests up to that of the completion and settles transfers: with success, or with
  // `error` the request itself. `isFlush`: the completion says nothing of the requests before it,
  // which count as failed too. False: there is no such request. Settling may add requests.
  [[nodiscard]] bool succeed(std::uint64_t sequence);
  [[nodiscard]] bool fail(std::uint64_t sequence, const Error& error, bool isFlush);
  // Settles all transfers; the device still has their requests.
  void settleAll(const Status& status);

  [[nodiscard]] std::size_t size() const { return requests_.size(); }
  [[nodiscard]] bool empty() const { return requests_.empty(); }
  // The newest request has no signal, so nothing would tell of its end.
  [[nodiscard]] bool needsMarker() const {
    return !requests_.empty() && !requests_.back().signalled;
  }
  // The newest request is one of that transfer.
  [[nodiscard]] bool endsWith(const Transfer& transfer) const {
    return !requests_.empty() && requests_.back().transfer == &transfer;
  }
  // Of writes that have succeeded.
  [[nodiscard]] std::uint64_t bytesWritten() const { return bytesWritten_; }

 private:
  struct Request {
    std::uint64_t sequence;
    Transfer* transfer;
    bool signalled;
    std::unique_ptr<Transfer> last = nullptr;
  };
  // How many requests there are before that one; size(): it is not among them.
  [[nodiscard]] std::size_t before(std::uint64_t sequence) const;
  void retire(std::size_t count, const Status& status);

  std::deque<Request> requests_;
  std::uint64_t bytesWritten_ = 0;
};

}  // namespace hearth
