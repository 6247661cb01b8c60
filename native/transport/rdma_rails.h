// The RDMA endpoints to one peer, one for each port of ours. A rail is none -> connecting -> usable
// -> none ... A read that wants a rail connects it; an idle rail is closed. After a failure it
// connects only after a pause, which grows with failures that follow soon. A port that is down has
// no rail; when it is back, the next read connects one, which proves the path. On the reactor's
// thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/back_off.h"
#include "transport/rdma_rail.h"

namespace hearth {

class RdmaRails : public std::enable_shared_from_this<RdmaRails> {
 public:
  // Returns a connection for control messages to that peer.
  using Control = std::function<Task<Result<std::shared_ptr<ClientConnection>>>(RequestTimeouts)>;

  // All arguments must remain live while this object is used. `account->rdmaRails` has an entry for
  // each of `shards`, in their order.
  RdmaRails(Reactor& reactor, Gate& gate, std::span<RdmaShard* const> shards,
            std::shared_ptr<PeerStatistics> account);

  // The rails that take reads now. Connects missing ones, for which it keeps `control`.
  [[nodiscard]] std::vector<std::shared_ptr<Rail>> usable(const Control& control);
  // Ends all rails with `reason`, and connects no more.
  void leave(const Error& reason);

 private:
  struct Port {
    RdmaShard* shard = nullptr;
    std::shared_ptr<RdmaRail> rail;  // null unless it is usable
    bool running = false;
    bool wasDown = false;
    BackOff pause;
  };

  // The life of one rail, from connecting to its end.
  static Task<void> run(std::shared_ptr<RdmaRails> self, std::size_t index, Control control);
  [[nodiscard]] Task<Result<std::shared_ptr<RdmaRail>>> connect(std::size_t index,
                                                                const Control& control);
  // The rail at `index` has ended, having been connected at `since`; or was not connected.
  void ended(std::size_t index, const Error& error, std::optional<Clock::time_point> since);
  void pauseWhileDown(std::size_t index);
  void describe();

  Reactor& reactor_;
  Gate& gate_;
  const std::shared_ptr<PeerStatistics> account_;
  std::vector<Port> ports_;
  bool left_ = false;
};

}  // namespace hearth
