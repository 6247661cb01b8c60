#include "origin/gzip_body.h"

#include <array>

namespace hearth {
namespace {

constexpr int kGzipOnly = 16 + MAX_WBITS;
constexpr std::size_t kPieceBytes = std::size_t{32} << 10;

}  // namespace

GzipBody::GzipBody() {
  if (inflateInit2(&stream_, kGzipOnly) != Z_OK) state_ = State::kMalformed;
}

GzipBody::~GzipBody() { inflateEnd(&stream_); }

bool GzipBody::add(std::span<const std::byte> bytes,
                   const std::function<bool(std::span<const std::byte>)>& take) {
  std::array<std::byte, kPieceBytes> piece;
  stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream_.avail_in = static_cast<uInt>(bytes.size());
  do {
    if (state_ == State::kEnded && stream_.avail_in > 0) state_ = State::kMalformed;
    if (state_ != State::kMore) return true;
    stream_.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream_.avail_out = static_cast<uInt>(piece.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      state_ = State::kEnded;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      state_ = State::kMalformed;
      return true;
    }
    const std::size_t made = piece.size() - stream_.avail_out;
    if (made > 0 && !take(std::span(piece).first(made))) return false;
  } while (stream_.avail_in > 0 || stream_.avail_out == 0);
  return true;
}

}  // namespace hearth
