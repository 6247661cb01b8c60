// Requests between reactors of this process, and their answers. For memory_network.h.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/result.h"
#include "reactor/synchronization.h"

namespace hearth::testing_rails {

// Work for a reactor that may have gone. Any thread.
class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  explicit Mailbox(Reactor& reactor) : reactor_(&reactor) {}
  // Drops the function when the mailbox is closed before its turn comes.
  void post(std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    if (reactor_ == nullptr) return;
    reactor_->post([self = shared_from_this(), function = std::move(function)] {
      if (self->open()) function();
    });
  }
  // On the reactor's thread.
  void close() {
    const std::lock_guard lock(mutex_);
    reactor_ = nullptr;
  }

 private:
  [[nodiscard]] bool open() {
    const std::lock_guard lock(mutex_);
    return reactor_ != nullptr;
  }

  std::mutex mutex_;
  Reactor* reactor_;
};

struct Answer {
  std::uint16_t type = 0;
  std::vector<std::byte> bytes;
  std::vector<std::uint32_t> checksums;
};

// One request, on the thread of its asker.
struct PendingCall {
  explicit PendingCall(Reactor& reactor) : ended(reactor) {}
  Event ended;
  std::optional<Result<Answer>> answer;
};
// The other side's end of one request: tells the asker also when it goes unanswered.
class Reply {
 public:
  Reply(std::shared_ptr<Mailbox> asker, std::shared_ptr<PendingCall> pending)
      : asker_(std::move(asker)), pending_(std::move(pending)) {}
  ~Reply() {
    if (pending_ == nullptr) return;
    give(Error{ErrorCode::kUnavailable, "the other side has ended"});
  }
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
  void give(Result<Answer> answer) {
    auto pending = std::exchange(pending_, nullptr);
    auto kept = std::make_shared<Result<Answer>>(std::move(answer));
    asker_->post([pending, kept] {
      pending->answer = std::move(*kept);
      pending->ended.set();
    });
  }

 private:
  std::shared_ptr<Mailbox> asker_;
  std::shared_ptr<PendingCall> pending_;
};

}  // namespace hearth::testing_rails
