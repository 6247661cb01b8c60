// Engine: its memory for chunks and files.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>

#include "engine/engine.h"
#include "engine/slot_parts.h"
#include "fetch/fetcher.h"
#include "fetch/memory_tier.h"
#include "fetch/wanted_keys.h"
#include "holder/touched_memory.h"
#include "memory/aligned_mapping.h"
#include "memory/memory_touch.h"
#include "mount/holder_link.h"

namespace hearth {
namespace {

constexpr std::uint64_t kBufferBytesPerShard = 64u << 20;
// Reserve of one pool: slots in flight while all others are kept; more would be of no use.
constexpr std::size_t kMaxReserve = 64;
// Requests of the pool for clients take one slot each.
constexpr std::size_t kClientReserve = 2;
// Of a shard: the reserves of its pools.
constexpr std::size_t kFewestSlots = 2 * SlotStock::kFewest + kClientReserve;
// The holder's name for the folder of memory files.
constexpr char kMemoryFolder[] = "files";
// Bytes on their way to clients for each slot of the arena: half of the arena in all.
constexpr std::uint64_t kClientsBytes = kChunkBytes / 2;
// Slots whose room is taken at a time.
constexpr std::size_t kSlotsAtOnce = 16;
// Pause between tries while the holder that takes the room is away, or the machine is too busy.
constexpr auto kCommitPause = std::chrono::milliseconds(200);
// Pause between tries to reach a holder that starts.
constexpr auto kHolderPause = std::chrono::milliseconds(200);
// Pause between tries while there is no room: others may give theirs back, as a former agent does
// at its end.
constexpr auto kRoomPause = std::chrono::seconds(2);

// True: the cache has these very bytes.
bool claims(const CachedFile& file, const SlotContents& found) {
  if (found.chunk >= file.chunkCount()) return false;
  const auto chunk = static_cast<std::uint32_t>(found.chunk);
  const std::uint64_t left = file.size() - found.chunk * kChunkBytes;
  if (!file.resident(chunk) || found.bytes != std::min<std::uint64_t>(left, kChunkBytes))
    return false;
  return std::ranges::equal(file.blockChecksums(chunk),
                            std::span(found.crcs).first(slotBlocks(found.bytes)));
}

}  // namespace

void Engine::createHolderLink(const EngineOptions& options) {
  HolderLink::Options link;
  link.owner = options.node;
  link.socket = options.holder;
  link.log = [this](bool warning, const std::string& line) {
    commons_.log(warning ? EngineEvent::Level::kWarn : EngineEvent::Level::kInfo, line);
  };
  commons_.holder = std::make_shared<HolderLink>(std::move(link));
}

Status Engine::openArena(const EngineOptions& options) {
  const std::size_t shards = commons_.shards.size();
  const std::uint64_t share =
      options.bufferBytes != 0 ? options.bufferBytes / shards : kBufferBytesPerShard;
  const std::uint64_t slots = std::max<std::uint64_t>(share / kChunkBytes, kFewestSlots);
  ArenaSource::Options source;
  source.bytes = shards * slots * kChunkBytes;
  source.fewestBytes = shards * kFewestSlots * kChunkBytes;
  source.best = options.arenaPages;
  source.holder = commons_.holder;
  source.formerAgentsTimeout = options.formerAgentsTimeout;
  source.log = [this](bool warning, const std::string& line) {
    commons_.log(warning ? EngineEvent::Level::kWarn : EngineEvent::Level::kInfo, line);
  };
  arenaSource_ = std::make_unique<ArenaSource>(std::move(source));
  auto opened = arenaSource_->open();
  if (!opened.ok()) return opened.error().within("memory for chunks");
  commons_.arena = std::move(opened->arena);
  commons_.index = std::move(opened->index);
  commons_.found = std::move(opened->found);
  arenaOrigin_ = std::move(opened->origin);
  return {};
}

Result<MemoryFilesOptions> Engine::openMemoryFolder(std::uint64_t bytes) {
  if (const Status connected = commons_.holder->connect(); !connected.ok())
    return connected.error();
  const std::shared_ptr<HolderClient> client = commons_.holder->client();
  if (client == nullptr) return HolderLink::notConnected();
  auto folder = client->openFolder(kMemoryFolder, bytes + MemoryFiles::kOverheadBytes);
  if (folder.code() == ErrorCode::kOutOfSpace) {
    // The files of an agent with a larger budget are copies of what the disks have.
    if (const Status dropped = client->dropMemory(kMemoryFolder); !dropped.ok())
      return dropped.error();
    folder = client->openFolder(kMemoryFolder, bytes + MemoryFiles::kOverheadBytes);
  }
  if (!folder.ok()) return folder.error();
  // Lets the next holder have the folder: this one has it already.
  if (const Status kept = commons_.holder->keep(folder->record, folder->descriptor); !kept.ok())
    return kept.error();
  const auto root = std::make_shared<const OwnedFd>(std::move(folder->descriptor));
  MemoryFilesOptions options;
  options.path = "/proc/self/fd/" + std::to_string(root->get()) + "/cache";
  options.budgetBytes = bytes;
  options.keep = root;
  options.noHugePages = folder->record.noHugePages;
  options.takeRoom = [link = commons_.holder](int file, std::uint64_t offset,
                                              std::uint64_t length) -> Result<std::uint64_t> {
    const std::shared_ptr<HolderClient> holder = link->client();
    if (holder == nullptr) return HolderLink::notConnected();
    if (holder->holder().touchBytes != 0) {
      const OwnedFd copy(fcntl(file, F_DUPFD_CLOEXEC, 0));
      if (!copy) return errnoError(errno, "copying a descriptor");
      return holder->touchFile(kMemoryFolder, copy, offset, length);
    }
    const std::uint64_t room = memoryRoom();
    if (room < length) {
      return Error{ErrorCode::kOutOfSpace, "this agent may take " + std::to_string(room) +
                                               " bytes of memory more; make engine.memoryBytes "
                                               "smaller or raise the agent's limit"};
    }
    const std::uint64_t pages = (length + kSmallPageBytes - 1) / kSmallPageBytes;
    const auto touched = touchMemory(file, offset, pages * kSmallPageBytes);
    if (!touched.ok()) return touched.error();
    return touched->hugeBytes;
  };
  return options;
}

void Engine::dropMemoryFolder() {
  if (!commons_.holder->configured() || !commons_.holder->connect().ok()) return;
  const std::shared_ptr<HolderClient> client = commons_.holder->client();
  // kNotFound as a rule; else the memory stays until a later agent's start.
  if (client != nullptr) (void)client->dropMemory(kMemoryFolder);
}

Result<MemoryFilesOptions> Engine::awaitMemoryFolder(std::uint64_t bytes,
                                                     std::chrono::milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  for (;;) {
    auto folder = openMemoryFolder(bytes);
    const bool absent = commons_.holder->configured() && folder.code() == ErrorCode::kUnavailable;
    if (!absent || Clock::now() >= end) return folder;
    std::this_thread::sleep_for(kHolderPause);
  }
}

Task<void> Engine::openMemoryFiles(const EngineOptions& options, std::vector<ShardContext> shards) {
  const std::uint64_t bytes = options.memoryBytes;
  std::string off = "engine.memoryBytes is 0";
  if (bytes == 0) co_await home().offload([this] { return dropMemoryFolder(), 0; });
  if (bytes != 0) {
    auto opening = [this, bytes, timeout = options.holderTimeout] {
      return std::make_shared<Result<MemoryFilesOptions>>(awaitMemoryFolder(bytes, timeout));
    };
    const auto folder = co_await home().offload(opening);
    if (folder->ok()) {
      auto opened = co_await MemoryFiles::open(std::move(**folder), std::move(shards));
      if (opened.ok()) {
        commons_.memoryFiles = std::move(*opened);
        co_return;
      }
      off = opened.error().message;
    } else {
      off = folder->error().message;
    }
    commons_.log(EngineEvent::Level::kWarn,
                 "files are read from the disk alone, as memory for them cannot be used: " + off);
  }
  commons_.memoryFiles = std::make_unique<MemoryFiles>(std::move(off), bytes);
}

void Engine::createPools() {
  const std::size_t shards = commons_.shards.size();
  const std::size_t share = commons_.arena->slots() / shards;
  const std::size_t reserve = std::clamp(share / 4, SlotStock::kFewest, kMaxReserve);
  const std::vector<std::vector<const ChunkSlot*>> parts = slotParts(2 * reserve + kClientReserve);
  for (const std::unique_ptr<Shard>& each : commons_.shards) {
    Shard& shard = *each;
    shard.slots = std::make_unique<SlotStock>(parts[shard.index], commons_.index.get());
    shard.peerBuffers = std::make_unique<BufferPool>(*shard.reactor, *shard.slots, reserve);
    shard.originBuffers = std::make_unique<BufferPool>(*shard.reactor, *shard.slots, reserve);
    shard.clientBuffers =
        std::make_unique<BufferPool>(*shard.reactor, *shard.slots, kClientReserve);
    shard.memory = std::make_unique<MemoryTier>(*shard.reactor, *shard.slots);
    shard.clientTransit = std::make_unique<ClientTransit>(*shard.reactor, share * kClientsBytes);
    commons_.exchange.join(*shard.reactor, *shard.slots, *shard.memory);
  }
  commons_.exchange.open();
}

// Takes the arena's room before it is needed: the kernel clears a page at its first touch, which
// takes longer than to receive into it. Begins with the slots that every shard uses first.
Task<void> Engine::commitArena() {
  const std::size_t slots = commons_.arena->slots() / commons_.shards.size();
  for (std::size_t at = 0; at < slots; at += kSlotsAtOnce) {
    for (std::size_t shard = 0; shard < commons_.shards.size(); ++shard) {
      const std::size_t count = std::min(kSlotsAtOnce, slots - at);
      if (!co_await commit(shard * slots + at, count)) co_return;
    }
  }
}

Task<bool> Engine::commit(std::size_t first, std::size_t count) {
  Arena& arena = *commons_.arena;
  const Gate& gate = *commons_.shards.front()->gate;
  for (bool reported = false; !gate.closed();) {
    auto take = [&arena, first, count] { return arena.commit(first, count); };
    const Status taken = co_await home().offload(commons_.wholeFiles, take);
    if (taken.ok()) co_return true;
    const bool soon =
        taken.code() == ErrorCode::kUnavailable || taken.code() == ErrorCode::kDeadlineExceeded;
    if (!soon && !std::exchange(reported, true)) {
      commons_.log(EngineEvent::Level::kWarn,
                   "memory for chunks is missing: " + taken.error().message);
    }
    if (!soon && taken.code() != ErrorCode::kOutOfSpace) co_return false;
    const auto until = Clock::now() + (soon ? Clock::duration(kCommitPause) : kRoomPause);
    while (!gate.closed() && Clock::now() < until) co_await home().sleep(kCommitPause);
  }
  co_return false;
}

// The usable slots, by shard.
std::vector<std::vector<const ChunkSlot*>> Engine::slotParts(std::size_t fewest) {
  std::unordered_map<std::size_t, const SlotContents*> contents;
  for (const AdoptedSlot& found : commons_.found.valid) contents[found.slot] = &found.contents;
  std::vector<SlotToPart> usable;
  for (std::size_t slot = 0; slot < commons_.arena->slots(); ++slot) {
    const ArenaRegion& region = commons_.arena->regionOf(slot);
    commons_.slots.push_back({region.memory, (slot - region.firstSlot) * kChunkBytes, slot});
    if (commons_.index->state(slot) == SlotState::kQuarantined) continue;
    SlotToPart part{slot, {}};
    if (const auto left = contents.find(slot); left != contents.end())
      part.owner = commons_.owner(left->second->key).index;
    usable.push_back(part);
  }
  std::vector<std::vector<const ChunkSlot*>> parts;
  for (const std::vector<std::size_t>& slots : partSlots(usable, commons_.shards.size(), fewest)) {
    parts.emplace_back();
    for (const std::size_t slot : slots) parts.back().push_back(&commons_.slots[slot]);
  }
  return parts;
}

// Adopts chunks that the previous agent had in memory. Other slots go back to the stock one by one,
// so that waiters get memory meanwhile.
Task<void> Engine::adoptChunks(Shard& shard) {
  std::vector<ChunkBuffer> buffers = shard.slots->adopt();
  std::ranges::reverse(buffers);
  if (buffers.empty()) co_return;
  std::unordered_map<std::size_t, const SlotContents*> contents;
  for (const AdoptedSlot& found : commons_.found.valid) contents[found.slot] = &found.contents;
  while (!buffers.empty() && !shard.gate->closed()) {
    ChunkBuffer buffer = std::move(buffers.back());
    buffers.pop_back();
    const SlotContents& found = *contents.at(buffer.slot());
    co_await adoptChunk(shard, std::move(buffer), found);
  }
  // The rest is for the next agent. The stock stays in the index, which must know each slot that a
  // transfer still fills.
  shard.slots->leaveAdopted(std::move(buffers));
}

// Adopts only chunks that the cache has, too: so nothing is lost when they go, and chunks that were
// found wrong since do not come back. The cache's checksums are those of the index.
Task<void> Engine::adoptChunk(Shard& shard, ChunkBuffer buffer, const SlotContents& found) {
  if (&commons_.owner(found.key) != &shard) co_return;
  const std::shared_ptr<CachedFile> file = shard.wanted->cached(found.key);
  if (file == nullptr || !claims(*file, found)) co_return;
  const ArenaIndex& index = *commons_.index;
  auto verify = [&index, slot = buffer.slot(), bytes = commons_.arena->bytes(buffer.slot())] {
    return index.verify(slot, bytes);
  };
  const bool good = co_await shard.reactor->offload(commons_.wholeFiles, verify);
  if (!good || !claims(*file, found)) co_return;
  auto loaded = loadInto(*shard.reactor, std::move(buffer), found.bytes);
  loaded->checksums.assign(found.crcs.begin(), found.crcs.begin() + static_cast<std::ptrdiff_t>(
                                                                        slotBlocks(found.bytes)));
  shard.memory->adopt(found.key, file->size(), shard.wanted->find(found.key),
                      static_cast<std::uint32_t>(found.chunk), std::move(loaded));
}

EngineStatistics::ArenaUse Engine::arenaUse() const {
  const Arena& arena = *commons_.arena;
  EngineStatistics::ArenaUse use;
  use.bytes = arena.slots() * kChunkBytes;
  use.committedBytes = arena.committedBytes();
  use.hugeBytes = arena.hugeBytes();
  use.pages = arena.pages();
  use.touchedByHolder = arenaSource_->touchedByHolder();
  if (const Status kept = arenaSource_->kept(); !kept.ok()) use.unkept = kept.error().message;
  use.origin = arenaOrigin_;
  for (const AdoptedSlot& slot : commons_.found.valid) use.foundBytes += slot.contents.bytes;
  for (const std::unique_ptr<Shard>& shard : commons_.shards) {
    use.keptBytes += shard->memory->bytes();
    use.evictedFiles += shard->memory->evictedFiles();
    use.loadedBytes += shard->fetcher->cacheLoads().bytes();
  }
  use.movedBytes = commons_.exchange.moved() * kChunkBytes;
  use.quarantinedBytes = commons_.found.quarantined * kChunkBytes;
  return use;
}

}  // namespace hearth
