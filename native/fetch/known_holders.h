// Who was named lately as the holder of a chunk that is read straight into callers' memory, so that
// not each small read asks the directory of the key first. A directory that names a holder counts a
// whole chunk as given by it, and goes by that when it names the next one; so no more than a chunk
// is read on one answer, and its balance between holders stays what it was. Used on the shard's
// thread only.
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
    bool others = false;  // hold the chunk, too
  };
  // Shorter than what was given is remembered for by directories (KeyDirectory::kGaveHalfLife).
  static constexpr Clock::duration kKnown = std::chrono::seconds(1);
  static constexpr std::size_t kMost = 1024;

  // The holder of `bytes` of the chunk, which are read now; none when the directory is to be asked.
  [[nodiscard]] std::optional<Holder> take(const ContentKey& key, std::uint32_t chunk,
                                           std::uint64_t bytes, Clock::time_point now);
  // The directory has just named it, and `bytes` are read from it now.
  void note(const ContentKey& key, std::uint32_t chunk, Holder holder, std::uint64_t bytes,
            Clock::time_point now);
  // It did not give the chunk.
  void forget(const ContentKey& key, std::uint32_t chunk) { known_.erase({key, chunk}); }

  [[nodiscard]] std::size_t size() const { return known_.size(); }

 private:
  struct Known {
    Holder holder;
    std::uint64_t left = 0;  // bytes, of the chunk that was counted
    Clock::time_point until;
  };
  std::map<std::pair<ContentKey, std::uint32_t>, Known> known_;
};

}  // namespace hearth
