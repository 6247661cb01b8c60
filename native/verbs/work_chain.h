// The work requests of some transfers, linked in order as a device takes them. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "verbs/queue_pair.h"
#include "verbs/transfer.h"

namespace hearth {

class WorkChain {
 public:
  struct Entry {
    ibv_send_wr request{};
    std::size_t firstPiece = 0;
    std::size_t transfer = 0;
    bool last = false;  // of its transfer
    [[nodiscard]] bool signalled() const { return (request.send_flags & IBV_SEND_SIGNALED) != 0; }
  };

  // `pair` must remain live while this object is used.
  explicit WorkChain(const QueuePair& pair) : pair_(pair) {}

  // How many work requests a transfer takes. kUnsupported: the device does not know its memory;
  // kInvalidArgument: it is too large for the queue.
  [[nodiscard]] static Result<std::size_t> requestsOf(const QueuePair& pair,
                                                      const Transfer& transfer);
  // `count`: as requestsOf() says. A small message in memory that the device does not know is
  // copied.
  void add(std::unique_ptr<Transfer> transfer, std::size_t count);
  // Numbers the requests from `nextSequence` on, and signals every k-th, counted from
  // `sinceSignal`, and the last one; both go on. No transfer may be added afterwards.
  void link(std::uint64_t& nextSequence, std::uint32_t& sinceSignal);
  // The number of the entry whose request this is, from `from` on; none: it is not of this chain.
  [[nodiscard]] std::optional<std::size_t> indexOf(const ibv_send_wr* request,
                                                   std::size_t from) const;

  // Requests whose ownership has gone on are null.
  std::vector<std::unique_ptr<Transfer>> transfers;
  std::vector<Entry> entries;

 private:
  void addPiece(const MemorySlice& slice, bool inlined);
  void describe(Entry& entry, const Transfer& of, std::uint64_t remote) const;

  const QueuePair& pair_;
  std::vector<ibv_sge> pieces_;
};

}  // namespace hearth
