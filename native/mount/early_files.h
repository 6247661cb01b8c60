// Files that a look-ahead has opened before their reader comes. The reader's open takes the file
// from here instead of waiting for a turn of the file's shard, which takes longer than to read a
// small file. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fetch/file_fetch.h"

namespace hearth {

// `bytes`: the whole file in `generation` of its cache file; later generations may have other
// bytes. Null while the look-ahead still fetches them.
struct EarlyFile {
  std::shared_ptr<FileFetch> fetch;
  std::shared_ptr<const std::vector<std::byte>> bytes = nullptr;
  std::uint64_t generation = 0;
};

class EarlyFiles {
 public:
  void put(EarlyFile file) {
    const Place place = placeOf(*file.fetch);
    const std::lock_guard lock(mutex_);
    std::swap(files_[place], file);  // parameters live longer than the lock
  }
  // Gives the file to one reader. Empty: no look-ahead has opened the file, or a reader took it
  // already.
  [[nodiscard]] EarlyFile take(const Dataset& dataset, std::uint32_t entry) {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find({&dataset, entry});
    return found == files_.end() ? EarlyFile() : std::move(files_.extract(found).mapped());
  }
  // Drops a file for which no reader has come.
  void drop(const FileFetch& fetch) {
    EarlyFile last;  // destroyed after the lock
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(placeOf(fetch));
    if (found != files_.end() && found->second.fetch.get() == &fetch)
      last = std::move(files_.extract(found).mapped());
  }

 private:
  // A file in the map keeps its dataset alive.
  using Place = std::pair<const Dataset*, std::uint32_t>;
  [[nodiscard]] static Place placeOf(const FileFetch& fetch) {
    return {fetch.reference.dataset.get(), fetch.reference.about.index};
  }

  std::mutex mutex_;
  std::map<Place, EarlyFile> files_;
};

}  // namespace hearth
