// A cache file in use: at most one object for each key, shared by all who use it. While it lives
// its key is not evicted, and its descriptors and mapping are kept.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/cache_core.h"
#include "cache/cache_entry.h"
#include "cache/content_cache.h"
#include "reactor/synchronization.h"

namespace hearth {

class OpenCacheFile final : public CachedFile, public std::enable_shared_from_this<OpenCacheFile> {
 public:
  // Any thread. The open file of an entry; null when the entry is being evicted or is gone.
  [[nodiscard]] static std::shared_ptr<OpenCacheFile> open(
      CacheCore& core, const std::shared_ptr<CacheEntry>& entry);
  // Any thread. Null unless there is a cache file of the key.
  [[nodiscard]] static std::shared_ptr<OpenCacheFile> openKnown(CacheCore& core,
                                                                const ContentKey& key);

  OpenCacheFile(std::shared_ptr<CacheCore> core, std::shared_ptr<CacheEntry> entry);
  ~OpenCacheFile() override;

  const ContentKey& key() const override { return entry_->key; }
  std::uint64_t size() const override { return entry_->size; }
  bool resident(std::uint32_t chunk) const override;
  bool residentRange(std::uint64_t offset, std::uint64_t length) const override;
  std::uint64_t residentBytes() const override {
    return entry_->directory.readsHang() ? 0 : entry_->residentBytes();
  }
  bool complete() const override { return entry_->complete() && !entry_->directory.readsHang(); }
  Task<Status> onDisk(std::function<void()> work) override;
  bool hangs() const override { return entry_->directory.changesHang(); }
  Result<int> descriptor() override;
  std::size_t disk() const override;
  std::string path() const override { return entry_->directory.objectPath(entry_->key); }
  Result<std::span<const std::byte>> verified(std::uint64_t offset, std::uint64_t length) override;
  Result<std::span<const std::byte>> inPlace(std::uint64_t offset, std::uint64_t length) override;
  bool verifiedInMemory(std::uint64_t offset, std::span<std::byte> into) override;
  Status readWhole(std::span<std::byte> into) override;
  bool inPageCache(std::uint64_t offset, std::uint64_t length) override;
  Task<Status> readChunk(std::uint32_t chunk, std::span<std::byte> into,
                         std::shared_ptr<const void> keep) override;
  std::vector<std::uint32_t> blockChecksums(std::uint32_t chunk) const override;
  void touch() override { entry_->touch(wallClockMs()); }
  bool refuses(std::uint32_t chunk) const override;
  bool worthStoring(std::uint32_t chunk) override;
  bool misplaced() const override;
  Task<Status> writeChunk(std::uint32_t chunk, std::span<const std::byte> data,
                          std::span<const std::uint32_t> blockChecksums,
                          std::shared_ptr<const void> keep) override;
  Task<Status> claimed() override;
  void discard() override;
  bool durable() const override { return entry_->allClaimed(); }
  bool verifiedWhole() const override { return entry_->verified(); }
  std::uint64_t generation() const override { return entry_->generation(); }
  Task<Status> recordVerified(Sha256Digest digest, std::uint64_t generation) override;
  Task<Result<std::uint64_t>> scrub(ScrubWatch watch) override;
  Task<Result<std::uint32_t>> scrubChunk(std::uint32_t chunk) override;

  [[nodiscard]] CacheEntry& entry() { return *entry_; }
  // Own shard. Looks at the bytes of chunks that are in doubt, until `stop`: good ones are resident
  // and claimed again, the others absent.
  [[nodiscard]] Task<Status> examine(const std::atomic<bool>& stop);
  // Own shard. As ContentCache::adopt.
  [[nodiscard]] Task<Status> adopt(std::string from, std::vector<std::uint32_t> blockChecksums);
  // Mode 0555 from now on. `files` is the calling shard's.
  [[nodiscard]] Task<Status> makeExecutable(FileSystem& files);

 private:
  // Own shard.
  struct Scrub {
    std::uint32_t next = 0;
    std::uint64_t good = 0;
    Status status;  // why it ended early
    ScrubWatch watch;
  };
  struct Data {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> keep;
  };
  // Takes chunk after chunk until none is left; several of these share the scrub.
  static Task<void> scrubChunks(OpenCacheFile& self, File& file, Scrub& scrub);
  // Of a resident chunk, by a buffer for it, which `keep` owns: how many blocks are bad.
  Task<std::uint32_t> checkChunk(File& file, std::uint32_t chunk, std::span<std::byte> buffer,
                                 std::shared_ptr<const void> keep, Scrub& scrub);
  [[nodiscard]] Task<bool> waitForWriter(std::uint32_t chunk);
  [[nodiscard]] Task<Status> writeAbsent(std::uint32_t chunk, ChunkState before, Data data);
  [[nodiscard]] Task<Status> writeAt(Data data, std::uint64_t offset);
  // The file of no bytes, which no chunk makes. kOutOfSpace.
  [[nodiscard]] Task<Status> makeEmpty();
  [[nodiscard]] Task<Status> openWriter();
  // A file cannot be executed while it is open for writing.
  void closeWriterWhenComplete();
  [[nodiscard]] Task<Result<std::unique_ptr<File>>> createFile();
  [[nodiscard]] Task<Result<std::unique_ptr<File>>> openForWriting();
  void charge(std::uint64_t bytes);
  void noteStored(std::uint64_t bytes, const Status& done);
  // Any thread.
  [[nodiscard]] Result<File*> reader();
  [[nodiscard]] Result<const std::byte*> mapped();
  // Of all bytes of a chunk that were read from the disk.
  [[nodiscard]] Status judge(std::uint32_t chunk, const Result<std::size_t>& got,
                             std::span<const std::byte> bytes);
  // Whole blocks from `offset` on, or the end of the file; resident.
  [[nodiscard]] bool matches(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void spoil(std::uint32_t chunk);
  // As spoil, of a chunk whose blocks are good.
  void drop(std::uint32_t chunk);

  const std::shared_ptr<CacheCore> core_;
  const std::shared_ptr<CacheEntry> entry_;
  const std::size_t shardIndex_;
  const ShardContext& shard_;

  // Own shard.
  Semaphore writerTurn_;  // guards writer_
  std::shared_ptr<File> writer_;
  // Takes all chunks for the adoption. False: some of the file is here, or being written.
  [[nodiscard]] bool beginAdoption();
  [[nodiscard]] Task<Status> linkWhole(std::string from,
                                       std::span<const std::uint32_t> blockChecksums);

  std::map<std::uint32_t, std::shared_ptr<Event>> writing_;
  std::shared_ptr<File> chunkReader_;  // readChunk()'s, opened by its first

  // Any thread.
  std::atomic<std::uint64_t> promised_;
  std::mutex opening_;  // guards reader_; no call of the disk is made with it
  std::unique_ptr<File> reader_;
  std::atomic<const std::byte*> mapped_{nullptr};
};

}  // namespace hearth
