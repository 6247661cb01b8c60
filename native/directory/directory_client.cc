#include "directory/directory_client.h"

#include "directory/directory_service.h"

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
  const std::vector<std::string> candidates = ports_.view->directoriesOf(key);
  for (const std::string& node : candidates) {
    if (node == ports_.self) {
      Task<LocateAnswer> here = service_.locate(node, request);
      co_return co_await here;
    }
    ControlMessage message{static_cast<std::uint16_t>(DirectoryMessage::kLocate), encode(request)};
    Task<Result<ControlMessage>> call =
        ports_.transport.call(node, std::move(message), directoryPatience());
    const Result<ControlMessage> answer = co_await call;
    if (!answer.ok()) continue;
    auto decoded = decodeLocateAnswer(answer->body);
    if (decoded) co_return std::move(*decoded);
  }
  LocateAnswer alone;
  if (intent == Intent::kFetch) {
    ports_.bypassed.fetch_add(1, std::memory_order_relaxed);
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
      ports_.transport.call(std::move(node), std::move(message), patience);
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
  std::vector<std::string> candidates = ports_.view->directoriesOf(request.key);
  if (candidates.front() == ports_.self) return tellHere(type, request);
  ports_.gate.spawn(tellPeers(std::move(candidates), type, std::move(request)));
}

void DirectoryClient::tellHere(DirectoryMessage type, const DirectoryRequest& request) {
  const std::string& node = ports_.self;
  switch (type) {
    case DirectoryMessage::kHave:
      return service_.have(node, request);
    case DirectoryMessage::kGiveUp:
      return service_.giveUp(node, request);
    case DirectoryMessage::kDropped:
      return service_.dropped(node, request);
    case DirectoryMessage::kLocate:
    case DirectoryMessage::kQuery:
    case DirectoryMessage::kAwait:
      return;
  }
}

Task<void> DirectoryClient::tellPeers(std::vector<std::string> candidates, DirectoryMessage type,
                                      DirectoryRequest request) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    // Messages that waited for a silent directory must not overtake newer ones with what was true.
    if (i > 0 && type == DirectoryMessage::kHave) {
      const std::optional<ChunkMask> held = ports_.chunks.held(request.key, request.stripe);
      if (!held) co_return;
      request.chunks = *held;
    }
    if (candidates[i] == ports_.self) co_return tellHere(type, request);
    ControlMessage message{static_cast<std::uint16_t>(type), encode(request)};
    Task<Result<ControlMessage>> call =
        ports_.transport.call(candidates[i], std::move(message), directoryPatience());
    const Result<ControlMessage> answer = co_await call;
    if (answer.ok()) co_return;
  }
}

}  // namespace hearth
