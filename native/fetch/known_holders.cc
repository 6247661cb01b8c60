#include "fetch/known_holders.h"

#include <utility>

namespace hearth {

std::optional<KnownHolders::Holder> KnownHolders::take(const ContentKey& key, std::uint32_t chunk,
                                                       std::uint64_t bytes, Clock::time_point now) {
  const auto found = known_.find({key, chunk});
  if (found == known_.end()) return std::nullopt;
  Known& known = found->second;
  if (now >= known.until || bytes > known.left) {
    known_.erase(found);
    return std::nullopt;
  }
  known.left -= bytes;
  return known.holder;
}

void KnownHolders::note(const ContentKey& key, std::uint32_t chunk, Holder holder,
                        std::uint64_t bytes, Clock::time_point now) {
  if (bytes >= kChunkBytes) return;
  if (known_.size() >= kMost)
    std::erase_if(known_, [now](const auto& entry) { return now >= entry.second.until; });
  // All entries are in use: a new one costs another chunk a question.
  if (known_.size() >= kMost) known_.erase(known_.begin());
  known_.insert_or_assign({key, chunk},
                          Known{std::move(holder), kChunkBytes - bytes, now + kKnown});
}

}  // namespace hearth
