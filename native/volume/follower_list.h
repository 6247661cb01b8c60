// The leader's account of the nodes that may lead after it (R8): how far the log of each is, and
// which of them the store should list. Pure: no I/O, and the time comes with each call.
//
// The store's list is safe at every instant when two things hold. A node comes onto it when its log
// equals the leader's. And the leader answers no change while a node that may be on it lacks a
// record that was durable kMaxLag ago. A node may be on the list from the moment at which wanted()
// names it until a transaction without it has certainly succeeded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"

namespace hearth {

class FollowerList {
 public:
  using Time = Clock::time_point;
  static constexpr std::size_t kMaxFollowers = 2;
  static constexpr Clock::duration kMaxLag = std::chrono::seconds(1);
  // A node that was taken off comes back after this: each return costs two transactions if the node
  // cannot keep up.
  static constexpr Clock::duration kPause = std::chrono::seconds(10);

  // `listed`: as the transaction left them that began the term. `firstRecord`: the term's.
  // They are the candidates, too.
  FollowerList(const std::vector<std::string>& listed, std::uint64_t firstRecord, Time now);

  // Nodes that should have the log: at most kMaxFollowers are listed, in this order.
  void setCandidates(const std::vector<std::string>& nodes);
  // A transaction succeeded that wrote this list, which wanted() gave last.
  void setListed(const std::vector<std::string>& nodes);
  // The leader's log ends there, durably.
  void setDurable(std::uint64_t record, Time now);
  // The node's log is the leader's up to this record, which may be an earlier one than before.
  void setConfirmed(const std::string& node, std::uint64_t record);
  // The node's log has to begin anew, which it may when mayBeListed() is false.
  void setDiverged(const std::string& node);

  // The list that the store should have, sorted.
  [[nodiscard]] std::vector<std::string> wanted(Time now);
  // wanted() may have changed by then without another call. None: it will not.
  [[nodiscard]] std::optional<Time> nextChange(Time now) const;
  [[nodiscard]] bool mayBeListed(const std::string& node) const;
  [[nodiscard]] bool isCandidate(const std::string& node) const;

  // All nodes that may be listed have the term's first record. Nothing is answered before.
  [[nodiscard]] bool hasBegun() const;
  // None of them is late: changes are answered.
  [[nodiscard]] bool isInTime(Time now) const;
  // The last record that all of them have: no loss of a node undoes it.
  [[nodiscard]] std::uint64_t committed() const;
  // They have all that is durable.
  [[nodiscard]] bool isCommitted() const { return committed() >= durable_; }

  struct Row {
    std::string node;
    bool listed = false;  // or may be
    std::uint64_t confirmed = 0;
    std::uint64_t lag = 0;  // records
    Clock::duration lagTime{};
  };
  [[nodiscard]] std::vector<Row> rows(Time now) const;
  // How often a node was taken off because it was late or its log diverged.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  struct Node {
    std::optional<std::size_t> candidate;  // its place among them
    bool listed = false;                   // in the last list that was certainly written
    bool asked = false;                    // in a list that wanted() gave since
    bool leaving = false;                  // missing there
    bool diverged = false;
    std::uint64_t confirmed = 0;
    std::optional<Time> droppedAt;
    [[nodiscard]] bool mayBeListed() const { return listed || asked; }
  };
  // All records up to this one were durable at that time.
  struct Mark {
    std::uint64_t record = 0;
    Time at;
  };

  // Since when a durable record is missing there; none: none is.
  [[nodiscard]] std::optional<Time> behindSince(const Node& node) const;
  [[nodiscard]] bool isLate(const Node& node, Time now) const;
  [[nodiscard]] bool mayStay(const Node& node, Time now) const;
  [[nodiscard]] bool mayCome(const Node& node, Time now) const;

  const std::uint64_t firstRecord_;
  std::uint64_t durable_;
  std::map<std::string, Node> nodes_;
  std::deque<Mark> marks_;  // ascending; of the last kMaxLag, and one before
  std::uint64_t dropped_ = 0;
};

}  // namespace hearth
