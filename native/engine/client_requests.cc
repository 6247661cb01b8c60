// What an agent does for clients, which know paths and not agents: it answers for the cluster.
#include "base/crc32c.h"
#include "engine/client_answers.h"
#include "engine/peer_service.h"
#include "fetch/fetcher.h"
#include "wire/client_message.h"

namespace hearth {
namespace {

// A page of a folder stays below kMaxControlBytes with names of any length.
constexpr std::size_t kPageEntries = 2048;

}  // namespace

Task<Result<BytesAnswer>> PeerService::onClientRead(std::shared_ptr<const Capability> client,
                                                    ContentKey key, std::uint64_t offset,
                                                    std::uint32_t length, Interest interest) {
  std::optional<FileReference> file = shard_.commons.clientDatasets.opened(*client, key);
  if (!file) co_return Error{ErrorCode::kTryElsewhere, "the client has not resolved the file here"};
  Task<Result<BytesAnswer>> reading = onRead({}, key, offset, length, interest);
  Result<BytesAnswer> held = co_await reading;
  if (held.ok() || held.code() != ErrorCode::kTryElsewhere || !interest.lives()) co_return held;
  Shard& owner = shard_.commons.owner(key);
  co_await owner.reactor->enter();
  Task<Result<BytesAnswer>> fetching = readOfCluster(owner, std::move(*file), offset, length);
  Result<BytesAnswer> answer = co_await fetching;
  co_await shard_.reactor->enter();
  // The client would take kTryElsewhere for a file that it has to resolve again.
  if (answer.code() == ErrorCode::kTryElsewhere)
    co_return Error{ErrorCode::kUnavailable, answer.error().message};
  if (answer.ok()) shard_.commons.counters.servedBytes.fetch_add(length, std::memory_order_relaxed);
  co_return answer;
}

Task<Result<BytesAnswer>> PeerService::readOfCluster(Shard& owner, FileReference file,
                                                     std::uint64_t offset, std::uint32_t length) {
  const std::uint64_t size = file.about.size;
  const bool inside = length != 0 && offset % kBlockBytes == 0 && offset <= size &&
                      length <= size - offset && length <= kChunkBytes - offset % kChunkBytes;
  if (!inside)
    co_return Error{ErrorCode::kInvalidArgument,
                    "the range asked for lies outside one chunk of the file"};
  const Result<std::shared_ptr<FileFetch>> opened = co_await owner.fetcher->open(std::move(file));
  if (!opened.ok()) co_return opened.error();
  const std::shared_ptr<std::byte[]> memory = std::make_shared_for_overwrite<std::byte[]>(length);
  const std::span<std::byte> bytes(memory.get(), length);
  const Status read = co_await owner.fetcher->readInto(
      *opened, offset, MemoryVector(MemorySlice::of(bytes, memory)));
  if (!read.ok()) co_return read.error();
  BytesAnswer answer;
  answer.bytes = bytes;
  answer.blockChecksums = crc32cOfBlocks(bytes, kBlockBytes);
  answer.keep = memory;
  co_return answer;
}

Task<Result<ControlMessage>> PeerService::onClientControl(std::shared_ptr<const Capability> client,
                                                          ControlMessage request) {
  switch (static_cast<ClientMessage>(request.type)) {
    case ClientMessage::kAttach:
      co_return ControlMessage{request.type, {}};
    case ClientMessage::kResolve:
      co_return resolve(*client, request);
    case ClientMessage::kList:
      co_return list(*client, request);
    case ClientMessage::kAdvise:
    case ClientMessage::kOpen:  // local_files.h
      break;
  }
  co_return Error{ErrorCode::kUnsupported,
                  "an unknown message of a client (" + std::to_string(request.type) + ")"};
}

Result<ControlMessage> PeerService::resolve(const Capability& client,
                                            const ControlMessage& request) {
  const Result<std::string> path = decodePath(request.body);
  if (!path.ok()) return path.error();
  ClientDatasets& datasets = shard_.commons.clientDatasets;
  const Result<NamedEntry> found = datasets.resolve(client, CapabilityRight::kRead, *path);
  if (!found.ok()) return found.error();
  const ManifestEntry about = found->revision->manifest->entry(found->entry);
  if (about.kind == EntryKind::kFile) datasets.open(*found);
  return ControlMessage{request.type, encode(resolvedPath(about))};
}

Result<ControlMessage> PeerService::list(const Capability& client, const ControlMessage& request) {
  const Result<ListRequest> asked = decodeListRequest(request.body);
  if (!asked.ok()) return asked.error();
  const Result<NamedEntry> found =
      shard_.commons.clientDatasets.resolve(client, CapabilityRight::kRead, asked->path);
  if (!found.ok()) return found.error();
  const Manifest& manifest = *found->revision->manifest;
  const ManifestEntry folder = manifest.entry(found->entry);
  if (folder.kind != EntryKind::kDirectory)
    return Error{ErrorCode::kInvalidArgument, "the path is no folder"};
  // Children are sorted: the first behind `after` by halving.
  std::uint32_t first = folder.firstChild;
  const std::uint32_t end = folder.firstChild + folder.childCount;
  for (std::uint32_t beyond = end; first < beyond && !asked->after.empty();) {
    const std::uint32_t middle = first + (beyond - first) / 2;
    if (manifest.entry(middle).name <= asked->after) {
      first = middle + 1;
    } else {
      beyond = middle;
    }
  }
  FolderPage page;
  for (; first != end && page.entries.size() < kPageEntries; ++first) {
    const ManifestEntry about = manifest.entry(first);
    page.entries.push_back(
        {std::string(about.name), resolvedKind(about.kind), resolvedSize(about)});
  }
  page.last = first == end;
  return ControlMessage{request.type, encode(page)};
}

}  // namespace hearth
