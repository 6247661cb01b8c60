// What a connection has to send, and the coroutine that sends it: several frames a system call,
// payloads from their own memory. What is lent is kept while nothing is waited for: its memory can
// be given back between any two system calls. It is sent in parts, each a frame of its own; of one
// that the socket took a piece of, the rest is copied at once. So a frame that has begun needs no
// lender's memory, and while what was given back comes from elsewhere, which may take long, all
// else is sent before it, also between two parts. On the reactor's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "memory/memory_vector.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/lent_parts.h"
#include "transport/peer_transport.h"

namespace hearth {

class SendQueue {
 public:
  struct Item {
    std::vector<std::byte> frame;  // none of what is lent
    std::span<const std::byte> payload;
    std::shared_ptr<const void> keep;             // owns the payload
    MemoryVector source = {};                     // more of the payload; host memory
    std::uint64_t requestId = 0;                  // of an answer; 0 for everything else
    std::shared_ptr<LentPayload> lent = nullptr;  // of a payload of that size
    LentParts parts = {};                         // of what is lent
    // Sent instead, or instead of the parts that are left, when what is lent can no longer be had.
    std::vector<std::byte> otherwise = {};
    // Sent instead of the parts that are left, as soon as none is being sent.
    std::vector<std::byte> withdrawn = {};
    bool begun = false;
    bool away = false;     // lent, and to be brought from elsewhere
    bool loading = false;  // is being brought
  };

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

  [[nodiscard]] std::size_t size() const { return items_.size(); }
  [[nodiscard]] bool idle() const { return items_.empty() && batch_.empty(); }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }  // bytes

 private:
  using Items = std::deque<Item>;
  // The first item that can be sent now; on the way there, what is away begins to be brought.
  [[nodiscard]] Items::iterator firstReady();
  // What is not lent, up to the first lent item that is here.
  void takeBatch();
  [[nodiscard]] Task<Status> sendItems(int fd);
  [[nodiscard]] Task<Status> sendBatch(int fd);
  // An item whose payload is lent and here. Leaves it at the head of the queue, between two parts,
  // when its memory is taken back or it is withdrawn.
  [[nodiscard]] Task<Status> sendLent(int fd, Items::iterator next);
  // What the socket takes at once.
  [[nodiscard]] Task<Status> sendParts(int fd, Item& item);
  // Brings what an item waits for.
  static Task<void> load(SendQueue& queue, std::shared_ptr<LentPayload> lent);
  void begin(Item& item);
  void handBack(Item& item);
  // The item is this frame from now on, and no payload.
  void replace(Item& item, std::vector<std::byte> frame);

  Reactor& reactor_;
  std::function<void(const Item&)> begun_, sentItem_;
  Event ready_;
  Gate loads_;
  std::size_t loading_ = 0;
  Items items_;
  std::vector<Item> batch_;    // being sent
  std::size_t lentBytes_ = 0;  // that queued items may keep in their owner's memory
  bool closed_ = false;
  std::uint64_t sent_ = 0;
};

}  // namespace hearth
