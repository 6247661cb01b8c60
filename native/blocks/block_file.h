// One transfer between a block's file and memory. Not a door: only the room uses it.
#pragma once

#include "base/result.h"
#include "blocks/block_transfers.h"

namespace hearth {

// Whole transfers only: kCorrupt for a file that is too short, as it is not the block.
[[nodiscard]] Status checkBlockSize(const BlockTransfer& transfer);

// Both wait for the storage, on any thread. kNotFound: no such file; kCorrupt: the file is shorter
// than the transfer's end.
[[nodiscard]] Status loadBlock(const BlockTransfer& transfer, bool direct);
// Bytes that were dumped are in the page cache or, with `direct`, handed to the storage; neither
// survives a power failure for certain.
[[nodiscard]] Status dumpBlock(const BlockTransfer& transfer, bool direct);

}  // namespace hearth
