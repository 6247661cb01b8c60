// Completions of the endpoints of one thread and one device. The owner polls while there is
// something to take; after a few empty polls it arms the queue and waits for its descriptor, so an
// idle queue costs nothing. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/result.h"
#include "verbs/device.h"

namespace hearth {

// Why the request of a failed completion has failed.
[[nodiscard]] Error errorOf(const ibv_wc& completion);

class CompletionQueue {
 public:
  // Takes the completions of one queue pair.
  class Taker {
   public:
    virtual void onCompletion(const ibv_wc& completion) = 0;

   protected:
    ~Taker() = default;
  };

  // With room for `entries` completions at most, fewer where the device allows no more.
  [[nodiscard]] static Result<std::unique_ptr<CompletionQueue>> create(
      std::shared_ptr<RdmaDevice> device, std::uint32_t entries);
  ~CompletionQueue();  // after all endpoints
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  // Gives each completion that is there, at most `most`, to its queue pair; the number taken. A
  // completion of a queue pair that has gone is counted and dropped.
  std::uint32_t poll(std::uint32_t most = 64);
  // Asks for the descriptor to become readable at the next completion. The caller polls once more
  // afterwards, since one may have come before.
  [[nodiscard]] Status arm();
  // Readable after arm() and a completion.
  [[nodiscard]] int descriptor() const { return channel_->fd; }
  // Takes the events that made the descriptor readable, without waiting.
  void takeEvents();

  [[nodiscard]] std::uint64_t strays() const { return strays_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  [[nodiscard]] ibv_cq* queue() const { return queue_; }
  [[nodiscard]] RdmaDevice& device() const { return *device_; }

  // Of endpoints. A queue that overflows is lost with all queue pairs, so each reserves room for
  // everything that it may have under way. False: there is not so much left.
  [[nodiscard]] bool reserve(std::uint32_t entries);
  [[nodiscard]] bool hasRoom(std::uint32_t entries) const {
    return entries <= entries_ - reserved_;
  }
  void release(std::uint32_t entries) { reserved_ -= entries; }
  void add(std::uint32_t queuePair, Taker& taker) { takers_[queuePair] = &taker; }
  void remove(std::uint32_t queuePair) { takers_.erase(queuePair); }

 private:
  explicit CompletionQueue(std::shared_ptr<RdmaDevice> device) : device_(std::move(device)) {}

  const std::shared_ptr<RdmaDevice> device_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  std::uint32_t entries_ = 0, reserved_ = 0;
  std::uint64_t strays_ = 0, taken_ = 0;
  std::unordered_map<std::uint32_t, Taker*> takers_;
};

}  // namespace hearth
