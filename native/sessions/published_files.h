// Published session files that are not sealed yet, as other agents read them: every answer is a
// copy whose checksums were compared after copying, for a program may still write to the file
// (rule R3 of docs/design/namespace.md). Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/content_key.h"
#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

struct PublishedFile {
  OwnedFd file;
  std::uint64_t size = 0;
  std::vector<std::uint32_t> blockChecksums;  // CRC32C of each 64 KiB, as published
};

// Fills `into` with the bytes from `offset` on, which begins a block; waits for the disk. `into`
// ends where a block or the file ends, or in a block, which is then read whole. kTryElsewhere: the
// file has other bytes by now.
[[nodiscard]] Status readPublished(const PublishedFile& file, std::uint64_t offset,
                                   std::span<std::byte> into);

class PublishedFiles {
 public:
  void add(const ContentKey& key, std::shared_ptr<const PublishedFile> file) {
    const std::lock_guard lock(mutex_);
    std::swap(files_[key], file);  // parameters live longer than the lock
  }
  void remove(const ContentKey& key) {
    std::shared_ptr<const PublishedFile> last;  // destroyed after the lock is released
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(key);
    if (found == files_.end()) return;
    last = std::move(found->second);
    files_.erase(found);
  }
  // Null: no file of this key is published and unsealed.
  [[nodiscard]] std::shared_ptr<const PublishedFile> find(const ContentKey& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(key);
    return found == files_.end() ? nullptr : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<ContentKey, std::shared_ptr<const PublishedFile>, ContentKeyHash> files_;
};

}  // namespace hearth
