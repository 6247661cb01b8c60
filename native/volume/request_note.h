// A request of the kernel that changes names, and the id of its change: kept where the agent's next
// start finds it, which the kernel sends the request again (rule R10 of docs/design/namespace.md).
// On the volume's reactor.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "namespace/ids.h"

namespace hearth {

// A change that a start of this node's agent has asked for.
struct AskedChange {
  tree::WideId incarnation{};
  std::uint64_t number = 0;
  bool operator==(const AskedChange&) const = default;
};

// Lives from before the change is sent until the request is answered: so long the leader keeps the
// change's answer.
class RequestNote {
 public:
  RequestNote() = default;
  RequestNote(const RequestNote&) = delete;
  RequestNote& operator=(const RequestNote&) = delete;
  virtual ~RequestNote() = default;

  // The change that an earlier start asked for; nothing: it had asked for none.
  [[nodiscard]] virtual std::optional<AskedChange> earlier() const = 0;
  // Before the change is sent. False: there is no room, and it must not be sent.
  [[nodiscard]] virtual bool keep(const AskedChange& asked) = 0;
  // `answered` is called when the note goes, or earlier: of its changes the last one counts.
  void onAnswered(std::function<void()> answered) {
    release();
    answered_ = std::move(answered);
  }

 protected:
  // By the destructor, unless the next start may still ask for the change.
  void release() {
    if (const auto answered = std::exchange(answered_, nullptr)) answered();
  }

 private:
  std::function<void()> answered_;
};

}  // namespace hearth
