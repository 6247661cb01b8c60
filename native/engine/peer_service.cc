#include "engine/peer_service.h"

#include <bit>

#include "base/crc32c.h"
#include "directory/directory_service.h"
#include "engine/fetcher.h"
#include "engine/lent_chunk.h"
#include "engine/verified_read.h"

namespace hearth {
namespace {

Error notHere() { return {ErrorCode::kTryElsewhere, "this agent does not hold the chunk"}; }

}  // namespace

Task<Result<BytesAnswer>> PeerService::onRead(std::string, ContentKey key, std::uint64_t offset,
                                              std::uint32_t length, Clock::time_point) {
  Shard& owner = shard_.commons.owner(key);
  co_await owner.reactor->enter();
  Task<Result<BytesAnswer>> reading = readHere(owner, *shard_.reactor, key, offset, length);
  Result<BytesAnswer> answer = co_await reading;
  co_await shard_.reactor->enter();
  if (answer.ok()) {
    shard_.commons.counters.servedBytes.fetch_add(answer->bytes.size(), std::memory_order_relaxed);
  }
  co_return answer;
}

Task<Result<BytesAnswer>> PeerService::readHere(Shard& owner, Reactor& answering, ContentKey key,
                                                std::uint64_t offset, std::uint32_t length) {
  const std::shared_ptr<KeyFetch> fetch = owner.fetcher->find(key);
  const std::shared_ptr<CachedFile> file =
      fetch != nullptr ? fetch->cache : owner.commons.cache->find(key);
  if (file == nullptr) co_return notHere();
  const auto chunk = static_cast<std::uint32_t>(offset / kChunkBytes);
  const bool inside = length != 0 && offset % kBlockBytes == 0 && offset + length <= file->size() &&
                      (offset + length - 1) / kChunkBytes == chunk;
  if (!inside)
    co_return Error{ErrorCode::kInvalidArgument,
                    "the range asked for lies outside one chunk of the file"};
  if (!file->resident(chunk)) co_return notHere();
  BytesAnswer answer;
  const std::shared_ptr<LoadedChunk> loaded =
      fetch != nullptr ? fetch->loaded.find(chunk) : nullptr;
  if (loaded != nullptr) {
    answer.bytes = loaded->bytes.subspan(offset % kChunkBytes, length);
    // Whoever reads it slowly must not hold the buffer: it is lent. Only what is also in the file
    // is given to peers, so that it can come from there.
    answer.lent = std::make_shared<LentChunk>(answering, loaded, file, offset, length);
    loaded->lend(answer.lent, Clock::now());
  } else {
    Task<Result<std::span<const std::byte>>> reading =
        readVerified(*owner.reactor, file, offset, length);
    const Result<std::span<const std::byte>> bytes = co_await reading;
    if (!bytes.ok()) co_return notHere();  // a block was bad: it is being fetched again
    answer.bytes = *bytes;
    answer.keep = file;
  }
  const std::vector<std::uint32_t> checksums = file->blockChecksums(chunk);
  const std::size_t first = (offset % kChunkBytes) / kBlockBytes;
  const std::size_t count = (length + kBlockBytes - 1) / kBlockBytes;
  if (first + count > checksums.size()) co_return notHere();
  answer.blockChecksums.assign(checksums.begin() + static_cast<std::ptrdiff_t>(first),
                               checksums.begin() + static_cast<std::ptrdiff_t>(first + count));
  // A range that ends inside a block has a checksum of its own.
  const bool cut = length % kBlockBytes != 0 && offset + length != file->size();
  if (cut) answer.blockChecksums.back() = crc32c(answer.bytes.subspan((count - 1) * kBlockBytes));
  co_return answer;
}

Task<Result<BytesAnswer>> PeerService::onReadManifest(std::string, Sha256Digest digest,
                                                      std::uint64_t offset, std::uint32_t length) {
  const ContentKey name{digest};
  const std::string path = shard_.commons.cache->manifestDirectory() + "/" + name.hex();
  auto open = [path] { return Manifest::open(path, std::nullopt); };
  auto opening = shard_.reactor->offload(open);
  const Result<std::shared_ptr<const Manifest>> manifest = co_await opening;
  if (!manifest.ok())
    co_return Error{ErrorCode::kTryElsewhere, "this agent does not have the manifest"};
  const std::span<const std::byte> all = (*manifest)->bytes();
  BytesAnswer answer;
  // Nothing beyond the end: that is how the asker finds it.
  const auto start = static_cast<std::size_t>(std::min<std::uint64_t>(offset, all.size()));
  answer.bytes = all.subspan(start, std::min<std::size_t>(length, all.size() - start));
  answer.blockChecksums = crc32cOfBlocks(answer.bytes, kBlockBytes);
  answer.keep = *manifest;
  co_return answer;
}

Task<Result<ControlMessage>> PeerService::onControl(std::string fromNode, ControlMessage request) {
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
      Task<LocateAnswer> locating = owner.directoryService->locate(std::move(fromNode), about);
      const LocateAnswer located = co_await locating;
      answer.body = encode(located);
      co_return answer;
    }
    case DirectoryMessage::kHave:
      owner.directoryService->have(fromNode, about);
      co_return answer;
    case DirectoryMessage::kGiveUp:
      owner.directoryService->giveUp(fromNode, about);
      co_return answer;
    case DirectoryMessage::kDropped:
      owner.directoryService->dropped(fromNode, about);
      co_return answer;
    case DirectoryMessage::kAwait: {
      if (std::popcount(about.chunks) != 1)
        co_return Error{ErrorCode::kProtocolError, "not one chunk is awaited"};
      const std::uint32_t chunk = about.stripe * kChunksPerStripe +
                                  static_cast<std::uint32_t>(std::countr_zero(about.chunks));
      Task<Status> awaiting = owner.fetcher->awaitChunk(about.key, chunk);
      const Status awaited = co_await awaiting;
      if (!awaited.ok()) co_return awaited.error();
      co_return answer;
    }
    case DirectoryMessage::kQuery:
      answer.body = encode(owner.fetcher->report(about.key));
      co_return answer;
  }
  co_return Error{ErrorCode::kProtocolError,
                  "an unknown control message (" + std::to_string(request.type) + ")"};
}

}  // namespace hearth
