#include "engine/peer_service.h"

#include <bit>
#include <map>
#include <vector>

#include "base/crc32c.h"
#include "cache/verified_read.h"
#include "directory/copy_releases.h"
#include "directory/directory_service.h"
#include "engine/lent_chunk.h"
#include "engine/volume_calls.h"
#include "fetch/fetcher.h"
#include "fetch/memory_tier.h"

namespace hearth {
namespace {

// How often a request that waits for a limit looks whether its asker still waits.
constexpr auto kInterestTick = std::chrono::milliseconds(100);

Error notHere() { return {ErrorCode::kTryElsewhere, "this agent does not hold the chunk"}; }

Error wrongRange() {
  return {ErrorCode::kInvalidArgument, "the range asked for lies outside one chunk of the file"};
}

bool isInsideChunk(std::uint64_t size, std::uint64_t offset, std::uint32_t length) {
  return length != 0 && offset % kBlockBytes == 0 && offset + length <= size &&
         (offset + length - 1) / kChunkBytes == offset / kChunkBytes;
}

// Gives the answer, whose bytes begin at `offset`, their part of the chunk's checksums. False: the
// chunk has lost them.
bool addChecksums(BytesAnswer& answer, const std::vector<std::uint32_t>& ofChunk,
                  const CachedFile& file, std::uint64_t offset) {
  const std::size_t length = answer.bytes.size();
  const std::size_t first = (offset % kChunkBytes) / kBlockBytes;
  const std::size_t count = (length + kBlockBytes - 1) / kBlockBytes;
  if (first + count > ofChunk.size()) return false;
  answer.blockChecksums.assign(ofChunk.begin() + static_cast<std::ptrdiff_t>(first),
                               ofChunk.begin() + static_cast<std::ptrdiff_t>(first + count));
  // A range that ends inside a block has a checksum of its own.
  const bool cut = length % kBlockBytes != 0 && offset + length != file.size();
  if (cut) answer.blockChecksums.back() = crc32c(answer.bytes.subspan((count - 1) * kBlockBytes));
  return true;
}

Result<BytesAnswer> fromMemoryFile(const std::shared_ptr<CachedFile>& file, std::uint64_t offset,
                                   std::uint32_t length) {
  if (!isInsideChunk(file->size(), offset, length)) return wrongRange();
  const auto bytes = file->inPlace(offset, length);
  if (!bytes.ok()) return notHere();
  BytesAnswer answer;
  answer.bytes = *bytes;
  answer.keep = file;
  const auto chunk = static_cast<std::uint32_t>(offset / kChunkBytes);
  if (!addChecksums(answer, file->blockChecksums(chunk), *file, offset)) return notHere();
  return answer;
}

}  // namespace

struct PeerService::Reading {
  explicit Reading(Reactor& reactor) : opened(reactor) {}
  Event opened;
  std::shared_ptr<const Manifest> manifest;  // null when it cannot be opened
};

PeerService::PeerService(Shard& shard) : shard_(shard), smallReads_(*shard.reactor) {}

PeerService::~PeerService() = default;

Task<Result<BytesAnswer>> PeerService::onRead(std::string, ContentKey key, std::uint64_t offset,
                                              std::uint32_t length, Interest interest) {
  Shard& owner = shard_.commons.owner(key);
  BandwidthAllowance toPeers(shard_.commons.limits->toPeers);
  if (!toPeers.given(priorityOf(interest))) {
    Task<bool> earning = earn(*shard_.reactor, toPeers, length, interest);
    if (!co_await earning) co_return notHere();
  }
  co_await owner.reactor->enter();
  Task<Result<BytesAnswer>> reading =
      readHere(owner, *shard_.reactor, key, offset, length, interest);
  Result<BytesAnswer> answer = co_await reading;
  co_await shard_.reactor->enter();
  if (answer.ok()) {
    toPeers.use(answer->bytes.size(), priorityOf(interest));
    shard_.commons.counters.servedBytes.fetch_add(answer->bytes.size(), std::memory_order_relaxed);
  }
  co_return answer;
}

Task<bool> PeerService::earn(Reactor& reactor, BandwidthAllowance& allowance, std::uint64_t bytes,
                             const Interest& interest) {
  Urgency urgency(priorityOf(interest));
  while (interest.lives()) {
    co_await allowance.earn(reactor, bytes, urgency, Clock::now() + kInterestTick);
    if (allowance.given(urgency.priority())) co_return true;
  }
  co_return false;
}

Task<Result<BytesAnswer>> PeerService::readHere(Shard& owner, Reactor& answering, ContentKey key,
                                                std::uint64_t offset, std::uint32_t length,
                                                Interest interest) {
  if (const std::shared_ptr<CachedFile> copy = owner.commons.memoryFiles->find(key))
    co_return fromMemoryFile(copy, offset, length);
  const std::shared_ptr<KeyFetch> fetch = owner.wanted->find(key);
  const std::shared_ptr<CachedFile> file = owner.wanted->cached(key);
  if (file == nullptr) {
    auto published = owner.commons.publishedFiles.find(key);
    if (published == nullptr) co_return notHere();
    co_return co_await readUnsealed(owner, std::move(published), offset, length);
  }
  if (!isInsideChunk(file->size(), offset, length)) co_return wrongRange();
  const auto chunk = static_cast<std::uint32_t>(offset / kChunkBytes);
  std::shared_ptr<LoadedChunk> loaded = fetch != nullptr ? fetch->storing(chunk) : nullptr;
  if (loaded == nullptr && !file->resident(chunk)) {
    if (fetch == nullptr) co_return notHere();
    // The chunk may be on its way, and this part of it may come before the rest.
    Task<std::shared_ptr<LoadedChunk>> coming =
        owner.fetcher->awaitFirst(fetch, chunk, offset % kChunkBytes + length);
    loaded = co_await coming;
    if (loaded == nullptr && !file->resident(chunk)) co_return notHere();
  }
  if (loaded == nullptr) loaded = owner.memory->find(key, chunk);
  const bool large = length > SmallReads::kMaxBytes;
  if (loaded == nullptr && large && !file->inPageCache(offset, length))
    loaded = co_await loadChunk(owner, file, chunk, interest);
  BytesAnswer answer;
  if (loaded != nullptr) {
    answer.bytes = loaded->bytes.subspan(offset % kChunkBytes, length);
    // A slow reader must not hold the buffer, so the buffer is lent. Peers get only chunks that are
    // in the file, or will be before the buffer is needed, so that the bytes can come from there.
    const LentChunk::Lender lender{*owner.reactor, *owner.memory, owner.commons.limits->disk};
    answer.lent = std::make_shared<LentChunk>(LentChunk::Asker{answering, interest}, lender, loaded,
                                              file, offset, length);
    loaded->lend(answer.lent, Clock::now());
  } else if (auto copy = owner.peerService->smallReads_.read(*file, offset, length)) {
    owner.peerService->smallReads_.keepOpen(file, length);
    answer.bytes = {copy.get(), length};
    answer.keep = std::move(copy);
  } else {
    BandwidthAllowance disk(owner.commons.limits->disk);
    if (!disk.given(priorityOf(interest))) {
      Task<bool> earning = earn(*owner.reactor, disk, length, interest);
      if (!co_await earning) co_return notHere();
    }
    disk.use(length, priorityOf(interest));
    // The read's turn may come when the asker has gone: then it does not read the disk.
    auto read = [file, offset, length,
                 interest = std::move(interest)]() -> Result<std::span<const std::byte>> {
      if (!interest.lives()) return notHere();
      return file->verified(offset, length);
    };
    // Else a block was bad, and is being fetched again; or the disk hangs.
    const Result<std::span<const std::byte>> bytes = co_await callDisk(file, std::move(read));
    if (!bytes.ok()) co_return notHere();
    owner.peerService->smallReads_.keepOpen(file, length);
    answer.bytes = *bytes;
    answer.keep = file;
  }
  const std::vector<std::uint32_t> checksums =
      loaded != nullptr ? loaded->checksums : file->blockChecksums(chunk);
  if (!addChecksums(answer, checksums, *file, offset)) co_return notHere();
  co_return answer;
}

Task<Result<BytesAnswer>> PeerService::readUnsealed(Shard& owner,
                                                    std::shared_ptr<const PublishedFile> file,
                                                    std::uint64_t offset, std::uint32_t length) {
  if (!isInsideChunk(file->size, offset, length)) co_return wrongRange();
  const auto copy = std::make_shared<std::vector<std::byte>>(length);
  const Status read =
      co_await owner.reactor->offload([&] { return readPublished(*file, offset, *copy); });
  if (!read.ok()) co_return read.error();
  BytesAnswer answer;
  answer.bytes = *copy;
  answer.keep = copy;
  answer.blockChecksums = crc32cOfBlocks(*copy, kBlockBytes);
  co_return answer;
}

Task<std::shared_ptr<LoadedChunk>> PeerService::loadChunk(Shard& owner,
                                                          std::shared_ptr<CachedFile> file,
                                                          std::uint32_t chunk,
                                                          const Interest& interest) {
  auto wanted = [&interest] { return interest.lives(); };
  std::shared_ptr<LoadedChunk> loaded =
      co_await owner.fetcher->cacheLoads().load(file, chunk, CacheLoads::Turn::kNow, wanted);
  // The tier may have dropped the chunk already: notes it, so that it is taken back like a kept
  // one.
  if (loaded != nullptr && owner.memory->find(file->key(), chunk) != loaded)
    owner.memory->noteLent(loaded);
  co_return loaded;
}

Task<Result<BytesAnswer>> PeerService::onReadManifest(std::string, Sha256Digest digest,
                                                      std::uint64_t offset, std::uint32_t length) {
  Shard& owner = shard_.commons.owner(ContentKey{digest});
  co_await owner.reactor->enter();
  const std::shared_ptr<Reading> reading = co_await owner.peerService->openManifest(digest);
  co_await shard_.reactor->enter();
  if (reading->manifest == nullptr)
    co_return Error{ErrorCode::kTryElsewhere, "this agent does not have the manifest"};
  const std::span<const std::byte> all = reading->manifest->bytes();
  BytesAnswer answer;
  // Gives nothing beyond the end, by which the asker finds it.
  const auto start = static_cast<std::size_t>(std::min<std::uint64_t>(offset, all.size()));
  answer.bytes = all.subspan(start, std::min<std::size_t>(length, all.size() - start));
  answer.blockChecksums = crc32cOfBlocks(answer.bytes, kBlockBytes);
  answer.keep = reading;
  co_return answer;
}

Task<std::shared_ptr<PeerService::Reading>> PeerService::openManifest(Sha256Digest digest) {
  if (const auto found = reading_.find(digest); found != reading_.end()) {
    if (const std::shared_ptr<Reading> there = found->second.lock()) {
      co_await there->opened.wait();
      co_return there;
    }
  }
  std::erase_if(reading_, [](const auto& entry) { return entry.second.expired(); });
  const auto reading = std::make_shared<Reading>(*shard_.reactor);
  reading_[digest] = reading;
  const std::string path =
      shard_.commons.cache->manifestDirectory() + "/" + ContentKey{digest}.hex();
  // Reads the header alone. The call may go on where the disk hangs.
  const auto opened = std::make_shared<std::shared_ptr<const Manifest>>();
  std::function<void()> open = [path, opened] {
    Result<std::shared_ptr<const Manifest>> manifest = Manifest::open(path, std::nullopt);
    if (manifest.ok()) *opened = std::move(*manifest);
  };
  const Status called = co_await shard_.commons.cache->files().call(
      path, DiskOperation::kOpenToRead, std::move(open));
  if (called.ok()) reading->manifest = std::move(*opened);
  reading->opened.set();
  co_return reading;
}

Task<Result<ControlMessage>> PeerService::onUpdates(std::string fromNode, ControlMessage message) {
  const auto all = decodeDirectoryUpdates(message.body);
  if (!all)
    co_return Error{ErrorCode::kProtocolError, "updates for a directory of the wrong shape"};
  // Only updates of one key have an order. One after the other, each would take a turn of a busy
  // shard, and all together longer than the other side waits.
  std::map<Shard*, std::vector<const DirectoryUpdate*>> ofShards;
  for (const DirectoryUpdate& update : *all)
    ofShards[&shard_.commons.owner(update.request.key)].push_back(&update);
  for (const auto& [owner, ofOne] : ofShards) {
    co_await owner->reactor->enter();
    for (const DirectoryUpdate* const update : ofOne)
      owner->directoryService->apply(fromNode, *update);
  }
  co_await shard_.reactor->enter();
  co_return ControlMessage{message.type, {}};
}

Task<Result<ControlMessage>> PeerService::onControl(std::string fromNode, ControlMessage request) {
  if (request.type == static_cast<std::uint16_t>(DirectoryMessage::kUpdates)) {
    Result<ControlMessage> answer = co_await onUpdates(std::move(fromNode), std::move(request));
    co_return answer;
  }
  if (request.type >= kVolumeControlFirst && request.type <= kVolumeControlLast) {
    co_return co_await shard_.commons.volumes->onControl(*shard_.reactor, std::move(fromNode),
                                                         std::move(request));
  }
  if (request.type == static_cast<std::uint16_t>(ClientMessage::kAdvise))
    co_return adviseHere(fromNode, request);
  const auto decoded = decodeDirectoryRequest(request.body);
  if (!decoded)
    co_return Error{ErrorCode::kProtocolError, "a directory request of the wrong shape"};
  Shard& owner = shard_.commons.owner(decoded->key);
  co_await owner.reactor->enter();
  Task<Result<ControlMessage>> handling =
      controlHere(owner, std::move(fromNode), std::move(request));
  Result<ControlMessage> answer = co_await handling;
  co_await shard_.reactor->enter();
  co_return answer;
}

Task<Result<ControlMessage>> PeerService::controlHere(Shard& owner, std::string fromNode,
                                                      ControlMessage request) {
  const DirectoryRequest about = *decodeDirectoryRequest(request.body);
  ControlMessage answer{request.type, {}};
  switch (static_cast<DirectoryMessage>(request.type)) {
    case DirectoryMessage::kLocate: {
      const LocateAnswer located =
          co_await owner.directoryService->locate(std::move(fromNode), about);
      answer.body = encode(located);
      co_return answer;
    }
    case DirectoryMessage::kHave:
    case DirectoryMessage::kGiveUp:
    case DirectoryMessage::kDropped:
      owner.directoryService->apply(fromNode, {static_cast<DirectoryMessage>(request.type), about});
      co_return answer;
    case DirectoryMessage::kAwait: {
      if (std::popcount(about.chunks) != 1)
        co_return Error{ErrorCode::kProtocolError, "not one chunk is awaited"};
      const std::uint32_t chunk = about.stripe * kChunksPerStripe +
                                  static_cast<std::uint32_t>(std::countr_zero(about.chunks));
      const Status awaited = co_await owner.fetcher->awaitChunk(about.key, chunk);
      if (!awaited.ok()) co_return awaited.error();
      co_return answer;
    }
    case DirectoryMessage::kQuery:
      if (about.leave) owner.wanted->noteUse(about.key, about.leave->usedAtMs);
      answer.body = encode(owner.wanted->report(about.key));
      co_return answer;
    case DirectoryMessage::kRelease:
      answer.body = encode(co_await owner.releases->release(std::move(fromNode), about));
      co_return answer;
    case DirectoryMessage::kUpdates:
      break;  // onUpdates()
  }
  co_return Error{ErrorCode::kProtocolError,
                  "an unknown control message (" + std::to_string(request.type) + ")"};
}

}  // namespace hearth
