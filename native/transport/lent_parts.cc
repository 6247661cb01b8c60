#include "transport/lent_parts.h"

#include <algorithm>

namespace hearth {
namespace {

iovec pieceOf(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<iovec> LentParts::pieces(std::span<const std::byte> payload) const {
  std::vector<iovec> pieces;
  if (!between()) pieces.push_back(pieceOf(std::span(rest_).subspan(restSent_)));
  if (payload.empty()) return pieces;
  std::size_t left = 0;
  for (const Part& part : parts_) left += part.size;
  for (const Part& part : parts_) {
    pieces.push_back(pieceOf(part.frame));
    pieces.push_back(pieceOf(payload.last(left).first(part.size)));
    left -= part.size;
  }
  return pieces;
}

void LentParts::sent(std::span<const iovec> pieces, std::size_t bytes) {
  if (!between()) {
    const std::size_t ofRest = std::min(bytes, pieces.front().iov_len);
    restSent_ += ofRest;
    bytes -= ofRest;
    pieces = pieces.subspan(1);
  }
  while (bytes > 0) {
    rest_.clear();
    restSent_ = 0;
    for (const iovec& piece : pieces.first(2)) {
      const std::size_t taken = std::min(bytes, piece.iov_len);
      const auto left =
          std::span(static_cast<const std::byte*>(piece.iov_base), piece.iov_len).subspan(taken);
      rest_.insert(rest_.end(), left.begin(), left.end());
      bytes -= taken;
    }
    parts_.pop_front();
    pieces = pieces.subspan(2);
  }
}

}  // namespace hearth
