// Decodes a body that came gzipped although it was asked for as it is (RFC 1952). Private to this
// room.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <functional>
#include <span>

namespace hearth {

class GzipBody {
 public:
  enum class State { kMore, kEnded, kMalformed };

  GzipBody();
  ~GzipBody();
  GzipBody(const GzipBody&) = delete;
  GzipBody& operator=(const GzipBody&) = delete;

  // Gives `take` what the bytes hold, in pieces of bounded size; false from `take` ends it, and is
  // returned. So a body that would grow without end costs no more than what is taken.
  [[nodiscard]] bool add(std::span<const std::byte> bytes,
                         const std::function<bool(std::span<const std::byte>)>& take);
  // kEnded: the checksum and size at the end were right. Bytes behind the end are malformed.
  [[nodiscard]] State state() const { return state_; }

 private:
  z_stream stream_{};
  State state_ = State::kMore;
};

}  // namespace hearth
