#include "arena/arena.h"

#include <sys/stat.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <numeric>
#include <string>

namespace hearth {
namespace {

const NumaTopology& topologyOf(const ArenaOptions& options) {
  static const KernelNumaTopology kernels;
  return options.topology != nullptr ? *options.topology : kernels;
}

// The slots of each node: equal parts, in whole pages; the last ones have less or none.
std::vector<ArenaRegion> divide(std::size_t slots, const std::vector<int>& nodes,
                                std::uint64_t pageBytes) {
  const std::size_t unit = std::max<std::uint64_t>(pageBytes, kChunkBytes) / kChunkBytes;
  const std::size_t units = (slots + unit - 1) / unit;
  const std::size_t each = (units + nodes.size() - 1) / nodes.size() * unit;
  std::vector<ArenaRegion> regions;
  std::size_t first = 0;
  for (const int node : nodes) {
    const std::size_t count = std::min(each, slots - first);
    if (count == 0) break;
    regions.push_back({node, first, count, nullptr});
    first += count;
  }
  return regions;
}

Result<ArenaIdentity> identityOf(const OwnedFd& file) {
  struct stat about {};
  if (::fstat(file.get(), &about) != 0) return errnoError(errno, "looking at an arena");
  return ArenaIdentity{about.st_dev, about.st_ino, static_cast<std::uint64_t>(about.st_size)};
}

// Of those that a file has which was made before.
Result<ArenaPages> pagesOf(const OwnedFd& file) {
  const auto page = pageBytesOf(file.get());
  if (!page.ok()) return page.error();
  for (const auto kind : {ArenaPageKind::kHuge1G, ArenaPageKind::kHuge2M}) {
    if (*page == arenaPageBytes(kind)) return ArenaPages{kind, {}};
  }
  return probeArenaPages(ArenaPageKind::kTransparent);
}

}  // namespace

Arena::Arena(OwnedFd file, ArenaIdentity identity, ArenaPages pages, ArenaTouch touch)
    : file_(std::move(file)),
      identity_(identity),
      pages_(std::move(pages)),
      touch_(std::move(touch)),
      slots_(static_cast<std::size_t>(identity.bytes / kChunkBytes)),
      hugeBytes_(slots_) {}

Result<std::unique_ptr<Arena>> Arena::create(const ArenaOptions& options) {
  if (options.bytes < kChunkBytes) {
    return Error{ErrorCode::kInvalidArgument, "an arena of " + std::to_string(options.bytes) +
                                                  " bytes has no slot of " +
                                                  std::to_string(kChunkBytes)};
  }
  std::string reason;
  for (const auto kind : {ArenaPageKind::kHuge1G, ArenaPageKind::kHuge2M}) {
    if (kind > options.best) continue;
    auto arena = make({kind, reason}, options);
    const bool absent =
        arena.code() == ErrorCode::kOutOfSpace || arena.code() == ErrorCode::kUnsupported;
    if (!absent || options.required) return arena;
    reason += (reason.empty() ? "" : "; ") + arena.error().message;
  }
  ArenaPages pages = probeArenaPages(std::min(options.best, ArenaPageKind::kTransparent));
  if (options.required && pages.kind < options.best)
    return Error{ErrorCode::kUnsupported, pages.reason};
  if (!pages.reason.empty() && !reason.empty()) reason += "; ";
  pages.reason = reason + pages.reason;
  return make(std::move(pages), options);
}

Result<std::unique_ptr<Arena>> Arena::make(ArenaPages pages, const ArenaOptions& options) {
  const std::uint64_t unit = std::max<std::uint64_t>(arenaPageBytes(pages.kind), kChunkBytes);
  const std::uint64_t bytes = options.bytes / unit * unit;
  if (bytes == 0) {
    return Error{ErrorCode::kUnsupported, "the arena is to be smaller than one page of " +
                                              std::string(arenaPageKindName(pages.kind))};
  }
  auto file = makeArenaFile(pages.kind, bytes);
  if (!file.ok()) return file.error();
  return map(std::move(*file), std::move(pages), options, true);
}

Result<std::unique_ptr<Arena>> Arena::adopt(OwnedFd file, const ArenaOptions& options) {
  auto pages = pagesOf(file);
  if (!pages.ok()) return pages.error();
  return map(std::move(file), std::move(*pages), options, false);
}

Result<std::unique_ptr<Arena>> Arena::map(OwnedFd file, ArenaPages pages,
                                          const ArenaOptions& options, bool isNew) {
  const auto identity = identityOf(file);
  if (!identity.ok()) return identity.error();
  if (identity->bytes == 0 || identity->bytes % kChunkBytes != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "what is to be adopted is no arena: it is not of whole slots; make a new one"};
  }
  const NumaTopology& topology = topologyOf(options);
  const std::uint64_t page = arenaPageBytes(pages.kind);
  const bool atOnce = pages.kind >= ArenaPageKind::kHuge2M;
  std::unique_ptr<Arena> arena(
      new Arena(std::move(file), *identity, std::move(pages), options.touch));
  arena->regions_ = divide(arena->slots_, topology.nodes(), page);
  for (ArenaRegion& region : arena->regions_) {
    const std::uint64_t offset = region.firstSlot * kChunkBytes;
    const std::uint64_t bytes = region.slots * kChunkBytes;
    if (isNew && arena->regions_.size() > 1) {
      // It works without, slower: a container may not be let (seccomp).
      const Status preferred = topology.prefer(arena->file_.get(), offset, bytes, region.node);
      if (!preferred.ok()) arena->pages_.unplaced = preferred.error().message;
    }
    if (atOnce) {
      if (Status taken = arena->commit(region.firstSlot, region.slots); !taken.ok())
        return taken.error();
    }
    auto memory = MemoryRegion::map(arena->file_.get(), offset, static_cast<std::size_t>(bytes));
    if (!memory.ok()) return memory.error();
    region.memory = std::move(*memory);
  }
  return arena;
}

const ArenaRegion& Arena::regionOf(std::size_t slot) const {
  assert(slot < slots_);
  const auto behind = std::ranges::upper_bound(regions_, slot, {}, &ArenaRegion::firstSlot);
  return *std::prev(behind);
}

std::span<std::byte> Arena::bytes(std::size_t slot) const {
  const ArenaRegion& region = regionOf(slot);
  return region.memory->bytes().subspan((slot - region.firstSlot) * kChunkBytes, kChunkBytes);
}

MemorySlice Arena::slice(std::size_t slot, std::uint64_t size,
                         std::shared_ptr<const void> owner) const {
  assert(size <= kChunkBytes);
  const ArenaRegion& region = regionOf(slot);
  return {region.memory, (slot - region.firstSlot) * kChunkBytes, size, std::move(owner)};
}

std::size_t Arena::slotsPerPage() const {
  return std::max<std::uint64_t>(arenaPageBytes(pages_.kind) / kChunkBytes, 1);
}

Status Arena::commit(std::size_t first, std::size_t count) {
  assert(first <= slots_ && count <= slots_ - first);
  const std::uint64_t page = arenaPageBytes(pages_.kind);
  const std::uint64_t from = first * kChunkBytes / page * page;
  const std::uint64_t to = ((first + count) * kChunkBytes + page - 1) / page * page;
  const auto touched = touch_(file_.get(), from, to - from);
  if (!touched.ok()) return touched.error();
  const std::lock_guard lock(mutex_);
  // The kernel may make small pages in some of them: those behind are taken for the rest.
  std::uint64_t huge = touched->hugeBytes;
  for (std::size_t slot = first; slot < first + count; ++slot) {
    hugeBytes_[slot] = std::min<std::uint64_t>(huge, kChunkBytes);
    huge -= hugeBytes_[slot];
  }
  return {};
}

bool Arena::decommit(std::size_t first, std::size_t count) {
  assert(first <= slots_ && count <= slots_ - first);
  const std::size_t unit = slotsPerPage();
  bool all = first % unit == 0 && count % unit == 0;
  for (std::size_t slot = (first + unit - 1) / unit * unit; slot + unit <= first + count;
       slot += unit) {
    const ArenaRegion& region = regionOf(slot);
    const std::uint64_t offset = (slot - region.firstSlot) * kChunkBytes;
    const bool done = region.memory->punch(offset, unit * kChunkBytes);
    all = all && done;
    const std::lock_guard lock(mutex_);
    if (done) std::fill_n(hugeBytes_.begin() + static_cast<std::ptrdiff_t>(slot), unit, 0);
  }
  return all;
}

std::uint64_t Arena::committedBytes() const {
  struct stat about {};
  if (::fstat(file_.get(), &about) != 0) return 0;
  return static_cast<std::uint64_t>(about.st_blocks) * 512;
}

std::uint64_t Arena::hugeBytes() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(hugeBytes_.begin(), hugeBytes_.end(), std::uint64_t{0});
}

}  // namespace hearth
