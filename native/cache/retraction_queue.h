// Chunks that were found bad and that the residency log may still claim, each once. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "cache/cache_entry.h"

namespace hearth {

struct PendingRetraction {
  std::shared_ptr<CacheEntry> entry;
  std::uint32_t chunk = 0;
};

// Holds no more than there are chunks in the cache.
class RetractionQueue {
 public:
  void add(PendingRetraction retraction);
  // Puts back what could not be appended this time.
  void restore(const std::vector<PendingRetraction>& retractions);
  // Forgets what is evicted.
  void forget(std::span<const std::shared_ptr<CacheEntry>> entries);
  [[nodiscard]] std::vector<PendingRetraction> take();
  [[nodiscard]] bool empty() const;

 private:
  using Place = std::pair<const CacheEntry*, std::uint32_t>;
  mutable std::mutex mutex_;
  std::map<Place, std::shared_ptr<CacheEntry>> waiting_;
};

}  // namespace hearth
