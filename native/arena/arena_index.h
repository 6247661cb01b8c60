// Records the contents of an arena's slots in a second small file of memory, which outlives the
// process as the arena does. A process may end at any instruction: its successor finds everything
// published before, whole, and nothing else. The successor believes nothing that it cannot check.
//
// The successor takes both files from the holder, asks the holder until the former processes have
// ended (HolderMemory::usersGone; mostly at once), adopts the arena and its index, and releases the
// quarantine. When a former process lives on, having lost the holder, it may still write: the
// successor gives the arena up for a new one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arena/arena.h"
#include "arena/arena_record.h"
#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

// A slot as it was found.
struct AdoptedSlot {
  std::size_t slot = 0;
  std::uint64_t generation = 0;
  SlotContents contents;
};

struct ArenaFindings {
  // Valid and idle. Before first use verify() their bytes; what fails is freed.
  std::vector<AdoptedSlot> valid;
  // Not to be used until the process before has ended; then releaseQuarantine().
  std::size_t quarantined = 0;
  // Why the index was not believed: all slots are quarantined then. Empty when it was.
  std::string refused;
  // Records that were not believed, though their index was: these slots are free.
  std::size_t refusedRecords = 0;
};

// Different threads may be at different slots. Statements about the state of a slot hold for the
// thread that fills, publishes or frees it, one at a time; noteBusy() and noteIdle() are for any
// thread while the slot is neither freed nor filled again. An index outlives its calls; its arena
// may go before.
class ArenaIndex {
 public:
  // For an arena that is new: all slots are free. Generations begin above those of any index that
  // was made before on this machine since it was booted.
  [[nodiscard]] static Result<std::unique_ptr<ArenaIndex>> create(const Arena& arena);

  struct Adopted;
  // For an arena that was adopted: takes what the process before has left in `file`. Whatever is in
  // it, and also when it is no index at all, there is one afterwards; with another file() than
  // `file` where that is not of the right size, to be given to the holder. Only what the kernel
  // refuses is an error. No process before this one runs any code any more.
  [[nodiscard]] static Result<Adopted> adopt(const Arena& arena, OwnedFd file);
  ~ArenaIndex();
  ArenaIndex(const ArenaIndex&) = delete;
  ArenaIndex& operator=(const ArenaIndex&) = delete;

  // For the holder, `bytes` long; stays ours.
  [[nodiscard]] const OwnedFd& file() const { return file_; }
  [[nodiscard]] std::uint64_t bytes() const { return memory_.size(); }
  [[nodiscard]] std::size_t slots() const { return slots_; }
  [[nodiscard]] SlotState state(std::size_t slot) const;
  // Higher each time that a slot is filled; never twice the same for a slot.
  [[nodiscard]] std::uint64_t generation(std::size_t slot) const;

  // The slot is free. Returns its new generation.
  std::uint64_t beginFill(std::size_t slot);
  // The slot is filling, has these bytes, and nothing writes into it any more.
  void publish(std::size_t slot, const SlotContents& contents);
  // The slot is filling or valid, and not busy.
  void free(std::size_t slot);
  // One I/O more, or less, is in flight out of a valid slot, or into it. A slot that is filling is
  // taken for busy anyway. Said before the I/O is submitted and after it has completed.
  void noteBusy(std::size_t slot);
  void noteIdle(std::size_t slot);

  // The slot is valid, and `memory`, its slot of the arena, has what it says. Reads all of it.
  [[nodiscard]] bool verify(std::size_t slot, std::span<const std::byte> memory) const;

  // The processes before this one have ended (HolderMemory::usersGone): none writes into the arena
  // by its own mapping. What hardware and the kernel still have in flight goes to pages that are
  // the arena's no more: each quarantined slot gets others, and is free. Room for these is taken at
  // once where they are huge, else by Arena::commit(). Before devices enrol the arena, and not on
  // an event loop. Returns how many slots stay quarantined, for want of memory or as a device knows
  // them; to be called again.
  [[nodiscard]] std::size_t releaseQuarantine(Arena& arena);

 private:
  ArenaIndex(OwnedFd file, std::span<std::byte> memory, std::size_t slots);
  [[nodiscard]] static Result<std::unique_ptr<ArenaIndex>> map(OwnedFd file, std::size_t slots);
  [[nodiscard]] static Result<OwnedFd> makeFile(std::size_t slots);
  void reset(const ArenaIdentity& arena, SlotState state);
  [[nodiscard]] ArenaRecord& record(std::size_t slot) const { return records_[slot]; }
  [[nodiscard]] ArenaFindings take(std::size_t slotsPerPage);
  void takeSlot(std::size_t slot, bool quarantined, ArenaFindings& findings);

  const OwnedFd file_;
  const std::span<std::byte> memory_;
  const std::size_t slots_;
  ArenaRecord* const records_;
};

struct ArenaIndex::Adopted {
  std::unique_ptr<ArenaIndex> index;
  ArenaFindings findings;
};

// Why these bytes are no index of such an arena, or nothing. Pure.
[[nodiscard]] std::string refusalOf(std::span<const std::byte> index, const ArenaIdentity& arena);

// Judges a record of the former process: kValid only when it is whole and idle, kFree when it is
// free or not credible, kQuarantined else. Pure.
[[nodiscard]] SlotState assess(const ArenaRecord& record);

}  // namespace hearth
