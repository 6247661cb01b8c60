// Tells the components that compare files with their digests, and that copy them to memory, of
// chunks that fetching has brought.
#pragma once

#include <memory>

#include "fetch/file_fetch.h"

namespace hearth {

class FileObserver {
 public:
  virtual ~FileObserver() = default;
  // The file's key is wanted from now on, for the first time or again.
  virtual void opened(const std::shared_ptr<FileFetch>& fetch) = 0;
  // A chunk was written and is resident; `loaded` has its bytes.
  virtual void stored(const std::shared_ptr<FileFetch>& fetch, std::uint32_t chunk,
                      const std::shared_ptr<LoadedChunk>& loaded) = 0;
};

}  // namespace hearth
