// Finds readers that go through the small files of a dataset, one after the other in the order of
// the manifest; the files read last identify a reader. A single file says nothing about the next
// one; two in order do. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace hearth {

class FolderReaders {
 public:
  // The file of this entry was read. Whether `previous`, the file that whoever reads in order has
  // read before it, was lately.
  [[nodiscard]] bool inOrder(std::uint32_t entry, std::uint32_t previous) {
    const std::lock_guard lock(mutex_);
    ++turn_;
    Reader* place = &readers_.front();
    for (Reader& each : readers_) {
      const bool before = each.used != 0 && each.at == previous && previous != entry;
      if (before || (each.used != 0 && each.at == entry)) {
        each = {.at = entry, .used = turn_};
        return before;
      }
      if (each.used < place->used) place = &each;
    }
    *place = {.at = entry, .used = turn_};
    return false;
  }

 private:
  struct Reader {
    std::uint32_t at = 0;
    std::uint64_t used = 0;  // 0: free
  };

  std::mutex mutex_;
  std::array<Reader, 16> readers_;
  std::uint64_t turn_ = 0;
};

}  // namespace hearth
