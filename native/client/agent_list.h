// The agents that the threads of a client ask, and which of them answers. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/peer_transport.h"

namespace hearth::gd2fs {

class AgentList {
 public:
  // Named by their addresses, of no incarnation; never empty.
  using Agents = std::vector<PeerIdentity>;
  // Returns the addresses as they are now; none where they cannot change, or cannot be read.
  using Find = std::function<std::vector<PeerAddress>()>;

  AgentList(const std::vector<PeerAddress>& agents, Find find);

  [[nodiscard]] std::shared_ptr<const Agents> now() const;
  // Looks for other addresses, by a small file: for a thread to which no agent has answered.
  void lookAgain();

  // The place in now() of the agent that has answered last; the list may have become shorter.
  std::atomic<std::size_t> preferred{0};
  std::atomic<bool> closing{false};

 private:
  const Find find_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Agents> agents_;
};

}  // namespace hearth::gd2fs
