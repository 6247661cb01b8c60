// Reads of a context: from SGEs to parts of chunks, which all threads share.
#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/generated/constants.h"
#include "client/client_context.h"
#include "client/client_part.h"
#include "client/completion_status.h"
#include "memory/guarded_memory.h"

namespace hearth::gd2fs {
namespace {

// A dataset that leads to another revision is seen after so long at the latest.
constexpr Clock::duration kPathStaysKnown = std::chrono::seconds(2);
constexpr std::size_t kMostKnownPaths = 8192;
// Of such reads time matters most, and a hop between threads is a large part of it.
constexpr std::uint64_t kSmallBytes = 128u << 10;
// Threads share what is more: the hop is less than a turn in the queue of one of them.
constexpr std::size_t kFewUnderWay = 4;

}  // namespace

bool ClientContext::overlap(std::span<const MemorySlice> slices) {
  std::vector<std::pair<std::uintptr_t, std::uint64_t>> places;
  places.reserve(slices.size());
  for (const MemorySlice& slice : slices)
    if (slice.size != 0) places.emplace_back(slice.region->address() + slice.offset, slice.size);
  if (!std::ranges::is_sorted(places)) std::ranges::sort(places);
  const auto runsInto = [](const auto& a, const auto& b) { return b.first - a.first < a.second; };
  return std::ranges::adjacent_find(places, runsInto) != places.end();
}

int ClientContext::gather(std::span<const xfer_gd2fs_sge> sges, std::vector<MemorySlice>& slices,
                          std::vector<std::shared_ptr<IoMemory>>& memory) {
  slices.reserve(sges.size());
  const std::lock_guard lock(mutex_);
  const xfer_gd2fs_iomem* last = nullptr;
  for (const xfer_gd2fs_sge& sge : sges) {
    if (memory.empty() || sge.iomem != last) {
      const auto found = memory_.find(reinterpret_cast<std::uintptr_t>(sge.iomem));
      if (found == memory_.end()) return -EFAULT;
      memory.push_back(found->second);
      last = sge.iomem;
    }
    const std::shared_ptr<MemoryRegion>& region = memory.back()->region;
    const auto address = reinterpret_cast<std::uintptr_t>(sge.addr);
    const bool inside = address >= region->address() && sge.len <= region->size() &&
                        address - region->address() <= region->size() - sge.len;
    if (!inside) return -EFAULT;
    slices.push_back({region, address - region->address(), sge.len});
  }
  return 0;
}

int ClientContext::measure(std::span<const MemorySlice> slices, std::uint64_t offset,
                           std::uint64_t& size) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (offset > kMost) return -EOVERFLOW;
  size = 0;
  for (const MemorySlice& slice : slices) {
    if (slice.size > kMost - offset - size) return -EOVERFLOW;
    size += slice.size;
  }
  return 0;
}

int ClientContext::read(void* id, const char* path, std::uint64_t offset,
                        std::span<const xfer_gd2fs_sge> sges) {
  std::string located;
  if (const int bad = locate(path, located); bad != 0) return bad;
  if (sges.empty()) return -EINVAL;
  std::vector<MemorySlice> slices;
  std::vector<std::shared_ptr<IoMemory>> memory;
  if (const int bad = gather(sges, slices, memory); bad != 0) return bad;
  // The checksums of what came first would be compared with what came last.
  if (slices.size() > 1 && overlap(slices)) return -EINVAL;
  std::uint64_t size = 0;
  if (const int bad = measure(slices, offset, size); bad != 0) return bad;
  const auto work = [&](AgentLink& link, std::shared_ptr<Request> request) {
    request->use(std::move(memory));
    for (MemorySlice& slice : slices) slice.owner = request;
    MemoryVector into(std::move(slices));
    return readOn(*this, link, std::move(request), std::move(located), offset, std::move(into));
  };
  return submit(id, work, [&] { return size <= kSmallBytes ? nearest(located) : nullptr; });
}

AgentLink* ClientContext::nearest(const std::string& path) {
  const std::optional<ResolvedPath> resolved = known(path);
  if (!resolved || !resolved->shard) return nullptr;
  AgentLink& link = *links_[*resolved->shard % links_.size()];
  return link.underWay() < kFewUnderWay ? &link : nullptr;
}

std::optional<ResolvedPath> ClientContext::known(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(path);
  if (found == known_.end() || found->second.until <= Clock::now()) return std::nullopt;
  uses_.splice(uses_.begin(), uses_, found->second.use);
  return found->second.resolved;
}

void ClientContext::know(const std::string& path, const ResolvedPath& resolved) {
  // Each read of a volume's file sees what was published before it.
  if (liesIn(kVolumeRoot, path)) return;
  const std::lock_guard lock(mutex_);
  const auto [entry, added] = known_.try_emplace(path);
  if (added) {
    uses_.push_front(path);
    entry->second.use = uses_.begin();
  }
  entry->second.resolved = resolved;
  entry->second.until = Clock::now() + kPathStaysKnown;
  if (known_.size() <= kMostKnownPaths) return;
  known_.erase(uses_.back());
  uses_.pop_back();
}

void ClientContext::forget(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (const auto found = known_.find(path); found != known_.end()) found->second.until = {};
}

Task<Result<ResolvedPath>> ClientContext::resolve(AgentLink& link, std::string path,
                                                  Clock::time_point deadline) {
  if (const std::optional<ResolvedPath> before = known(path)) co_return *before;
  Result<ResolvedPath> resolved = co_await link.resolve(path, deadline);
  if (resolved.ok()) know(path, *resolved);
  co_return resolved;
}

Task<std::shared_ptr<LocalFile>> ClientContext::localFile(AgentLink& link, std::string path,
                                                          ResolvedPath resolved) {
  // Agents pass files of datasets alone.
  if (liesIn(kVolumeRoot, path)) co_return nullptr;
  if (std::shared_ptr<LocalFile> open = localFiles_->find(resolved.key)) co_return open;
  co_return co_await localFiles_->open(std::move(path), resolved.key, resolved.size,
                                       link.reactor());
}

Task<void> ClientContext::readOn(ClientContext& context, AgentLink& link,
                                 std::shared_ptr<Request> request, std::string path,
                                 std::uint64_t offset, MemoryVector into) {
  const Result<ResolvedPath> resolved = co_await context.resolve(link, path, request->deadline);
  if (!resolved.ok()) co_return request->fail(statusOf(resolved.code()));
  if (resolved->kind == ResolvedKind::kFolder) co_return request->fail(requestStatus(EISDIR));
  if (resolved->kind == ResolvedKind::kSymlink) co_return request->fail(requestStatus(ELOOP));
  if (offset >= resolved->size) co_return;
  const std::shared_ptr<LocalFile> local = co_await context.localFile(link, path, *resolved);
  auto file = std::make_shared<const FileOfAgent>(FileOfAgent{path, resolved->key});
  Task<void> reading = readParts(context, link, std::move(request), std::move(file), local, offset,
                                 resolved->size, std::move(into));
  co_await reading;
}

Task<void> ClientContext::readParts(ClientContext& context, AgentLink& link,
                                    std::shared_ptr<Request> request,
                                    std::shared_ptr<const FileOfAgent> file,
                                    std::shared_ptr<LocalFile> local, std::uint64_t offset,
                                    std::uint64_t end, MemoryVector into) {
  std::uint64_t left = std::min(into.size(), end - offset);
  MemoryCursor cursor(into);
  std::vector<Part> parts;
  while (left != 0) {
    const std::uint64_t size = std::min(left, kChunkBytes - offset % kChunkBytes);
    parts.emplace_back(request, file, local, offset, cursor.part(size));
    offset += size;
    left -= size;
  }
  into = {};
  // A single one goes on here: another thread would have to be woken.
  if (parts.size() == 1) {
    co_await readPart(context, link, std::move(parts.front()));
    co_return;
  }
  for (Part& part : parts) {
    AgentLink& next = context.nextLink();
    next.post(readPart(context, next, std::move(part)));
  }
}

Task<void> ClientContext::readPart(ClientContext& context, AgentLink& link, Part part) {
  co_await link.parts().acquire(1);
  const PlaceReturn place(link.parts());
  if (part.request->failed()) {
    part.read = true;
    co_return;
  }
  const std::uint64_t size = part.into.size();
  Task<Status> reading = part.into.isHost() ? readInto(context, link, part, part.into)
                                            : readBounced(context, link, part);
  const Status read = co_await reading;
  part.read = true;
  if (read.ok()) {
    part.request->add(size);
    co_return;
  }
  // The next read looks where the path leads by then.
  if (read.code() == ErrorCode::kConflict || read.code() == ErrorCode::kNotFound)
    context.forget(part.file->path);
  part.fail(read);
}

Task<Status> ClientContext::readInto(ClientContext& context, AgentLink& link, Part& part,
                                     MemoryVector into) {
  if (part.local != nullptr) {
    Status here = co_await part.local->read(link.reactor(), part.offset, into);
    if (here.ok() || here.code() == ErrorCode::kInvalidArgument) co_return here;
    // The agent checks what it sends, and mends what is bad.
    context.localFiles_->distrust(part.file->key);
  }
  const std::uint64_t ahead = part.offset % kBlockBytes;
  co_return co_await link.read(*part.file, part.offset - ahead,
                               Part::fromBlock(ahead, std::move(into)), part.request->deadline);
}

namespace {

// Bytes of a lane, and where they go.
struct Copy {
  std::shared_ptr<GpuMemory> gpu;  // null: of the host
  std::span<const std::byte> from;
  MemorySlice into;  // without its owner, the request, which is not to wait for a call that hangs
  MemoryUses::Use use;
};

std::vector<Copy> copiesOf(const Request& request, const GpuMemory::Lane& lane,
                           const MemoryVector& into) {
  std::vector<Copy> copies;
  std::span<const std::byte> left = lane.bytes();
  for (const MemorySlice& slice : into.slices()) {
    const auto from = left.first(static_cast<std::size_t>(slice.size));
    left = left.subspan(from.size());
    const IoMemory& memory = request.memoryOf(*slice.region);
    copies.push_back({memory.gpu,
                      from,
                      {slice.region, slice.offset, slice.size},
                      MemoryUses::begin(memory.uses)});
  }
  return copies;
}

Status copyOut(const Copy& copy, GpuMemory::Lane& lane, const GpuMemory& gpuOfLane) {
  if (copy.gpu == nullptr) {
    if (copyIfThere(copy.into.bytes(), copy.from)) return {};
    return Error{ErrorCode::kInvalidArgument, "the memory is not there any more"};
  }
  if (copy.gpu.get() == &gpuOfLane) return copy.gpu->copy(lane, copy.from, copy.into);
  const Result<std::unique_ptr<CopyStream>> stream = copy.gpu->device().stream();
  return stream.ok() ? copy.gpu->copy(**stream, copy.from, copy.into) : Status(stream.error());
}

}  // namespace

Task<Status> ClientContext::readBounced(ClientContext& context, AgentLink& link, Part& part) {
  const Request& request = *part.request;
  const auto isOfGpu = [](const MemorySlice& slice) { return !slice.region->isHost(); };
  const std::shared_ptr<GpuMemory> gpu =
      request.memoryOf(*std::ranges::find_if(part.into.slices(), isOfGpu)->region).gpu;
  co_await link.lanes().acquire(1);
  const PlaceReturn place(link.lanes());
  const auto taken = std::make_shared<std::shared_ptr<GpuMemory::Lane>>();
  auto take = [gpu, taken]() -> Status {
    Result<std::shared_ptr<GpuMemory::Lane>> lane = gpu->lane();
    if (!lane.ok()) return lane.error();
    *taken = std::move(*lane);
    return {};
  };
  Task<Status> taking = gpu->calls().run(link.reactor(), request.deadline, std::move(take));
  const Status there = co_await taking;
  if (!there.ok()) co_return there;
  const std::shared_ptr<GpuMemory::Lane> lane = std::move(*taken);
  const auto room = lane->bytes().first(static_cast<std::size_t>(part.into.size()));
  const Status read = co_await readInto(context, link, part, MemorySlice::of(room, lane));
  if (!read.ok()) co_return read;
  // Memory of the host first: none of it may be written to by a call that was given up.
  std::vector<Copy> copies = copiesOf(request, *lane, part.into);
  const auto ofGpus =
      std::ranges::stable_partition(copies, [](const Copy& copy) { return copy.gpu == nullptr; });
  auto toHost = [&]() -> Status {
    for (auto copy = copies.begin(); copy != ofGpus.begin(); ++copy)
      if (Status copied = copyOut(*copy, *lane, *gpu); !copied.ok()) return copied;
    return {};
  };
  if (ofGpus.begin() != copies.begin()) {
    const Status copied = co_await link.reactor().offload(toHost);
    if (!copied.ok()) co_return copied;
  }
  auto toGpus = [gpu, lane, own = std::vector<Copy>(ofGpus.begin(), ofGpus.end())]() -> Status {
    for (const Copy& copy : own)
      if (Status copied = copyOut(copy, *lane, *gpu); !copied.ok()) return copied;
    return {};
  };
  Task<Status> copying = gpu->calls().run(link.reactor(), request.deadline, std::move(toGpus));
  const Status copied = co_await copying;
  if (copied.code() == ErrorCode::kDeadlineExceeded) part.request->leaveUnquiescent();
  co_return copied;
}

}  // namespace hearth::gd2fs
