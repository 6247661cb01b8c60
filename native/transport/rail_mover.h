// Moves a range over the rails of a peer, in either direction. Cuts it into slices where several
// rails are usable, gives each slice to the rail with the least to do, and moves slices that fail
// without an answer, or wait on a paused rail, to another one. Memory has one writer at a time: a
// slice is posted again only when its first rail has let go of it.
//
// Fast rails that reach the memory come first, each by its share of their measured bandwidth. A
// slice that fails on one goes to the next, and then to the other rails, where it has as many tries
// as if it had come there at once.
#pragma once

#include <memory>
#include <vector>

#include "transport/limits.h"
#include "transport/rail.h"

namespace hearth {

class RailMover {
 public:
  // `reactor` and `rails` must remain live while something is under way. On the reactor's thread.
  // `sliceBytes`: least size of a slice, in whole blocks. `lookEvery`: how often to look whether a
  // slice's rail is paused.
  RailMover(Reactor& reactor, RailSource& rails, std::size_t sliceBytes = kSliceBytes,
            Clock::duration lookEvery = kHedgeAfter / 4)
      : reactor_(reactor), rails_(rails), sliceBytes_(sliceBytes), lookEvery_(lookEvery) {}

  // Moves all of the range, or returns the error of the first slice that did not get through.
  // `checksums`: of its blocks. After an error a rail may still hold posted slices: the owners of
  // `transfer.memory` live as long. Any slice of a write that fails may have been taken.
  [[nodiscard]] Task<Status> move(RailTransfer transfer, std::vector<std::uint32_t>& checksums);

 private:
  // One slice, and how far it is.
  struct Slice {
    RailTransfer transfer;
    std::span<std::uint32_t> checksums;
    std::shared_ptr<Rail> rail;  // the rail that has it now, or had it last
    // Fast rails that have had it, including the present one if that is fast.
    std::vector<std::shared_ptr<Rail>> fast = {};
    std::shared_ptr<RailRequest> request;
    Status status;
    int hedges = 0;
    [[nodiscard]] bool isOnFast() const { return !fast.empty() && fast.back() == rail; }
  };

  [[nodiscard]] std::vector<Slice> cut(const RailTransfer& transfer, std::size_t most,
                                       std::span<std::uint32_t> checksums) const;
  // The fast rails that take this transfer now.
  [[nodiscard]] std::vector<std::shared_ptr<Rail>> fastRails(const RailTransfer& transfer);
  // The other rails that are not paused, or all if all are.
  [[nodiscard]] std::vector<std::shared_ptr<Rail>> railsToUse(const RailTransfer& transfer);
  // Posts the slices of one rail together.
  void postAll(std::vector<Slice>& slices, std::vector<std::shared_ptr<Rail>> rails);
  // Posts each slice to the fast rail that will be done with it first.
  void postByBandwidth(std::vector<Slice>& slices, const std::vector<std::shared_ptr<Rail>>& rails);
  std::unique_ptr<RailWork> request(Slice& slice, std::shared_ptr<Rail> rail);
  void postTo(Slice& slice, std::shared_ptr<Rail> rail);
  // Null: the slice goes to a rail that can be waited for.
  [[nodiscard]] std::shared_ptr<Rail> nextFast(const Slice& slice);
  // Posts the slice on a fast rail that it was not on, or on one that can be waited for. False:
  // there is none, and the slice's status says why, unless it has one.
  [[nodiscard]] Task<bool> postOn(Slice& slice);
  // Ends when the slice has got through or cannot.
  [[nodiscard]] Task<void> finish(Slice& slice);
  // True: its rail is paused and another one is not, so the slice moves there now, and is counted.
  [[nodiscard]] bool hedges(Slice& slice);
  // Waits for the slice's request. True: another rail may do better, and this one has let go of the
  // memory.
  [[nodiscard]] Task<bool> failedOnRail(Slice& slice);

  Reactor& reactor_;
  RailSource& rails_;
  const std::size_t sliceBytes_;
  const Clock::duration lookEvery_;
};

}  // namespace hearth
