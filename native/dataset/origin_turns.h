// How much of one dataset this agent fetches from the origin at the same time. Any thread.
//
// An agent that wants a dataset alone may use the origin's whole speed. Where N agents want it,
// each takes a part of that, at least one request: then few chunks are under way, each comes in
// soon, and goes on to the others while the next ones are fetched. If each took all that it could,
// everything would come in at the same time, at the end, and only then could agents begin to
// exchange it.
//
// Agents do not begin at the same instant, and the first does not know of the others yet: so
// everybody begins with one request at a time, and each that comes in allows one more.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "base/generated/constants.h"
#include "reactor/synchronization.h"

namespace hearth {

class OriginTurns {
 public:
  // Of all agents together, while that leaves each its least.
  static constexpr std::uint64_t kBytes = 16 * std::uint64_t{kChunkBytes};
  static constexpr std::uint64_t kMinBytes = 2 * std::uint64_t{kChunkBytes};

  // A place in the queue, and later the turn itself; given up when it goes. `wait` on the
  // thread of the reactor that it was asked for with.
  class Turn {
   public:
    Turn() = default;
    Turn(Turn&&) = default;
    Turn& operator=(Turn&& other) noexcept {
      std::swap(turns_, other.turns_);
      std::swap(request_, other.request_);
      return *this;
    }
    ~Turn() { end(); }

    [[nodiscard]] bool asked() const { return request_ != nullptr; }
    // Its bytes may be fetched.
    [[nodiscard]] bool held() const;
    // Ends when it is held, or at the deadline. It keeps its place.
    [[nodiscard]] Task<void> wait(Clock::time_point deadline);
    // Held at once, if it was asked for: a reader waits for its bytes now. On the thread of its
    // reactor.
    void force();
    void end() { end(0); }
    // After `fetched` bytes came in.
    void end(std::uint64_t fetched);

   private:
    friend OriginTurns;
    struct Request;
    Turn(OriginTurns* turns, std::shared_ptr<Request> request)
        : turns_(turns), request_(std::move(request)) {}
    OriginTurns* turns_ = nullptr;
    std::shared_ptr<Request> request_;
  };

  OriginTurns() = default;
  // So many bytes at a time, of one agent, from the start on.
  explicit OriginTurns(std::uint64_t bytes) : most_(bytes), least_(bytes) {}
  OriginTurns(const OriginTurns&) = delete;
  OriginTurns& operator=(const OriginTurns&) = delete;

  // In the order of the calls; held at once when no other waits and there is room.
  [[nodiscard]] Turn ask(Reactor& reactor, std::uint64_t bytes);
  // Held at once, whatever is under way: for bytes that a reader waits for.
  [[nodiscard]] Turn force(Reactor& reactor, std::uint64_t bytes);
  // Agents that want the bytes, we among them.
  void setSharers(std::uint32_t sharers);
  // As it was set last.
  [[nodiscard]] std::uint32_t sharers() const;

 private:
  [[nodiscard]] bool fits(const Turn::Request& request) const;
  void serve();

  const std::uint64_t most_ = kBytes, least_ = kMinBytes;
  mutable std::mutex mutex_;
  std::uint64_t underWay_ = 0;
  std::uint64_t cameIn_ = 0;  // since nothing was under way
  std::uint32_t sharers_ = 1;
  std::list<std::shared_ptr<Turn::Request>> waiting_;
};

}  // namespace hearth
