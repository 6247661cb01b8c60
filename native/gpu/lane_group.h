// The lanes of one DeviceFiles, the transfers that they work on, and the watchdog over both.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gpu/lane.h"

namespace hearth {

// Owned by its lanes as well: one that hangs keeps all that it may still touch.
class LaneGroup final : public LanePort, public std::enable_shared_from_this<LaneGroup> {
 public:
  // With fewer lanes than `options.lanes` when memory for only so many can be pinned; kOutOfSpace
  // without any.
  [[nodiscard]] static Result<std::shared_ptr<LaneGroup>> start(std::shared_ptr<LaneTerms> terms,
                                                                unsigned lanes);
  // No run() is under way. Waits for the lanes, except for those of a broken group.
  void stop();

  // Blocks. kDeadlineExceeded when no slice of any transfer completes within the stall timeout;
  // the group is broken then, and every later call gets the same answer.
  [[nodiscard]] Result<Transferred> run(const std::shared_ptr<Transfer>& transfer);

  std::optional<LaneWork> take(bool wait) override;
  void finish(const LaneWork& work, TransferPath path, const Status& status) override;
  void explain(const LaneWork& work, std::string why, bool byChoice) override;

 private:
  explicit LaneGroup(std::shared_ptr<LaneTerms> terms) : terms_(std::move(terms)) {}
  // With the mutex held.
  [[nodiscard]] std::optional<LaneWork> next();
  [[nodiscard]] Error hang() const;

  const std::shared_ptr<LaneTerms> terms_;
  std::mutex mutex_;
  std::condition_variable hasWork_, hasProgress_;
  std::deque<std::shared_ptr<Transfer>> active_;  // that have slices to take, in turns
  std::uint64_t finished_ = 0;                    // slices
  std::optional<Error> broken_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
  std::vector<std::shared_ptr<Lane>> lanes_;  // for their stages
};

}  // namespace hearth
