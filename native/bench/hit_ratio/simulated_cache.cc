#include "bench/hit_ratio/simulated_cache.h"

#include <vector>

namespace hearth::hit_ratio {

double byteHitRatio(const ModelTrace& trace, std::uint64_t capacityBytes, std::size_t warmUp,
                    ReplacementPolicy& policy) {
  std::vector<bool> cached(trace.files.size());
  std::uint64_t used = 0;
  double hits = 0, all = 0;
  const auto makeRoom = [&](std::uint64_t bytes) {
    while (used + bytes > capacityBytes) {
      const FileId file = policy.evict();
      cached[file] = false;
      used -= trace.files[file].bytes;
    }
  };
  for (std::size_t index = 0; index < trace.reads.size(); ++index) {
    const FileId file = trace.reads[index];
    const std::uint64_t bytes = trace.files[file].bytes;
    const bool counts = index >= warmUp;
    policy.atRead(index);
    if (counts) all += static_cast<double>(bytes);
    if (cached[file]) {
      if (counts) hits += static_cast<double>(bytes);
      policy.hit(file);
      continue;
    }
    if (bytes > capacityBytes) continue;
    if (!policy.mayRefuse()) makeRoom(bytes);
    policy.insert(file);
    cached[file] = true;
    used += bytes;
    makeRoom(0);
  }
  return hits / all;
}

}  // namespace hearth::hit_ratio
