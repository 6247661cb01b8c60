// CacheDirectory: what the log says when it is opened, and its compaction.
#include <algorithm>

#include "cache/cache_directory.h"
#include "cache/directory_layout.h"
#include "cache/entry_records.h"

namespace hearth {
namespace {

// A compaction gives the reactor a turn after encoding this much.
constexpr std::size_t kEncodeBytes = std::size_t{1} << 20;

}  // namespace

Task<Status> CacheDirectory::open(std::function<bool(const ContentKey&)> keep) {
  const Status opened = co_await replay(std::move(keep));
  if (opened.ok()) {
    health_.works();
    open_.store(true, std::memory_order_release);
    if (disk_.watch != nullptr) {
      disk_.watch->setStall(options_.stall);
      disk_.watch->setObserver([weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->tryInBackground();
      });
    }
  } else {
    forgetEntries();
    log_.reset();
  }
  co_return opened;
}

void CacheDirectory::forgetEntries() {
  for (const std::shared_ptr<CacheEntry>& entry : index_.entries()) {
    if (&entry->directory != this) continue;
    budget_.release(entry->charged);
    index_.erase(entry);
  }
  recovery_ = {};
  liveLogBytes_ = 0;
}

Task<Status> CacheDirectory::replay(std::function<bool(const ContentKey&)> keep) {
  FileSystem& files = home().files;
  const Status supported = co_await checkFeatures(files, path());
  if (!supported.ok()) co_return supported;

  ResidencyImage image;
  std::function<void(const ResidencyRecord&)> replayed = [&image](const ResidencyRecord& record) {
    image.apply(record);
  };
  auto log = co_await ResidencyLog::open(files, path(), std::move(replayed));
  if (!log.ok()) co_return log.error();
  log_ = std::move(*log);
  recovery_.replay = log_->report();

  const auto objects = co_await listObjects(files, path());
  if (!objects.ok()) co_return objects.error();
  std::function<bool(const ContentKey&)> known = [this](const ContentKey& key) {
    return index_.find(key) != nullptr;
  };
  const RecoveryPlan plan = planRecovery(image, *objects, keep, known);
  for (const ObjectFile& object : plan.restore) restore(object, image);
  const Status settled = co_await settleLog(plan.drop);
  if (!settled.ok()) co_return settled;
  for (const ContentKey& key : plan.remove) {
    const Status removed = co_await files.unlink(objectPath(key));
    if (!removed.ok() && removed.code() != ErrorCode::kNotFound) co_return removed;
  }
  co_return Status();
}

void CacheDirectory::restore(const ObjectFile& object, const ResidencyImage& image) {
  auto entry = std::make_shared<CacheEntry>(object.key, object.info.size, *this,
                                            (object.info.mode & 0111) != 0);
  std::uint64_t charged = 0;
  const auto claims = image.keys().find(object.key);
  if (claims != image.keys().end() && claims->second.size == object.info.size) {
    const bool holes = hasHoles(claims->second, object.info);
    bool doubtful = false;
    for (const auto& [chunk, claim] : claims->second.chunks) {
      entry->restore(chunk, claim.blockChecksums, claim.doubtful || holes);
      doubtful = doubtful || claim.doubtful || holes;
      charged += allocatedBytes(entry->chunkBytes(chunk));
      liveLogBytes_ += claimBytes(*entry, chunk);
    }
    if (doubtful) recovery_.doubtful.push_back(entry->key);
    if (claims->second.verified && !doubtful) {
      entry->markVerified(*claims->second.verified, entry->generation());
      liveLogBytes_ += kVerificationBytes;
    }
  }
  if (entry->size == 0) entry->markVerified({}, entry->generation());
  // Chunks that were written but not claimed still take up space.
  if (!entry->complete() || entry->size == 0) {
    charged = std::max({charged, allocatedBytes(object.info.allocated), kAllocationBytes});
  }
  entry->charged = charged;
  entry->touch(object.info.modifiedNs / 1'000'000);
  budget_.adopt(charged);
  index_.insert(std::move(entry));
}

// Before any file goes: a log that must be rewritten then holds what was restored and nothing else;
// another one gets what was not.
Task<Status> CacheDirectory::settleLog(const std::vector<ContentKey>& dropped) {
  if (log_->mustBeRewritten()) co_return co_await compact();
  if (!dropped.empty()) {
    std::vector<std::byte> drops;
    for (const ContentKey& key : dropped)
      appendRecord(drops, {.type = RecordType::kDrop, .key = key});
    const Status appended = co_await log_->append(drops);
    if (!appended.ok()) co_return appended;
  }
  co_await compactIfWorthwhile();
  co_return Status();
}

Task<void> CacheDirectory::compactIfWorthwhile() {
  if (log_->bytes() <= tuning_.compactFromBytes || liveLogBytes_ * 2 > log_->bytes()) co_return;
  // When it fails the old log stays, longer than it need be; the next commit tries again.
  (void)co_await compact();
}

// Optional records of later versions are lost: they may be, by the meaning of that flag.
Task<Status> CacheDirectory::compact() {
  std::vector<std::byte> records;
  std::size_t encoded = 0;
  auto entries = index_.entries();
  std::erase_if(entries, [this](const auto& entry) { return &entry->directory != this; });
  // Doubtful keys stay doubtful after a restart.
  for (const ContentKey& key : recovery_.doubtful) {
    const auto entry = index_.find(key);
    if (!entry || &entry->directory != this) continue;
    for (std::uint32_t chunk = 0; chunk < entry->chunkCount(); ++chunk) {
      if (entry->state(chunk) == ChunkState::kDoubtful)
        appendRecord(records, claimOf(*entry, chunk));
    }
  }
  if (!records.empty()) appendRecord(records, {.type = RecordType::kDoubt});
  for (const auto& entry : entries) {
    for (std::uint32_t chunk = 0; chunk < entry->chunkCount(); ++chunk) {
      if (entry->state(chunk) == ChunkState::kClaimed)
        appendRecord(records, claimOf(*entry, chunk));
    }
    if (entry->verified()) appendRecord(records, verificationOf(*entry, entry->verifiedDigest()));
    if (records.size() - encoded >= kEncodeBytes) {
      encoded = records.size();
      co_await home().reactor.sleep(Clock::duration::zero());
    }
  }
  const Status rewritten = co_await log_->rewrite(records);
  if (rewritten.ok()) liveLogBytes_ = records.size();
  co_return rewritten;
}

}  // namespace hearth
