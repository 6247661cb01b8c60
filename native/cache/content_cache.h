// The cache of one agent: files by content key in its cache directories, what of them is resident,
// the residency log that claims it, budgets and eviction. Keys are distributed over shards; a
// CachedFile's coroutines run on its own shard's reactor. "Any thread" members are marked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/content_key.h"
#include "base/generated/constants.h"
#include "base/result.h"
#include "cache/cluster_copies.h"
#include "files/disk_watch.h"
#include "files/watched_file_system.h"
#include "manifest/manifest.h"
#include "reactor/reactor.h"

namespace hearth {

// One shard as the rooms below the engine see it.
struct ShardContext {
  Reactor& reactor;
  FileSystem& files;
};

// Which shard owns a key. Stable while the process runs; nothing on disk depends on it.
[[nodiscard]] inline std::size_t shardOf(const ContentKey& key, std::size_t shards) {
  return static_cast<std::size_t>(key.prefix() >> 16) % shards;
}

struct CacheDirectoryOptions {
  std::string path;
  std::uint64_t budgetBytes = 0;     // hard
  std::uint64_t freeFloorBytes = 0;  // the file system is never filled beyond this much free space
  // Its disk hangs when it ends nothing for so long (DiskWatch). max(): it lies in memory, where
  // calls may take long and none hangs.
  Clock::duration stall = DiskWatch::kStall;
};

// A scrub as its caller follows it, on the file's shard; each part may be missing.
struct ScrubWatch {
  std::atomic<std::uint64_t>* checked = nullptr;  // grows by the bytes found good, as they are
  // Awaited before so many bytes are read; false ends the scrub early.
  std::function<Task<bool>(std::uint64_t bytes)> pace;
  // Told of each bad block, by its number in the file.
  std::function<void(std::uint64_t block)> bad;
};

class CachedFile {
 public:
  virtual ~CachedFile() = default;

  // Any thread. While its disk hangs nothing of a file is resident: who needs it gets it elsewhere.
  [[nodiscard]] virtual const ContentKey& key() const = 0;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  [[nodiscard]] std::uint32_t chunkCount() const {
    return static_cast<std::uint32_t>((size() + kChunkBytes - 1) / kChunkBytes);
  }
  [[nodiscard]] virtual bool resident(std::uint32_t chunk) const = 0;
  // All chunks overlapping [offset, offset + length) are resident.
  [[nodiscard]] virtual bool residentRange(std::uint64_t offset, std::uint64_t length) const = 0;
  [[nodiscard]] virtual std::uint64_t residentBytes() const = 0;
  [[nodiscard]] virtual bool complete() const = 0;
  // Waits for the disk at its first call. Read-only descriptor of the cache file (opened on first
  // use, then kept until the CachedFile goes).
  [[nodiscard]] virtual Result<int> descriptor() = 0;
  // Which of the cache directories it lies in, by its number: what is written to others goes to
  // other disks.
  [[nodiscard]] virtual std::size_t disk() const { return 0; }
  // Path of the cache file, for views.
  [[nodiscard]] virtual std::string path() const = 0;
  // The resident bytes [offset, offset + length) in the mapped file, after checking the CRC32C of
  // every block they touch. kCorrupt: the chunk of that block is absent from now on (the engine
  // fetches it again) and counted; kNotFound: not resident. The memory stays valid as long as this
  // CachedFile.
  [[nodiscard]] virtual Result<std::span<const std::byte>> verified(std::uint64_t offset,
                                                                    std::uint64_t length) = 0;
  // The same into `into`, whole blocks from `offset` on, without waiting for the disk or for a file
  // to be opened: false when the bytes are not in memory, do not match their checksums or are not
  // resident, and when none has read the file by verified(), which does all that is to be done
  // then.
  [[nodiscard]] virtual bool verifiedInMemory(std::uint64_t offset, std::span<std::byte> into) = 0;
  // Any thread, waits for the disk at its first call. The resident bytes [offset, offset + length)
  // in the mapped file, whose checksums
  // are not compared: of a file in memory, where nobody changes what was compared when it was
  // written. Valid as long as this CachedFile. kNotFound: not resident; errors of opening the file.
  [[nodiscard]] virtual Result<std::span<const std::byte>> inPlace(std::uint64_t offset,
                                                                   std::uint64_t length) = 0;
  // Any thread, waits for the disk. The whole of a file of one chunk into `into`, which has its
  // size, with the CRC32C of every block checked; cheaper than to map a small file. Errors as
  // verified().
  [[nodiscard]] virtual Status readWhole(std::span<std::byte> into) = 0;
  // Any thread, never waits. The bytes are in memory, as far as the kernel says, of a file that
  // was read by verified(), which hardly waits for them then.
  [[nodiscard]] virtual bool inPageCache(std::uint64_t offset, std::uint64_t length) = 0;
  // Own shard. A resident chunk into `into`, past the page cache where possible, with the CRC32C of
  // its blocks checked: page-aligned memory that has room for the chunk's whole pages. `keep` owns
  // the memory, and may live longer than the call; null: it is copied. kNotFound: not resident;
  // kCorrupt: absent from now on; kUnavailable: the disk hangs; errors of opening the file.
  [[nodiscard]] virtual Task<Status> readChunk(std::uint32_t chunk, std::span<std::byte> into,
                                               std::shared_ptr<const void> keep = nullptr) = 0;
  // CRC32C of the blocks of a resident chunk, as received.
  [[nodiscard]] virtual std::vector<std::uint32_t> blockChecksums(std::uint32_t chunk) const = 0;
  // Notes a use now (eviction order).
  virtual void touch() = 0;

  // Any thread. This chunk would hardly be stored now: the directory has refused one lately, for
  // want of room that it still lacks, or because its disk failed.
  [[nodiscard]] virtual bool refuses([[maybe_unused]] std::uint32_t chunk) const { return false; }
  // Any thread, by whoever can do without the chunk, just before writeChunk: false while the
  // directory refuses it, but for one caller in a while, who finds out whether it still does.
  [[nodiscard]] virtual bool worthStoring([[maybe_unused]] std::uint32_t chunk) { return true; }

  // Any thread. The rest of the file cannot be stored, as the disk of its directory fails, and
  // another directory accepts files: who acquires it when nobody has it any more gets it there.
  [[nodiscard]] virtual bool misplaced() const { return false; }

  // Own shard. Writes a whole chunk (the last may be short), makes it resident and queues its claim
  // in the residency log. Reserves room first, evicting others if needed: kOutOfSpace when nothing
  // may go; kIoError: the disk fails or hangs. `blockChecksums`: CRC32C of each 64 KiB of `data`,
  // already compared with what was received. `keep` owns the data, and may live longer than the
  // call; null: they are copied.
  [[nodiscard]] virtual Task<Status> writeChunk(std::uint32_t chunk,
                                                std::span<const std::byte> data,
                                                std::span<const std::uint32_t> blockChecksums,
                                                std::shared_ptr<const void> keep = nullptr) = 0;
  // Own shard. Ends when the log durably claims everything written so far, except chunks found bad;
  // an empty file is there then.
  [[nodiscard]] virtual Task<Status> claimed() = 0;
  // Any thread. The log claims all that is resident durably: who is killed now has it again.
  [[nodiscard]] virtual bool durable() const = 0;
  // Any thread. The log says durably that the whole file is what the origin's digest says, or that
  // the origin gave none; no chunk of it was found bad since.
  [[nodiscard]] virtual bool verifiedWhole() const = 0;
  // Any thread. Changes when a chunk is found bad: whoever verifies the file takes it before.
  [[nodiscard]] virtual std::uint64_t generation() const = 0;
  // Any thread. All of it is absent from now on, as the origin's digest says that it is wrong.
  virtual void discard() = 0;
  // Own shard. Claims everything and records durably that the whole file has this digest (zeros:
  // the origin gave none). kConflict: a chunk was found bad since `generation`; kNotFound:
  // incomplete.
  [[nodiscard]] virtual Task<Status> recordVerified(Sha256Digest digest,
                                                    std::uint64_t generation) = 0;
  // Own shard. Reads every resident block from disk (past the page cache where possible) and checks
  // it; bad chunks become absent. Bytes checked and found good.
  [[nodiscard]] virtual Task<Result<std::uint64_t>> scrub(ScrubWatch watch) = 0;
  // Own shard. The same for one chunk: how many of its blocks are bad, 0 when it is not resident.
  [[nodiscard]] virtual Task<Result<std::uint32_t>> scrubChunk(std::uint32_t chunk) = 0;

  // Any shard. Runs `work`, which may wait for the disk, on the threads of the file's disk.
  // kUnavailable: the disk hangs. Then `work` may still run, so that it owns what it uses, and does
  // not outlive the file. callDisk() (verified_read.h) brings its result back.
  [[nodiscard]] virtual Task<Status> onDisk(std::function<void()> work) = 0;
  // Any thread. The disk of the file hangs, or writes to it do, and is tried again.
  [[nodiscard]] virtual bool hangs() const { return false; }
};

// Any thread's view of the whole cache; sums are of moments close to one another.
struct CacheStatistics {
  std::uint64_t contentKeys = 0, residentBytes = 0, pinnedBytes = 0;
  std::uint64_t corruptBlocks = 0, evictedFiles = 0, evictedBytes = 0;
  // Of the files that were evicted for room while they were wanted in the cluster: those that other
  // agents keep; the last copies; those of which no agent said so in time; those for which no agent
  // could be asked. And how often one stayed for being the last.
  std::uint64_t redundantCopies = 0, lastCopies = 0, unansweredCopies = 0, unaskedCopies = 0;
  std::uint64_t lastCopiesKept = 0;
  // Of the residency logs, at the start: bytes that are no records. And files that are to be
  // checked for it.
  std::uint64_t lostLogBytes = 0, doubtfulFiles = 0;
  struct Directory {
    std::string path;
    std::uint64_t budgetBytes = 0, usedBytes = 0, freeFloorBytes = 0, fileSystemFreeBytes = 0;
    std::string failure;  // why no new files go there; empty: they do
    // While reads of its disk hang: files that are in use, for which programs may wait. Some of
    // them; the engine knows their names.
    struct Waiting {
      ContentKey key;
      std::string name;
    };
    std::vector<Waiting> waiting;
    std::uint64_t waitingFiles = 0;  // all of them
  };
  std::vector<Directory> directories;
};

// A file that was written beside the cache's own, on the file system of one of its directories.
struct FileToAdopt {
  ContentKey key;
  std::uint64_t size = 0;  // not 0
  std::string path;
  std::size_t directory = 0;  // the cache directory, by its number
  bool executable = false;
  std::vector<std::uint32_t> blockChecksums;  // CRC32C of each 64 KiB of all chunks, in order
};

// The result of evicting one key.
enum class EvictOutcome : std::uint8_t { kEvicted, kAbsent, kPinned, kInUse, kPublished };

class ContentCache {
 public:
  // Locks the directories (kInUse: another agent, with its process id where known), checks what the
  // file system can do (links, sparse files, mmap; kUnsupported with the reason), replays the logs,
  // deletes what no record claims, and compacts. A directory whose disk fails is left out, tried
  // again in the background, and shows in the statistics; an error: none can be used. Runs on the
  // reactor of shards[0]. What `shards` refer to must remain live while the result is used.
  [[nodiscard]] static Task<Result<std::unique_ptr<ContentCache>>> open(
      std::vector<CacheDirectoryOptions> directories, std::vector<ShardContext> shards);
  virtual ~ContentCache() = default;
  // Commits what is written, releases the locks. Call on shards[0] before destruction.
  [[nodiscard]] virtual Task<void> close() = 0;

  // On the key's shard. The file, which stays in use (never evicted) while anyone holds the
  // pointer. kInvalidArgument when it is known with another size. Waits for no disk: its first
  // chunk makes it there, or claimed() when it is empty. `executable`: the mode that it is made
  // with, 0555, else 0444; a view sets that of files that are there.
  [[nodiscard]] virtual Task<Result<std::shared_ptr<CachedFile>>> acquire(ContentKey key,
                                                                          std::uint64_t size,
                                                                          bool executable) = 0;
  // On the key's shard. Takes in a whole file that nobody can write to any more, as it is: a hard
  // link makes it the key's cache file, all of it is resident, and `path` keeps naming it. Its
  // bytes are on the disk already, so they count against the budget whatever is left of that:
  // others go for the next that is written. Who has acquired the key, of which nothing is here
  // yet, reads the file from now on. kInvalidArgument: its size and its checksums do not fit.
  // kAlreadyExists: bytes of the key are here or are being written, or it is acquired in another
  // directory; errors of the directory's disk.
  [[nodiscard]] virtual Task<Result<std::shared_ptr<CachedFile>>> adopt(FileToAdopt file) = 0;
  // On the key's shard. Nothing unless some of it is resident.
  [[nodiscard]] virtual std::shared_ptr<CachedFile> find(const ContentKey& key) = 0;

  // Any shard. Whole content keys only. Views that link the file and are not published are removed
  // first. An error: the file or the log could not be written, and the key is as before.
  [[nodiscard]] virtual Task<Result<EvictOutcome>> evict(ContentKey key) = 0;
  // Any thread. Pins are counted by owner; idempotent per (key, owner). Not persistent: the agent
  // sets them again.
  virtual void pin(const ContentKey& key, const std::string& owner) = 0;
  virtual void unpin(const ContentKey& key, const std::string& owner) = 0;
  // Any thread. Last use anywhere in the cluster, ms since the epoch; the eviction order takes the
  // later of this and local use.
  virtual void noteClusterUse(const ContentKey& key, std::int64_t usedAtMs) = 0;

  // Any thread. Whom eviction asks about other agents' copies; null, as at first: it asks none.
  // Must remain live until evictions have ended after it was replaced.
  virtual void setClusterCopies(ClusterCopies* copies) = 0;

  // Any thread, approximate: bytes of this key resident, without acquiring it.
  [[nodiscard]] virtual std::uint64_t residentBytes(const ContentKey& key) const = 0;

  // Any thread. The size of a file of which something is resident, else 0.
  [[nodiscard]] virtual std::uint64_t sizeOf(const ContentKey& key) const = 0;
  // Any thread; goes through all keys. At most `limit` files of a cache directory last scrubbed, or
  // made, before `before`, the longest ago first. Times are kept in memory and follow a monotonic
  // clock: after a start all files are due.
  [[nodiscard]] virtual std::vector<ContentKey> leastRecentlyScrubbed(std::size_t directory,
                                                                      Clock::time_point before,
                                                                      std::size_t limit) const = 0;
  // Any thread. All of the file was scrubbed at `at`.
  virtual void noteScrubbed(const ContentKey& key, Clock::time_point at) = 0;
  // Any thread. As CachedFile::verifiedWhole, without acquiring it.
  [[nodiscard]] virtual bool verifiedWhole(const ContentKey& key) const = 0;

  // The first directory that open() could use has the manifests; views must be on the file system
  // of the files they link.
  [[nodiscard]] virtual std::string manifestDirectory() const = 0;
  // Any shard: the files as that shard uses them, of which those in the cache directories are
  // watched: nobody waits for a disk that hangs. Live as long as this object.
  [[nodiscard]] virtual WatchedFileSystem& files() const = 0;

  // On shards[0]. Links every file of a complete manifest as a tree `views/<digest>`, built aside
  // and renamed, read-only directories; returns its path. kNotFound when a file is incomplete, or
  // has a digest with which it was not compared yet;
  // kUnsupported over several cache directories, over 100,000 files, or past the link limit, with
  // the reason. The files count as published while the view is.
  [[nodiscard]] virtual Task<Result<std::string>> buildView(
      std::shared_ptr<const Manifest> manifest) = 0;
  // kInUse while something is recorded under published/ for it.
  [[nodiscard]] virtual Task<Status> removeView(Sha256Digest digest) = 0;
  // Empty when there is none, and while a chunk of its files is bad.
  [[nodiscard]] virtual std::string viewPath(const Sha256Digest& digest) const = 0;
  // kNotFound for a view of which a chunk is bad, unless it is published under that name already.
  // A publish: a synced file `published/<name>` holding the digest; the view and its files stay
  // while it exists.
  [[nodiscard]] virtual Task<Status> publish(std::string name, Sha256Digest digest) = 0;
  [[nodiscard]] virtual Task<Status> unpublish(std::string name) = 0;
  // Any thread. Names and digests, as of the last publish or eviction.
  [[nodiscard]] virtual std::map<std::string, Sha256Digest> published() const = 0;

  [[nodiscard]] virtual CacheStatistics statistics() const = 0;
  // Any thread. What open() found damaged, as sentences for the log; empty as a rule.
  [[nodiscard]] virtual std::vector<std::string> recoveryNotes() const = 0;
};

}  // namespace hearth
