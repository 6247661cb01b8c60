// Reads planned bytes of files into memory with several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "loader/load_plan.h"

namespace hearth {

struct ReadOptions {
  // 0: kDefaultReaders. More than the processors have cores, as most of them wait for storage.
  unsigned threads = 0;
  // Bytes that one thread reads at once; a multiple of kDirectReadAlignment.
  std::uint64_t chunkBytes = std::uint64_t{4} << 20;
  // Called on the caller's thread after some chunks, with bytes that are in memory and bytes of the
  // plan. False ends the load with kCancelled.
  std::function<bool(std::uint64_t done, std::uint64_t total)> progress;
};
inline constexpr unsigned kDefaultReaders = 16;
inline constexpr unsigned kMaxReaders = 256;

// A file's plan and the memory for it, of plan->memoryBytes, aligned to kDirectReadAlignment.
struct FileDestination {
  const FilePlan* plan = nullptr;
  std::byte* memory = nullptr;
};

// Blocks until all is read or something failed; then no thread touches the memory any more. After
// an error the contents of the memory are undefined. kCancelled, and as ModelFile::read().
[[nodiscard]] Status readInParallel(std::span<const FileDestination> files,
                                    const ReadOptions& options);

}  // namespace hearth
