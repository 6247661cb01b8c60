// Reads a whole file from the page cache, for its checksums and for a keyed hash of each chunk by
// which a later reading finds out whether the file has changed (rule R3 of
// docs/design/namespace.md). Several GiB/s of one thread; large files use several.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "reactor/reactor.h"
#include "sessions/session_files.h"

namespace hearth {

using ChunkHash = std::array<std::uint8_t, 16>;
using HashKey = std::array<std::uint8_t, 16>;
[[nodiscard]] HashKey newHashKey();

struct FileHash {
  std::uint64_t length = 0;
  std::vector<std::uint32_t> blockChecksums;  // CRC32C of each 64 KiB
  std::vector<ChunkHash> chunks;
  [[nodiscard]] bool operator==(const FileHash&) const = default;
};

class FileHasher {
 public:
  // Hashes of one key can be compared; `key` is a new one at first.
  FileHasher();
  ~FileHasher();
  void setKey(const HashKey& key) { key_ = key; }

  // On `reactor`, where it continues. The first `length` bytes of an open file. kConflict: it is
  // shorter by now.
  // Notes its progress.
  [[nodiscard]] Task<Result<FileHash>> hash(Reactor& reactor, int descriptor, std::uint64_t length,
                                            Progress* progress = nullptr);
  // The same without the chunks' hashes, in less than half of the time, of all that the file has
  // when `begin`, which may block, has succeeded; else its error.
  [[nodiscard]] Task<Result<FileHash>> checksums(Reactor& reactor, int descriptor,
                                                 std::function<Result<std::uint64_t>()> begin);

 private:
  struct Work;
  class Pieces;
  static Task<void> share(Reactor& reactor, ThreadPool& pool, Work& work);
  [[nodiscard]] Task<Result<FileHash>> finish(Reactor& reactor, Work& work);

  HashKey key_;
  const std::unique_ptr<Pieces> pieces_;
  ThreadPool pool_;
};

}  // namespace hearth
