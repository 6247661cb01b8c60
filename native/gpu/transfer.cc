#include "gpu/transfer.h"

#include <algorithm>

namespace hearth {

std::optional<TransferSlice> Transfer::take(std::size_t sliceBytes) {
  if (failed || next == pieces.size()) return std::nullopt;
  const OpenedPiece& piece = pieces[next];
  const std::uint64_t offset = piece.offset + taken;
  const std::uint64_t left = piece.memory.size - taken;
  const std::uint64_t size = std::min(left, sliceBytes - offset % sliceBytes);
  const bool isLast = size == left;
  const TransferSlice slice{&piece, offset, piece.memory.offset + taken,
                            static_cast<std::size_t>(size), isLast && piece.reachesEnd};
  taken += size;
  if (isLast) {
    ++next;
    taken = 0;
  }
  ++underWay;
  return slice;
}

void Transfer::explain(std::string why, bool byChoice) {
  if (!moved.whyNotDirect.empty() && (byChoice || !explainedByChoice)) return;
  moved.whyNotDirect = std::move(why);
  explainedByChoice = byChoice;
}

void Transfer::finish(const TransferSlice& slice, TransferPath path, const Status& status) {
  --underWay;
  if (!status.ok()) {
    if (!failed) error = status.error();
    failed = true;
    return;
  }
  switch (path) {
    case TransferPath::kDirect:
      moved.directBytes += slice.size;
      return;
    case TransferPath::kBounced:
      moved.bouncedBytes += slice.size;
      return;
    case TransferPath::kHost:
      moved.hostBytes += slice.size;
      return;
  }
}

}  // namespace hearth
