#include "engine/directory_client.h"

#include "engine/directory_service.h"

namespace hearth {
namespace {

constexpr auto kPatience = std::chrono::seconds(4);
// A directory that has been stopped keeps its askers no longer than this from its stand-in.
constexpr auto kSilence = std::chrono::milliseconds(500);

Patience directoryPatience() { return {Clock::now() + kPatience, kSilence}; }

}  // namespace

Task<LocateAnswer> DirectoryClient::locate(ContentKey key, std::uint64_t size, std::uint32_t stripe,
                                           ChunkMask chunks, Intent intent, Complaint complaint) {
  const DirectoryRequest request{.key = key,
                                 .size = size,
                                 .stripe = stripe,
                                 .chunks = chunks,
                                 .intent = intent,
                                 .complaint = std::move(complaint)};
  const std::vector<std::string> candidates = shard_.view->directoriesOf(key);
  for (const std::string& node : candidates) {
    if (node == shard_.commons.self) {
      Task<LocateAnswer> here = shard_.directoryService->locate(node, request);
      co_return co_await here;
    }
    ControlMessage message{static_cast<std::uint16_t>(DirectoryMessage::kLocate), encode(request)};
    Task<Result<ControlMessage>> call =
        shard_.transport->call(node, std::move(message), directoryPatience());
    const Result<ControlMessage> answer = co_await call;
    if (!answer.ok()) continue;
    auto decoded = decodeLocateAnswer(answer->body);
    if (decoded) co_return std::move(*decoded);
  }
  LocateAnswer alone;
  if (intent == Intent::kFetch) {
    shard_.commons.counters.directoryBypassed.fetch_add(1, std::memory_order_relaxed);
    alone.granted = chunks;
  }
  co_return alone;
}

Task<Status> DirectoryClient::awaitChunk(std::string node, ContentKey key, std::uint64_t size,
                                         std::uint32_t chunk, Patience patience) {
  const DirectoryRequest request{
      .key = key, .size = size, .stripe = chunk / kChunksPerStripe, .chunks = bitOf(chunk)};
  ControlMessage message{static_cast<std::uint16_t>(DirectoryMessage::kAwait), encode(request)};
  Task<Result<ControlMessage>> call =
      shard_.transport->call(std::move(node), std::move(message), patience);
  const Result<ControlMessage> answer = co_await call;
  if (!answer.ok()) co_return answer.error();
  co_return Status();
}

void DirectoryClient::have(const ContentKey& key, std::uint64_t size, std::uint32_t stripe,
                           ChunkMask chunks) {
  tell(DirectoryMessage::kHave, {.key = key, .size = size, .stripe = stripe, .chunks = chunks});
}

void DirectoryClient::giveUp(const ContentKey& key, std::uint64_t size, std::uint32_t stripe,
                             ChunkMask chunks) {
  tell(DirectoryMessage::kGiveUp, {.key = key, .size = size, .stripe = stripe, .chunks = chunks});
}

void DirectoryClient::dropped(const ContentKey& key, std::uint64_t size) {
  tell(DirectoryMessage::kDropped, {.key = key, .size = size});
}

void DirectoryClient::tell(DirectoryMessage type, DirectoryRequest request) {
  const std::string node = shard_.view->directoriesOf(request.key).front();
  if (node != shard_.commons.self) {
    ControlMessage message{static_cast<std::uint16_t>(type), encode(request)};
    shard_.gate->spawn(tellPeer(shard_, node, std::move(message)));
    return;
  }
  switch (type) {
    case DirectoryMessage::kHave:
      return shard_.directoryService->have(node, request);
    case DirectoryMessage::kGiveUp:
      return shard_.directoryService->giveUp(node, request);
    case DirectoryMessage::kDropped:
      return shard_.directoryService->dropped(node, request);
    case DirectoryMessage::kLocate:
    case DirectoryMessage::kQuery:
    case DirectoryMessage::kAwait:
      return;
  }
}

Task<void> DirectoryClient::tellPeer(Shard& shard, std::string node, ControlMessage message) {
  Task<Result<ControlMessage>> call =
      shard.transport->call(node, std::move(message), directoryPatience());
  [[maybe_unused]] const Result<ControlMessage> ignored = co_await call;
}

}  // namespace hearth
