// What a connection has to send, and the coroutine that sends it: several small frames a system
// call, payloads from their own memory. Which goes next is for SendLanes to say, again after each
// slice of a large answer; what has gone to the kernel and is not on its way is two slices at most.
// What is lent is kept while nothing is waited for: its memory can be given back between any two
// system calls. Of a slice of it that the socket took a piece of, the rest is copied at once. So a
// frame that has begun needs no lender's memory, and while what was given back comes from
// elsewhere, which may take long, all else is sent before it. On the reactor's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/send_lanes.h"

namespace hearth {

class SendQueue {
 public:
  using Item = SendItem;

  // `begun` is called with each item that has a request id, just before its first byte is sent:
  // from then on the other side may count its request as answered. `sent` is called when the queue
  // has let go of the payload of an item that has a request id and is not lent: it was sent, or
  // could not be. `reactor` must remain live while this object is used.
  SendQueue(Reactor& reactor, std::function<void(const Item&)> begun,
            std::function<void(const Item&)> sent);

  void push(Item item);
  // Replaces an item that has a payload and has not begun, or the parts of one that have not, by
  // `frame` alone, or by nothing when that is empty; false when there is none.
  bool withdraw(std::uint64_t requestId, std::vector<std::byte> frame);
  // Sends until close() or an error, and until nothing loads any more. Once.
  [[nodiscard]] Task<Status> run(int fd);
  // Drops what is queued and ends run(), as soon as what it is sending is done or fails.
  void close();

  [[nodiscard]] std::size_t size() const { return lanes_.size(); }
  [[nodiscard]] bool idle() const { return lanes_.size() == 0 && batch_.empty(); }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }  // bytes

 private:
  // Whether it can be sent now; what is away begins to be brought.
  [[nodiscard]] bool isReady(Item& item);
  // Small frames up to the first that is lent and here; else the item there, or its next slice.
  void takeBatch(SendLanes::Position next);
  void takeSlice(SendLanes::Position from);
  [[nodiscard]] Task<Status> sendItems(int fd);
  // Until the kernel takes a slice at once.
  [[nodiscard]] Task<Status> writable(int fd);
  [[nodiscard]] Task<Status> sendBatch(int fd);
  // A part of an item whose payload is lent and here. Leaves the item in its lane, between two
  // parts.
  [[nodiscard]] Task<Status> sendLent(int fd, SendLanes::Position next);
  // What the socket takes at once.
  [[nodiscard]] Task<Status> sendParts(int fd, Item& item);
  // Brings what an item waits for.
  static Task<void> load(SendQueue& queue, std::shared_ptr<LentPayload> lent);
  // What was brought may be in its owner's memory again: what goes beyond the bound is given back
  // once more. The first of a lane stays, as else it would be brought for ever.
  void keepWithinBound();
  void begin(Item& item);
  void handBack(Item& item);
  // The item is this frame from now on, and no payload.
  void replace(Item& item, std::vector<std::byte> frame);

  Reactor& reactor_;
  std::function<void(const Item&)> begun_, sentItem_;
  Event ready_;
  Gate loads_;
  std::size_t loading_ = 0;
  SendLanes lanes_;
  std::vector<Item> batch_;    // being sent
  std::size_t lentBytes_ = 0;  // that queued items may keep in their owner's memory
  bool closed_ = false;
  std::uint64_t sent_ = 0;
};

}  // namespace hearth
