// The parts of the engine that mounts use, and each shard's part of the mounts. All of it outlives
// mounts, and files that are open there.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/content_cache.h"
#include "dataset/engine_event.h"
#include "fetch/buffer_pool.h"
#include "fetch/fetcher.h"
#include "fetch/withdrawn_bytes.h"
#include "memory_files/memory_files.h"
#include "memory_files/memory_filling.h"
#include "mount/early_files.h"
#include "mount/failed_reads.h"
#include "mount/prefetcher.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "volume_mount/volume_files.h"
#include "warm/warm_ports.h"

namespace hearth {

class HolderLink;
struct MountPorts;

// One shard. Used on its thread, except for members marked "any thread".
struct MountShard {
  const MountPorts& ports;
  Reactor& reactor;  // any thread may post
  Gate& gate;        // background coroutines
  Fetcher& fetcher;
  MemoryFilling& filling;
  BufferPool& originBuffers;
  BufferPool& peerBuffers;
  Prefetcher prefetcher{*this};
  std::atomic<bool> servesBuffersSoon{false};  // any thread: a turn that serves waiters is posted
};

// Reads of applications that a shard answered. Any thread.
struct DemandCounters {
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> bytes{0};
};

// WILLNEED and DONTNEED: pieces of advice taken, bytes of the files that are to come, and bytes let
// go. Any thread.
struct AdviceCounters {
  std::atomic<std::uint64_t> willNeed{0}, willNeedBytes{0};
  std::atomic<std::uint64_t> dontNeed{0}, dontNeedBytes{0};
};

// The part of a file that this node lets go: the cached copy and memory, or memory alone.
enum class LetGo : std::uint8_t { kCopy, kMemory };

struct MountPorts {
  // False: the file is in use, pinned or published, and stays. On the home shard's thread.
  using LetGoOfFile = std::function<Task<bool>(std::shared_ptr<Dataset>, std::uint32_t, LetGo)>;

  const std::string& self;  // the name of this node
  ContentCache& cache;
  MemoryFiles& memoryFiles;
  const WarmPorts& warming;
  LetGoOfFile letGoOfFile;
  DemandCounters& demand;
  AdviceCounters& advice;
  FailedReads& failedReads;
  const WithdrawnBytes& withdrawn;
  const EventSink& events;
  std::shared_ptr<HolderLink> holder;
  std::vector<std::unique_ptr<MountShard>> shards;  // the home shard is the first
  std::unique_ptr<EarlyFiles> earlyFiles = std::make_unique<EarlyFiles>();
  // A writable volume's files, on the home shard's thread; kNotFound: it is not known here (yet).
  // Empty: the engine has no volumes.
  std::function<Task<Result<std::shared_ptr<VolumeFiles>>>(tree::WideId)> volumeFiles;

  [[nodiscard]] MountShard& home() const { return *shards.front(); }
  [[nodiscard]] MountShard& owner(const ContentKey& key) const {
    return *shards[shardOf(key, shards.size())];
  }
};

}  // namespace hearth
