// Moves slices one after the other, on a thread of its own. A bounced slice is copied by the GPU
// while the lane reads the next one into its second buffer.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>

#include "gpu/path_choice.h"
#include "gpu/transfer.h"

namespace hearth {

struct LaneWork {
  std::shared_ptr<Transfer> transfer;
  TransferSlice slice;
};

// Hands out slices and takes the results. Any thread.
class LanePort {
 public:
  virtual ~LanePort() = default;
  // With `wait` none only at the end; without, also when there is nothing to do now.
  [[nodiscard]] virtual std::optional<LaneWork> take(bool wait) = 0;
  virtual void finish(const LaneWork& work, TransferPath path, const Status& status) = 0;
  // Why the slice does not go the direct path. `byChoice`: it could have.
  virtual void explain(const LaneWork& work, std::string why, bool byChoice) = 0;
};

// Shared by the lanes of one DeviceFiles.
struct LaneTerms {
  std::shared_ptr<Device> device;
  std::shared_ptr<DirectFiles> direct;  // null: there is no direct path
  std::string whyNoDirect;              // then
  DeviceFiles::Options options;
  PathChoice choice;
  // Slices in a row that the direct path has lost; it is given up at kMaxDirectFailures.
  static constexpr unsigned kMaxDirectFailures = 8;
  std::atomic<unsigned> directFailures{0};
};

class Lane {
 public:
  // kOutOfSpace. A lane of the host's memory needs neither stream nor buffers.
  [[nodiscard]] static Result<std::unique_ptr<Lane>> make(std::shared_ptr<LaneTerms> terms);

  // Until the port has no more work.
  void run(LanePort& port);
  // Any thread; for the report of a hang.
  [[nodiscard]] const char* stage() const { return stage_.load(std::memory_order_relaxed); }

 private:
  struct Slot {
    std::span<std::byte> buffer;
    std::optional<LaneWork> pending;  // whose copy is under way
  };

  explicit Lane(std::shared_ptr<LaneTerms> terms) : terms_(std::move(terms)) {}
  void move(LanePort& port, const LaneWork& work);
  [[nodiscard]] Status moveOnHost(const LaneWork& work);
  // Why the slice cannot go the direct path; empty: it can.
  [[nodiscard]] std::string obstacle(const LaneWork& work) const;
  // Says why the slice is better bounced; empty: the direct path is better.
  [[nodiscard]] std::string preference(const LaneWork& work);
  // True: the slice is finished. False: it has to be bounced, and the port knows why.
  [[nodiscard]] bool moveDirect(LanePort& port, const LaneWork& work);
  [[nodiscard]] Status callDirect(const LaneWork& work);
  void bounce(LanePort& port, const LaneWork& work);
  [[nodiscard]] Status begin(unsigned slot, const LaneWork& work);
  void settle(LanePort& port, unsigned slot);
  [[nodiscard]] bool isPending() const { return slots_[0].pending || slots_[1].pending; }
  void enter(const char* stage) { stage_.store(stage, std::memory_order_relaxed); }

  const std::shared_ptr<LaneTerms> terms_;
  std::unique_ptr<PinnedMemory> pinned_;
  std::unique_ptr<CopyStream> stream_;  // ends before the memory that it copies
  std::array<Slot, 2> slots_;
  unsigned turn_ = 0;
  std::atomic<const char*> stage_{"nothing"};
};

}  // namespace hearth
