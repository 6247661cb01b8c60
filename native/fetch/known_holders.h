// Remembers the holders that directories named lately for chunks that are read straight into
// callers' memory, so that not each small read asks the directory. A directory counts a whole chunk
// as given by the holder that it names, and balances holders by that count; so one answer serves
// reads of at most a chunk. Used on the shard's thread only.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/content_key.h"
#include "directory/key_directory.h"

namespace hearth {

class KnownHolders {
 public:
  struct Holder {
    std::string node;
    bool others = false;  // other agents hold the chunk, too
  };
  // Shorter than directories remember what holders gave (KeyDirectory::kGaveHalfLife).
  static constexpr Clock::duration kKnown = std::chrono::seconds(1);
  static constexpr std::size_t kMost = 1024;

  // The holder from which the caller reads `bytes` of the chunk now; none: ask the directory.
  [[nodiscard]] std::optional<Holder> take(const ContentKey& key, std::uint32_t chunk,
                                           std::uint64_t bytes, Clock::time_point now);
  // The directory has just named `holder`, from which the caller reads `bytes` now.
  void note(const ContentKey& key, std::uint32_t chunk, Holder holder, std::uint64_t bytes,
            Clock::time_point now);
  // The holder did not give the chunk.
  void forget(const ContentKey& key, std::uint32_t chunk) { known_.erase({key, chunk}); }

  [[nodiscard]] std::size_t size() const { return known_.size(); }

 private:
  struct Known {
    Holder holder;
    std::uint64_t left = 0;  // bytes of the chunk that the directory counted
    Clock::time_point until;
  };
  std::map<std::pair<ContentKey, std::uint32_t>, Known> known_;
};

}  // namespace hearth
