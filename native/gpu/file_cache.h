// Files that were used last, kept open: opening and registering a file takes longer than a small
// read.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "gpu/opened_file.h"

namespace hearth {

// Any thread. A file that leaves the cache stays open for as long as somebody uses it.
class FileCache {
 public:
  explicit FileCache(std::size_t capacity) : capacity_(capacity) {}

  // The file that the path leads to now.
  [[nodiscard]] Result<std::shared_ptr<OpenedFile>> open(const std::string& path, FileUse use);
  [[nodiscard]] std::size_t size() const;

 private:
  struct Entry {
    std::string path;
    FileUse use;
    std::shared_ptr<OpenedFile> file;
  };
  [[nodiscard]] std::shared_ptr<OpenedFile> find(const std::string& path, FileUse use);

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the one used last first
};

}  // namespace hearth
