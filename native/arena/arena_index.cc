#include "arena/arena_index.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cassert>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>

#include "base/crc32c.h"

namespace hearth {
namespace {

std::array<char, 40> bootId() {
  std::array<char, 40> id{};
  std::ifstream("/proc/sys/kernel/random/boot_id").get(id.data(), id.size());
  return id;
}

std::size_t indexBytes(std::size_t slots) {
  constexpr std::size_t kPage = 4096;
  return (kArenaIndexHeaderBytes + slots * sizeof(ArenaRecord) + kPage - 1) / kPage * kPage;
}

// A number that grows faster than slots are filled.
std::uint64_t firstGeneration() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

ArenaIndexHeader headerFor(const ArenaIdentity& arena) {
  ArenaIndexHeader header{};
  header.magic = kArenaIndexMagic;
  header.version = kArenaIndexVersion;
  header.headerBytes = kArenaIndexHeaderBytes;
  header.slots = arena.bytes / kChunkBytes;
  header.slotBytes = kChunkBytes;
  header.recordBytes = sizeof(ArenaRecord);
  header.arenaDevice = arena.device;
  header.arenaInode = arena.inode;
  header.arenaBytes = arena.bytes;
  header.bootId = bootId();
  header.crc = checksumOf(header);
  return header;
}

// It may be mapped, and no process can cut it.
bool isUsable(const OwnedFd& file, std::size_t slots) {
  struct stat about {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && (seals & F_SEAL_WRITE) == 0 &&
         ::fstat(file.get(), &about) == 0 &&
         static_cast<std::uint64_t>(about.st_size) == indexBytes(slots);
}

SlotState stateOf(const ArenaRecord& record) {
  return static_cast<SlotState>(record.state.load(std::memory_order_acquire));
}

void setState(ArenaRecord& record, SlotState state) {
  record.state.store(static_cast<std::uint32_t>(state), std::memory_order_release);
}

}  // namespace

std::string refusalOf(std::span<const std::byte> index, const ArenaIdentity& arena) {
  ArenaIndexHeader header{};
  if (index.size() < kArenaIndexHeaderBytes) return "it is shorter than its header";
  std::memcpy(&header, index.data(), sizeof header);
  const ArenaIndexHeader wanted = headerFor(arena);
  if (header.magic != wanted.magic) return "it is no index of an arena";
  if (header.version != wanted.version)
    return "it is of version " + std::to_string(header.version) + ", and this release has " +
           std::to_string(wanted.version);
  if (header.crc != checksumOf(header)) return "its header is not whole";
  if (header.required != 0) return "it has features that this release does not know";
  if (header.headerBytes != wanted.headerBytes || header.recordBytes != wanted.recordBytes ||
      header.slotBytes != wanted.slotBytes)
    return "its sizes are not those of this release";
  if (header.bootId != wanted.bootId) return "the machine was booted since it was made";
  const bool same = header.slots == wanted.slots && header.arenaDevice == wanted.arenaDevice &&
                    header.arenaInode == wanted.arenaInode &&
                    header.arenaBytes == wanted.arenaBytes;
  if (!same) return "it is of another arena";
  if (index.size() < indexBytes(static_cast<std::size_t>(header.slots)))
    return "it is shorter than its records";
  return {};
}

SlotState assess(const ArenaRecord& record) {
  const SlotState state = stateOf(record);
  const bool busy = record.busy.load(std::memory_order_relaxed) != 0;
  switch (state) {
    case SlotState::kFree:
      return busy ? SlotState::kQuarantined : SlotState::kFree;
    case SlotState::kValid: {
      if (busy) return SlotState::kQuarantined;
      const bool whole =
          record.bytes != 0 && record.bytes <= kChunkBytes && record.crc == checksumOf(record);
      return whole ? SlotState::kValid : SlotState::kFree;
    }
    case SlotState::kFilling:
    case SlotState::kQuarantined:
      break;
  }
  return SlotState::kQuarantined;
}

ArenaIndex::ArenaIndex(OwnedFd file, std::span<std::byte> memory, std::size_t slots)
    : file_(std::move(file)),
      memory_(memory),
      slots_(slots),
      records_(reinterpret_cast<ArenaRecord*>(memory.data() + kArenaIndexHeaderBytes)) {}

ArenaIndex::~ArenaIndex() { ::munmap(memory_.data(), memory_.size()); }

Result<OwnedFd> ArenaIndex::makeFile(std::size_t slots) {
  OwnedFd file(::memfd_create("hearth-arena-index", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto bytes = static_cast<off_t>(indexBytes(slots));
  // With its room, so that no later touch fails.
  if (!file || ::fallocate(file.get(), 0, 0, bytes) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return errnoError(errno, "making the index of an arena");
  return file;
}

Result<std::unique_ptr<ArenaIndex>> ArenaIndex::map(OwnedFd file, std::size_t slots) {
  const std::size_t bytes = indexBytes(slots);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return errnoError(errno, "mapping the index of an arena");
  return std::unique_ptr<ArenaIndex>(
      new ArenaIndex(std::move(file), {static_cast<std::byte*>(memory), bytes}, slots));
}

Result<std::unique_ptr<ArenaIndex>> ArenaIndex::create(const Arena& arena) {
  auto file = makeFile(arena.slots());
  if (!file.ok()) return file.error();
  auto index = map(std::move(*file), arena.slots());
  if (index.ok()) (*index)->reset(arena.identity(), SlotState::kFree);
  return index;
}

void ArenaIndex::reset(const ArenaIdentity& arena, SlotState state) {
  // A process that ends in the middle of this leaves no index.
  std::memset(memory_.data(), 0, sizeof(ArenaIndexHeader));
  std::atomic_thread_fence(std::memory_order_release);
  const std::uint64_t generation = firstGeneration();
  for (std::size_t slot = 0; slot < slots_; ++slot) {
    ArenaRecord& each = record(slot);
    setState(each, state);
    each.busy.store(0, std::memory_order_relaxed);
    each.generation.store(generation, std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_release);
  const ArenaIndexHeader header = headerFor(arena);
  std::memcpy(memory_.data(), &header, sizeof header);
}

Result<ArenaIndex::Adopted> ArenaIndex::adopt(const Arena& arena, OwnedFd file) {
  const bool usable = isUsable(file, arena.slots());
  if (!usable) {
    auto made = makeFile(arena.slots());
    if (!made.ok()) return made.error();
    file = std::move(*made);
  }
  auto index = map(std::move(file), arena.slots());
  if (!index.ok()) return index.error();
  Adopted adopted{std::move(*index), {}};
  ArenaIndex& ours = *adopted.index;
  const std::string refused = usable ? refusalOf(ours.memory_, arena.identity())
                                     : "its file is not one that an agent makes";
  // Where nothing is known of a slot, I/O may be in flight.
  if (!refused.empty()) ours.reset(arena.identity(), SlotState::kQuarantined);
  adopted.findings = ours.take(arena.slotsPerPage());
  adopted.findings.refused = refused;
  return adopted;
}

ArenaFindings ArenaIndex::take(std::size_t slotsPerPage) {
  ArenaFindings findings;
  for (std::size_t first = 0; first < slots_; first += slotsPerPage) {
    const std::size_t behind = std::min(first + slotsPerPage, slots_);
    // Only whole pages can be replaced by others: what is in a page with such a slot goes with it.
    bool quarantined = false;
    for (std::size_t slot = first; slot < behind; ++slot)
      quarantined = quarantined || assess(record(slot)) == SlotState::kQuarantined;
    for (std::size_t slot = first; slot < behind; ++slot) takeSlot(slot, quarantined, findings);
  }
  return findings;
}

void ArenaIndex::takeSlot(std::size_t slot, bool quarantined, ArenaFindings& findings) {
  ArenaRecord& each = record(slot);
  const SlotState state = quarantined ? SlotState::kQuarantined : assess(each);
  if (state == SlotState::kValid) {
    const SlotContents contents{{each.key}, each.chunk, each.bytes, each.crcs};
    findings.valid.push_back({slot, each.generation.load(), contents});
    return;
  }
  if (state == SlotState::kQuarantined) ++findings.quarantined;
  if (state == SlotState::kFree && stateOf(each) == SlotState::kValid) ++findings.refusedRecords;
  // Busy stays until the state says so by itself.
  setState(each, state);
  each.busy.store(0, std::memory_order_release);
}

SlotState ArenaIndex::state(std::size_t slot) const {
  assert(slot < slots_);
  return stateOf(record(slot));
}

std::uint64_t ArenaIndex::generation(std::size_t slot) const {
  assert(slot < slots_);
  return record(slot).generation.load(std::memory_order_acquire);
}

std::uint64_t ArenaIndex::beginFill(std::size_t slot) {
  assert(state(slot) == SlotState::kFree);
  ArenaRecord& each = record(slot);
  setState(each, SlotState::kFilling);
  // Nothing of what follows is seen before that.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return each.generation.fetch_add(1, std::memory_order_acq_rel) + 1;
}

void ArenaIndex::publish(std::size_t slot, const SlotContents& contents) {
  assert(state(slot) == SlotState::kFilling);
  assert(contents.bytes != 0 && contents.bytes <= kChunkBytes);
  ArenaRecord& each = record(slot);
  each.key = contents.key.bytes;
  each.chunk = contents.chunk;
  each.bytes = contents.bytes;
  each.crcs = contents.crcs;
  each.crc = checksumOf(each);
  setState(each, SlotState::kValid);
}

void ArenaIndex::free(std::size_t slot) {
  ArenaRecord& each = record(slot);
  assert(state(slot) == SlotState::kFilling || state(slot) == SlotState::kValid);
  assert(each.busy.load() == 0);
  setState(each, SlotState::kFree);
}

void ArenaIndex::noteBusy(std::size_t slot) {
  record(slot).busy.fetch_add(1, std::memory_order_seq_cst);
}

void ArenaIndex::noteIdle(std::size_t slot) {
  [[maybe_unused]] const std::uint32_t before =
      record(slot).busy.fetch_sub(1, std::memory_order_seq_cst);
  assert(before != 0);
}

bool ArenaIndex::verify(std::size_t slot, std::span<const std::byte> memory) const {
  const ArenaRecord& each = record(slot);
  if (stateOf(each) != SlotState::kValid || each.bytes > memory.size()) return false;
  std::span<const std::byte> left = memory.first(each.bytes);
  for (std::size_t block = 0; block < slotBlocks(each.bytes); ++block) {
    const auto size = std::min<std::size_t>(left.size(), kBlockBytes);
    if (crc32c(left.first(size)) != each.crcs[block]) return false;
    left = left.subspan(size);
  }
  return true;
}

std::size_t ArenaIndex::releaseQuarantine(Arena& arena) {
  const std::size_t unit = arena.slotsPerPage();
  const bool atOnce = arena.pages().kind >= ArenaPageKind::kHuge2M;
  std::size_t left = 0;
  for (std::size_t first = 0; first + unit <= slots_; first += unit) {
    if (state(first) != SlotState::kQuarantined) continue;
    if (!arena.decommit(first, unit) || (atOnce && !arena.commit(first, unit).ok())) {
      left += unit;
      continue;
    }
    // The first one last: it stands for all of its page.
    for (std::size_t slot = first + unit; slot-- > first;) setState(record(slot), SlotState::kFree);
  }
  return left;
}

}  // namespace hearth
