// The receiver of a log's contents while the log is opened: a tree, or a follower's position alone.
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "namespace/namespace.h"

namespace hearth {

// A record of a volume's log, and the epoch of the leader that wrote it. Two logs that have a
// record of the same number and epoch are equal up to it: one leader at a time writes in an epoch,
// and a follower takes a record only behind the one that its leader has before it.
struct LogPosition {
  std::uint64_t epoch = 0;
  std::uint64_t record = 0;  // 0: the log is empty
  auto operator<=>(const LogPosition&) const = default;
};

class LogReplay {
 public:
  virtual ~LogReplay() = default;

  // The checkpoint's keys in order, and then its head.
  [[nodiscard]] virtual Status load(const tree::CheckpointItem& item) = 0;
  [[nodiscard]] virtual Status loaded(const tree::CheckpointHead& head) = 0;
  // The record behind last(). kCorrupt: it contradicts what came before; kUnsupported.
  [[nodiscard]] virtual Status apply(std::span<const std::byte> record) = 0;
  [[nodiscard]] virtual LogPosition last() const = 0;
  // False: the checkpoint is known to be of another store or volume.
  [[nodiscard]] virtual bool isOf(const tree::WideId& store, const tree::WideId& volume) const = 0;
};

// Brings an empty tree, which outlives it, to the last record.
class TreeReplay final : public LogReplay {
 public:
  explicit TreeReplay(tree::Namespace& tree) : tree_(tree) {}

  Status load(const tree::CheckpointItem& item) override { return tree_.load(item); }
  Status loaded(const tree::CheckpointHead& head) override { return tree_.loaded(head); }
  Status apply(std::span<const std::byte> record) override;
  LogPosition last() const override { return {tree_.epoch(), tree_.lastRecord()}; }
  bool isOf(const tree::WideId& store, const tree::WideId& volume) const override;

 private:
  tree::Namespace& tree_;
};

// Costs no memory: a follower keeps the log and has no tree.
class PositionReplay final : public LogReplay {
 public:
  Status load(const tree::CheckpointItem&) override { return {}; }
  Status loaded(const tree::CheckpointHead& head) override;
  Status apply(std::span<const std::byte> record) override;
  LogPosition last() const override { return last_; }
  // The heads of the segments say it.
  bool isOf(const tree::WideId&, const tree::WideId&) const override { return true; }

 private:
  LogPosition last_;
};

}  // namespace hearth
