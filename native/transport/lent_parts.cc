#include "transport/lent_parts.h"

#include <algorithm>

namespace hearth {
namespace {

iovec pieceOf(std::span<const std::byte> bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<iovec> LentParts::pieces(std::span<const std::byte> payload) const {
  if (!between()) return {pieceOf(std::span(rest_).subspan(restSent_))};
  if (payload.empty() || parts_.empty()) return {};
  std::size_t left = 0;
  for (const Part& part : parts_) left += part.size;
  const Part& next = parts_.front();
  return {pieceOf(next.frame), pieceOf(payload.last(left).first(next.size))};
}

void LentParts::sent(std::span<const iovec> pieces, std::size_t bytes) {
  if (!between()) {
    restSent_ += bytes;
    return;
  }
  if (bytes == 0) return;
  rest_.clear();
  restSent_ = 0;
  for (const iovec& piece : pieces) {
    const std::size_t taken = std::min(bytes, piece.iov_len);
    const auto left =
        std::span(static_cast<const std::byte*>(piece.iov_base), piece.iov_len).subspan(taken);
    rest_.insert(rest_.end(), left.begin(), left.end());
    bytes -= taken;
  }
  parts_.pop_front();
}

}  // namespace hearth
