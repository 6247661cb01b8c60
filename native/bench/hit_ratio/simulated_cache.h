// A cache of whole files that a trace is played to, and the interface of what decides which go.
#pragma once

#include <cstdint>

#include "bench/hit_ratio/model_trace.h"

namespace hearth::hit_ratio {

class ReplacementPolicy {
 public:
  virtual ~ReplacementPolicy() = default;

  // A file that is cached is read.
  virtual void hit(FileId file) = 0;
  // A file is cached from now on.
  virtual void insert(FileId file) = 0;
  // Removes a file from what it knows as cached, and names it. Something is cached.
  [[nodiscard]] virtual FileId evict() = 0;
  // A file that is new may be what goes for it: it was read, and is not kept.
  [[nodiscard]] virtual bool mayRefuse() const { return false; }
  // Read `index` of the trace comes next.
  virtual void atRead(std::size_t /*index*/) {}
};

// The part of the bytes read that was in the cache, from read `warmUp` on.
[[nodiscard]] double byteHitRatio(const ModelTrace& trace, std::uint64_t capacityBytes,
                                  std::size_t warmUp, ReplacementPolicy& policy);

}  // namespace hearth::hit_ratio
