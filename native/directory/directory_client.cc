#include "directory/directory_client.h"

#include <algorithm>
#include <set>

#include "directory/directory_service.h"
#include "directory/directory_timeouts.h"

namespace hearth {

Task<LocateAnswer> DirectoryClient::locate(ContentKey key, std::uint64_t size, std::uint32_t stripe,
                                           ChunkMask chunks, Intent intent, FailureReport failure) {
  const DirectoryRequest request{.key = key,
                                 .size = size,
                                 .stripe = stripe,
                                 .chunks = chunks,
                                 .intent = intent,
                                 .failure = std::move(failure)};
  const std::vector<std::string> candidates = ports_.view->directoriesOf(key);
  for (const std::string& node : candidates) {
    if (node == ports_.self) {
      co_return co_await service_.locate(node, request);
    }
    if (const bool answers = co_await outbox_.delivered(node, key); !answers) {
      ports_.counters.unanswered.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    ControlMessage message{static_cast<std::uint16_t>(DirectoryMessage::kLocate), encode(request)};
    const Result<ControlMessage> answer =
        co_await ports_.transport.call(node, std::move(message), directoryTimeouts());
    auto decoded = answer.ok() ? decodeLocateAnswer(answer->body) : std::nullopt;
    if (decoded) co_return std::move(*decoded);
    ports_.counters.unanswered.fetch_add(1, std::memory_order_relaxed);
  }
  LocateAnswer alone;
  if (intent == Intent::kFetch) {
    ports_.counters.bypassed.fetch_add(1, std::memory_order_relaxed);
    alone.granted = chunks;
  }
  co_return alone;
}

Task<Status> DirectoryClient::awaitChunk(std::string node, ContentKey key, std::uint64_t size,
                                         std::uint32_t chunk, RequestTimeouts timeouts) {
  const DirectoryRequest request{
      .key = key, .size = size, .stripe = chunk / kChunksPerStripe, .chunks = bitOf(chunk)};
  ControlMessage message{static_cast<std::uint16_t>(DirectoryMessage::kAwait), encode(request)};
  const Result<ControlMessage> answer =
      co_await ports_.transport.call(std::move(node), std::move(message), timeouts);
  if (!answer.ok()) co_return answer.error();
  co_return Status();
}

Task<HeldElsewhere> DirectoryClient::heldElsewhere(ContentKey key, std::uint64_t size) {
  const auto stripes = static_cast<std::uint32_t>((size + kStripeBytes - 1) / kStripeBytes);
  HeldElsewhere elsewhere{std::vector<ChunkMask>(stripes), std::vector<ChunkMask>(stripes)};
  std::set<std::string> named;
  for (std::uint32_t stripe = 0; stripe < stripes; ++stripe) {
    Task<LocateAnswer> asking =
        locate(key, size, stripe, ChunkMask{0xFFFF}, Intent::kInspect, FailureReport());
    const LocateAnswer answer = co_await asking;
    for (const StripeHolder& holder : answer.holders) named.insert(holder.node);
    for (const StripeHolder& fetcher : answer.fetchers) elsewhere.coming[stripe] |= fetcher.chunks;
  }
  const DirectoryRequest request{.key = key, .size = size};
  for (const std::string& node : named) {
    ControlMessage query{static_cast<std::uint16_t>(DirectoryMessage::kQuery), encode(request)};
    const Result<ControlMessage> answer =
        co_await ports_.transport.call(node, std::move(query), directoryTimeouts());
    const auto report = answer.ok() ? decodeAgentReport(answer->body) : std::nullopt;
    if (!report) continue;
    for (std::size_t stripe = 0; stripe < std::min(report->held.size(), elsewhere.held.size());
         ++stripe) {
      elsewhere.held[stripe] |= report->held[stripe];
    }
  }
  co_return elsewhere;
}

void DirectoryClient::have(const ContentKey& key, std::uint64_t size, std::uint32_t stripe,
                           ChunkMask chunks) {
  report(DirectoryMessage::kHave, {.key = key, .size = size, .stripe = stripe, .chunks = chunks});
}

void DirectoryClient::giveUp(const ContentKey& key, std::uint64_t size, std::uint32_t stripe,
                             ChunkMask chunks) {
  report(DirectoryMessage::kGiveUp, {.key = key, .size = size, .stripe = stripe, .chunks = chunks});
}

void DirectoryClient::dropped(const ContentKey& key, std::uint64_t size) {
  report(DirectoryMessage::kDropped, {.key = key, .size = size});
}

void DirectoryClient::report(DirectoryMessage type, DirectoryRequest request) {
  std::vector<std::string> candidates = ports_.view->directoriesOf(request.key);
  outbox_.report(std::move(candidates), {type, std::move(request)});
}

}  // namespace hearth
