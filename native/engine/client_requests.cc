// An agent's answers to clients, which know paths and not agents: it answers for the cluster.
#include <functional>

#include "base/crc32c.h"
#include "engine/client_advice.h"
#include "engine/client_answers.h"
#include "engine/client_volumes.h"
#include "engine/peer_service.h"
#include "fetch/fetcher.h"
#include "wire/client_message.h"

namespace hearth {
namespace {

// A page of a folder stays below kMaxControlBytes with names of any length.
constexpr std::size_t kPageEntries = 2048;
// Time for other agents to take advice.
constexpr Clock::duration kPassOnTime = std::chrono::seconds(5);

// The answer counts as on its way until it is sent.
BytesAnswer withPass(BytesAnswer answer, ClientTransit::Pass pass) {
  using Both = std::pair<std::shared_ptr<const void>, ClientTransit::Pass>;
  answer.keep = std::make_shared<const Both>(std::move(answer.keep), std::move(pass));
  return answer;
}

}  // namespace

Task<Result<BytesAnswer>> PeerService::onClientRead(std::shared_ptr<const Capability> client,
                                                    ContentKey key, std::uint64_t offset,
                                                    std::uint32_t length, Interest interest) {
  std::optional<FileReference> file = shard_.commons.clientDatasets.opened(*client, key);
  if (!file) file = shard_.commons.clientVolumes->opened(*client, key);
  if (!file) co_return Error{ErrorCode::kTryElsewhere, "the client has not resolved the file here"};
  Task<ClientTransit::Pass> entering = shard_.clientTransit->enter(client->client, length);
  ClientTransit::Pass pass = co_await entering;
  if (!interest.lives()) co_return Error{ErrorCode::kCancelled, "the client has not waited"};
  shard_.commons.advices->pace().noteRead(client->client, length, Clock::now());
  Task<Result<BytesAnswer>> reading = onRead({}, key, offset, length, interest);
  Result<BytesAnswer> held = co_await reading;
  if (held.ok()) co_return withPass(std::move(*held), std::move(pass));
  if (held.code() != ErrorCode::kTryElsewhere || !interest.lives()) co_return held;
  // No other agent has what a file of this node was before its last publish.
  if (file->dataset->holder == shard_.commons.self) co_return held;
  Shard& owner = shard_.commons.owner(key);
  co_await owner.reactor->enter();
  Task<Result<BytesAnswer>> fetching = readOfCluster(owner, std::move(*file), offset, length);
  Result<BytesAnswer> answer = co_await fetching;
  co_await shard_.reactor->enter();
  // The client would take kTryElsewhere for a file that it has to resolve again.
  if (answer.code() == ErrorCode::kTryElsewhere)
    co_return Error{ErrorCode::kUnavailable, answer.error().message};
  if (!answer.ok()) co_return answer.error();
  shard_.commons.counters.servedBytes.fetch_add(length, std::memory_order_relaxed);
  co_return withPass(std::move(*answer), std::move(pass));
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
  std::vector<ChunkBuffer> buffers = co_await owner.clientBuffers->acquire(Priority::kDemand, 1);
  const std::shared_ptr<LoadedChunk> memory =
      loadInto(*owner.reactor, std::move(buffers.front()), length);
  const Status read = co_await owner.fetcher->readInto(
      *opened, offset, MemoryVector(memory->buffer.slice(length, memory)));
  if (!read.ok()) co_return read.error();
  BytesAnswer answer;
  answer.bytes = memory->bytes;
  answer.blockChecksums = crc32cOfBlocks(answer.bytes, kBlockBytes);
  answer.keep = memory;
  co_return answer;
}

Task<Result<ControlMessage>> PeerService::onClientControl(std::shared_ptr<const Capability> client,
                                                          ControlMessage request,
                                                          Interest interest) {
  switch (static_cast<ClientMessage>(request.type)) {
    case ClientMessage::kAttach:
      co_return ControlMessage{request.type, {}};
    case ClientMessage::kResolve: {
      Task<Result<ControlMessage>> resolving = resolve(std::move(client), std::move(request));
      Result<ControlMessage> resolved = co_await resolving;
      co_return resolved;
    }
    case ClientMessage::kList:
      co_return list(*client, request);
    case ClientMessage::kAdvise: {
      Task<Result<ControlMessage>> advising = advise(*client, std::move(request));
      Result<ControlMessage> advised = co_await advising;
      co_return advised;
    }
    case ClientMessage::kCreate:
    case ClientMessage::kWrite:
    case ClientMessage::kCommit:
    case ClientMessage::kAbandon:
    case ClientMessage::kRemove: {
      Task<Result<ControlMessage>> doing =
          onVolumeControl(std::move(client), std::move(request), std::move(interest));
      Result<ControlMessage> done = co_await doing;
      co_return done;
    }
    case ClientMessage::kPut:
    case ClientMessage::kGet:
    case ClientMessage::kExist:
    case ClientMessage::kDelete: {
      Task<Result<ControlMessage>> doing =
          onObjectControl(std::move(client), std::move(request), std::move(interest));
      Result<ControlMessage> done = co_await doing;
      co_return done;
    }
    case ClientMessage::kOpen:  // local_files.h
      break;
  }
  co_return Error{ErrorCode::kUnsupported,
                  "an unknown message of a client (" + std::to_string(request.type) + ")"};
}

Task<Result<ControlMessage>> PeerService::resolve(std::shared_ptr<const Capability> client,
                                                  ControlMessage request) {
  const Result<std::string> path = decodePath(request.body);
  if (!path.ok()) co_return path.error();
  if (liesIn(kVolumeRoot, *path)) {
    Task<Result<ResolvedPath>> resolving =
        shard_.commons.clientVolumes->resolve(shard_, *client, *path);
    const Result<ResolvedPath> resolved = co_await resolving;
    if (!resolved.ok()) co_return resolved.error();
    co_return ControlMessage{request.type, encode(*resolved)};
  }
  ClientDatasets& datasets = shard_.commons.clientDatasets;
  const Result<NamedEntry> found = datasets.resolve(*client, CapabilityRight::kRead, *path);
  if (!found.ok()) co_return found.error();
  const ManifestEntry about = found->revision->manifest->entry(found->entry);
  ResolvedPath answer = resolvedPath(about);
  if (about.kind == EntryKind::kFile) {
    datasets.open(*found);
    answer.shard = static_cast<std::uint32_t>(shard_.commons.owner(about.key).index);
  }
  co_return ControlMessage{request.type, encode(answer)};
}

Task<Result<ControlMessage>> PeerService::advise(const Capability& client, ControlMessage request) {
  const Result<AdviseRequest> asked = decodeAdviseRequest(request.body);
  if (!asked.ok()) co_return asked.error();
  const bool forAll = asked->scope == AdviceScope::kCluster;
  const CapabilityRight right = forAll ? CapabilityRight::kAdviseCluster : CapabilityRight::kAdvise;
  const Result<NamedEntry> found =
      shard_.commons.clientDatasets.resolve(client, right, asked->path);
  if (!found.ok()) co_return found.error();
  // The client asks its own agent again when that is back.
  if (!forAll && !client.isOf(shard_.commons.self))
    co_return Error{ErrorCode::kUnavailable, "the token grants advice to its own node alone"};
  const Status begun = shard_.commons.advices->advise(*found, *asked, client);
  if (!begun.ok()) co_return begun.error();
  // One agent can bring bytes that no agent has, but each agent lets go of its own.
  if (forAll && asked->advice == ClientAdvice::kDontNeed) {
    const Status passedOn = co_await passOn(*asked);
    if (!passedOn.ok()) co_return passedOn.error();
  }
  co_return ControlMessage{request.type, {}};
}

Task<Status> PeerService::passOn(AdviseRequest advice) {
  advice.scope = AdviceScope::kNode;
  const ControlMessage message{static_cast<std::uint16_t>(ClientMessage::kAdvise), encode(advice)};
  const Clock::time_point deadline = Clock::now() + kPassOnTime;
  Gate calls(*shard_.reactor);
  Status outcome;
  for (const std::string& node : shard_.view->readyOthers())
    calls.spawn(passOnTo(shard_, node, message, deadline, outcome));
  co_await calls.close();
  co_return outcome;
}

Task<void> PeerService::passOnTo(Shard& shard, std::string node, ControlMessage message,
                                 Clock::time_point deadline, Status& outcome) {
  const Result<ControlMessage> answer =
      co_await shard.transport->call(std::move(node), std::move(message), deadline);
  // An agent that has no such dataset has nothing of it.
  if (!answer.ok() && answer.code() != ErrorCode::kNotFound) outcome = answer.error();
}

Result<ControlMessage> PeerService::adviseHere(const std::string& fromNode,
                                               const ControlMessage& request) {
  const Result<AdviseRequest> asked = decodeAdviseRequest(request.body);
  if (!asked.ok()) return asked.error();
  const Result<NamedEntry> found = shard_.commons.clientDatasets.find(asked->path);
  if (!found.ok()) return found.error();
  const Status begun = shard_.commons.advices->advisePassedOn(
      fromNode, *found, {asked->path, asked->advice, AdviceScope::kNode});
  if (!begun.ok()) return begun.error();
  return ControlMessage{request.type, {}};
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
