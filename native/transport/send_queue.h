// The items that a connection has to send, and the coroutine that sends them: several small frames
// a system call, payloads from their own memory. SendLanes decides which item goes next, again
// after each slice of a large answer; at most two slices wait in the kernel. The queue holds lent
// payloads only while it does not wait: their memory can be given back between any two system
// calls. When the socket has taken a piece of a lent slice, the queue copies the rest at once. So a
// frame that has begun needs no lender's memory, and while bytes that were given back come from
// elsewhere, which may take long, everything else is sent before them. On the reactor's thread.
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

  // Calls `begun` with each item that has a request id, just before its first byte is sent: from
  // then on the other side may count its request as answered. Calls `sent` when the queue has let
  // go of the payload of an item that has a request id and is not lent: it was sent, or could not
  // be. `reactor` must remain live while this object is used.
  SendQueue(Reactor& reactor, std::function<void(const Item&)> begun,
            std::function<void(const Item&)> sent);

  void push(Item item);
  // Replaces an item that has a payload and has not begun, or the parts of one that have not begun,
  // by `frame` alone, or by nothing when that is empty. False: there is none.
  bool withdraw(std::uint64_t requestId, std::vector<std::byte> frame);
  // Sends until close() or an error, and until nothing loads any more. Call once.
  [[nodiscard]] Task<Status> run(int fd);
  // Drops queued items and ends run() as soon as the item being sent is done or fails.
  void close();

  [[nodiscard]] std::size_t size() const { return lanes_.size(); }
  [[nodiscard]] bool idle() const { return lanes_.size() == 0 && batch_.empty(); }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }  // bytes

 private:
  // True: the item can be sent now. Begins to load an item that is away.
  [[nodiscard]] bool isReady(Item& item);
  // Takes small frames up to the first lent item that is here; else the item at `next`, or its next
  // slice.
  void takeBatch(SendLanes::Position next);
  void takeSlice(SendLanes::Position from);
  [[nodiscard]] Task<Status> sendItems(int fd);
  // Waits until the kernel takes a slice at once.
  [[nodiscard]] Task<Status> writable(int fd);
  [[nodiscard]] Task<Status> sendBatch(int fd);
  // Sends a part of an item whose lent payload is here. Leaves the item in its lane, between two
  // parts.
  [[nodiscard]] Task<Status> sendLent(int fd, SendLanes::Position next);
  // Sends as much as the socket takes at once.
  [[nodiscard]] Task<Status> sendParts(int fd, Item& item);
  // Loads the payload that an item waits for.
  static Task<void> load(SendQueue& queue, std::shared_ptr<LentPayload> lent);
  // A loaded payload may be in its owner's memory again: gives back bytes beyond the bound once
  // more. The first item of a lane keeps its payload; otherwise it would load for ever.
  void keepWithinBound();
  void begin(Item& item);
  void handBack(Item& item);
  // Makes the item this frame, without a payload.
  void replace(Item& item, std::vector<std::byte> frame);

  Reactor& reactor_;
  std::function<void(const Item&)> begun_, sentItem_;
  Event ready_;
  Gate loads_;
  std::size_t loading_ = 0;
  SendLanes lanes_;
  std::vector<Item> batch_;    // being sent
  std::size_t lentBytes_ = 0;  // in owners' memory, kept by queued items
  bool closed_ = false;
  std::uint64_t sent_ = 0;
};

}  // namespace hearth
