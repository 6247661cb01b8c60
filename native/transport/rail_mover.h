// Moves a range over the rails of a peer, from there or to there: cut into slices where several
// rails are usable, each given to the rail with the least to do, and what fails without being
// answered to another one; so does what waits on a rail that is paused. Memory has one writer at a
// time: a slice is posted again only when its first rail has let go of it.
//
// Fast rails that reach the memory come first, each by its share of their measured bandwidth. A
// slice that fails on one goes to the next, and then to the others, where it has as many tries as
// if it had come there at once.
#pragma once

#include <memory>
#include <vector>

#include "transport/limits.h"
#include "transport/rail.h"

namespace hearth {

class RailMover {
 public:
  // Both must remain live while something is under way. On the reactor's thread. `sliceBytes`: a
  // slice has at least this much, whole blocks. `lookEvery`: whether its rail is paused is looked
  // at so often.
  RailMover(Reactor& reactor, RailSource& rails, std::size_t sliceBytes = kSliceBytes,
            Clock::duration lookEvery = kHedgeAfter / 4)
      : reactor_(reactor), rails_(rails), sliceBytes_(sliceBytes), lookEvery_(lookEvery) {}

  // All of the range, or the error of the first slice that did not get through. `checksums`: of its
  // blocks. What was posted may still be held by a rail when it ends with an error:
  // the owners of `transfer.memory` live as long. Of a write that fails any slice may have been
  // taken.
  [[nodiscard]] Task<Status> move(RailTransfer transfer, std::vector<std::uint32_t>& checksums);

 private:
  // One slice, and how far it is.
  struct Slice {
    RailTransfer transfer;
    std::span<std::uint32_t> checksums;
    std::shared_ptr<Rail> rail;  // to which it was given last
    // Fast ones to which it was given before, with the last one if that is fast.
    std::vector<std::shared_ptr<Rail>> fast = {};
    std::shared_ptr<RailRequest> request;
    Status status;
    int hedges = 0;
    [[nodiscard]] bool isOnFast() const { return !fast.empty() && fast.back() == rail; }
  };

  [[nodiscard]] std::vector<Slice> cut(const RailTransfer& transfer, std::size_t most,
                                       std::span<std::uint32_t> checksums) const;
  // Fast ones that take this transfer now.
  [[nodiscard]] std::vector<std::shared_ptr<Rail>> fastRails(const RailTransfer& transfer);
  // The others: those that are not paused, unless all are.
  [[nodiscard]] std::vector<std::shared_ptr<Rail>> railsToUse(const RailTransfer& transfer);
  // Those of one rail together.
  void postAll(std::vector<Slice>& slices, std::vector<std::shared_ptr<Rail>> rails);
  // Each to the fast rail that is done with it first.
  void postByBandwidth(std::vector<Slice>& slices, const std::vector<std::shared_ptr<Rail>>& rails);
  std::unique_ptr<RailWork> request(Slice& slice, std::shared_ptr<Rail> rail);
  void postTo(Slice& slice, std::shared_ptr<Rail> rail);
  // Null: the slice goes to one that can be waited for.
  [[nodiscard]] std::shared_ptr<Rail> nextFast(const Slice& slice);
  // On a fast rail that it was not on, or on one that can be waited for. False: there is none, and
  // the slice's status says why, unless it has one.
  [[nodiscard]] Task<bool> postOn(Slice& slice);
  // Ends when the slice has got through or cannot.
  [[nodiscard]] Task<void> finish(Slice& slice);
  // Its rail is paused and another one is not: it goes there now, which is counted.
  [[nodiscard]] bool hedges(Slice& slice);
  // Ends with its request; true: another rail may do better, and this one has let go of the memory.
  [[nodiscard]] Task<bool> failedOnRail(Slice& slice);

  Reactor& reactor_;
  RailSource& rails_;
  const std::size_t sliceBytes_;
  const Clock::duration lookEvery_;
};

}  // namespace hearth
