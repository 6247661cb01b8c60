// The memory of an agent that chunks are in: one file of memory (memfd_create(2)), divided into
// slots of kChunkBytes, a region for each NUMA node. It outlives its process for as long as
// another process, the holder, has its descriptor. What is in a slot stands in arena_index.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "arena/arena_pages.h"
#include "arena/numa_topology.h"
#include "base/generated/constants.h"
#include "base/owned_fd.h"
#include "base/result.h"
#include "memory/memory_touch.h"
#include "memory/memory_vector.h"

namespace hearth {

// Takes the room of [offset, offset + bytes) of the file, in whole pages, and is charged for it:
// touchMemory() charges this process, HolderClient::touchMemory() the holder.
using ArenaTouch =
    std::function<Result<TouchedMemory>(int file, std::uint64_t offset, std::uint64_t bytes)>;

struct ArenaOptions {
  // Rounded down to whole slots, and for pages of 1 GiB to whole pages a node.
  std::uint64_t bytes = 0;
  // The best pages that are tried; what cannot be had is said in ArenaPages::reason.
  ArenaPageKind best = ArenaPageKind::kTransparent;
  // Worse ones are kOutOfSpace, or kUnsupported.
  bool required = false;
  ArenaTouch touch = touchMemory;
  // Lives until create() or adopt() has returned.
  const NumaTopology* topology = nullptr;  // null: the kernel's
};

// Which file of memory: of no other one of this machine until it is booted again.
struct ArenaIdentity {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  bool operator==(const ArenaIdentity&) const = default;
};

// Slots of one NUMA node.
struct ArenaRegion {
  int node = 0;
  std::size_t firstSlot = 0, slots = 0;
  std::shared_ptr<MemoryRegion> memory;
};

// Any thread. Must remain live while its slots are in use, except for what slice() gave.
class Arena {
 public:
  // Of huge pages all room is taken at once: a page that is missing later would end the process.
  // Of others it is taken by commit(). kOutOfSpace, kInvalidArgument when `bytes` is not a slot.
  [[nodiscard]] static Result<std::unique_ptr<Arena>> create(const ArenaOptions& options);
  // One that a process before this one has made, with what is in it; of options only `touch` and
  // `topology` are used. kInvalidArgument when the file is not one: it is not sealed, or not of
  // whole slots.
  [[nodiscard]] static Result<std::unique_ptr<Arena>> adopt(OwnedFd file,
                                                            const ArenaOptions& options);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // For the holder; stays ours.
  [[nodiscard]] const OwnedFd& file() const { return file_; }
  [[nodiscard]] const ArenaIdentity& identity() const { return identity_; }
  [[nodiscard]] const ArenaPages& pages() const { return pages_; }
  [[nodiscard]] std::size_t slots() const { return slots_; }
  // In the order of their slots.
  [[nodiscard]] std::span<const ArenaRegion> regions() const { return regions_; }
  // `slot` is below slots().
  [[nodiscard]] const ArenaRegion& regionOf(std::size_t slot) const;
  [[nodiscard]] std::span<std::byte> bytes(std::size_t slot) const;
  // The first `size` bytes of a slot, which `owner` keeps from being used for something else.
  [[nodiscard]] MemorySlice slice(std::size_t slot, std::uint64_t size,
                                  std::shared_ptr<const void> owner) const;

  // 1, and more for pages that are larger than a slot: such slots begin at multiples of it.
  [[nodiscard]] std::size_t slotsPerPage() const;

  // Takes the room of `count` slots, as touchMemory() does: before they are used first, and
  // after decommit(). What is in them stays. Not on an event loop. kOutOfSpace.
  [[nodiscard]] Status commit(std::size_t first, std::size_t count);
  // Gives it back: these slots are not used until commit(). What hardware or the kernel still does
  // with their former pages is not seen in the arena (MemoryRegion::punch). False when nothing was
  // done for some: a device knows their region, or they are not all slots of a page.
  [[nodiscard]] bool decommit(std::size_t first, std::size_t count);
  // Of its bytes those whose room is taken, by whomever.
  [[nodiscard]] std::uint64_t committedBytes() const;
  // Of what commit() took here those bytes that lie in pages of 2 MiB or more.
  [[nodiscard]] std::uint64_t hugeBytes() const;

 private:
  Arena(OwnedFd file, ArenaIdentity identity, ArenaPages pages, ArenaTouch touch);
  [[nodiscard]] static Result<std::unique_ptr<Arena>> make(ArenaPages pages,
                                                           const ArenaOptions& options);
  [[nodiscard]] static Result<std::unique_ptr<Arena>> map(OwnedFd file, ArenaPages pages,
                                                          const ArenaOptions& options, bool isNew);

  const OwnedFd file_;
  const ArenaIdentity identity_;
  ArenaPages pages_;  // as they are when it is made
  const ArenaTouch touch_;
  const std::size_t slots_;
  std::vector<ArenaRegion> regions_;
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> hugeBytes_;  // of each slot
};

}  // namespace hearth
