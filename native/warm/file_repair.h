// Checks a whole cache file on the disk, and repairs it in place, so that views and passthrough
// opens that exist show good bytes again. For warm jobs and `hearth verify`.
#pragma once

#include <memory>

#include "fetch/fetcher.h"
#include "memory_files/memory_filling.h"
#include "warm/bad_blocks.h"

namespace hearth {

// Of the shard of the file's key, on whose thread they are used. They outlive the repair.
struct RepairPorts {
  Reactor& reactor;
  Fetcher& fetcher;
  MemoryFilling& memory;
};

struct RepairOptions {
  FetchOptions fetch;
  std::atomic<std::uint64_t>* checked = nullptr;  // grows by the bytes found good, as they are
};

// Reads every block of a complete file from the disk. Chunks with bad blocks, and chunks that were
// found bad meanwhile, are absent at once; each is written again from memory, another agent or the
// origin, and read again. `bad` gets the blocks, also before an error. kCorrupt: the disk does not
// keep what is written to it; kCancelled: nobody wants the bytes any more; errors of opening the
// file and of Fetcher::ensure: a chunk cannot be had, and the file is not served as a whole.
[[nodiscard]] Task<Status> checkAndRepair(RepairPorts ports, std::shared_ptr<FileFetch> fetch,
                                          RepairOptions options, BadBlocks& bad);

}  // namespace hearth
