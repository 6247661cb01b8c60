#include "directory/directory_outbox.h"

#include <algorithm>

#include "directory/directory_service.h"
#include "directory/directory_timeouts.h"

namespace hearth {

void DirectoryOutbox::report(std::vector<std::string> candidates, DirectoryUpdate update) {
  post({.candidates = std::move(candidates), .at = 0, .update = std::move(update)});
}

Task<bool> DirectoryOutbox::delivered(std::string node, ContentKey key) {
  std::uint64_t awaited = 0;
  for (;;) {
    const auto queue = queues_.find(node);
    if (queue == queues_.end()) co_return true;
    if (awaited == 0) {
      const auto newest = queue->second.newest.find(key);
      if (newest == queue->second.newest.end()) co_return true;
      awaited = newest->second;
    }
    if (queue->second.done >= awaited) co_return true;
    const std::shared_ptr<Call> call = queue->second.call;
    co_await call->ended.wait();
    if (call->upTo >= awaited) co_return !call->failed;
  }
}

void DirectoryOutbox::post(QueuedUpdate queued) {
  const std::string node = queued.candidates[queued.at];
  if (node == ports_.self) return service_.apply(node, queued.update);
  const auto [found, fresh] = queues_.try_emplace(node, ports_.reactor);
  NodeQueue& queue = found->second;
  if (fresh) queue.done = lastNumber_;
  if (fresh && ports_.gate.closed()) {  // no coroutine would deliver it
    queues_.erase(found);
    return;
  }
  // Also what was refused and put back while others came.
  while (queue.waiting.size() >= kMaxWaiting) {
    forget(queue, queue.waiting.front());
    queue.waiting.pop_front();
  }
  queued.number = ++lastNumber_;
  queue.newest[queued.update.request.key] = queued.number;
  queue.waiting.push_back(std::move(queued));
  if (fresh) ports_.gate.spawn(deliver(node));
}

Task<void> DirectoryOutbox::deliver(std::string node) {
  NodeQueue& queue = queues_.at(node);  // stays where it is until it is erased here
  // Closing waits for the call under way, and for no other.
  while (!queue.waiting.empty() && !ports_.gate.closed()) {
    std::vector<QueuedUpdate> batch = take(queue);
    const Status sent = co_await send(node, batch);
    if (batch.size() > 1 && sent.code() == ErrorCode::kProtocolError) {
      queue.batched = false;
      std::move(batch.rbegin(), batch.rend(), std::front_inserter(queue.waiting));
      continue;
    }
    for (const QueuedUpdate& queued : batch) forget(queue, queued);
    queue.done = batch.back().number;
    if (!sent.ok()) forward(std::move(batch));
    const auto call = std::exchange(queue.call, std::make_shared<Call>(ports_.reactor));
    call->upTo = queue.done;
    call->failed = !sent.ok();
    call->ended.set();
  }
  const std::shared_ptr<Call> none = queue.call;
  queues_.erase(node);
  none->ended.set();
}

Task<Status> DirectoryOutbox::send(const std::string& node,
                                   const std::vector<QueuedUpdate>& batch) {
  ControlMessage message;
  if (batch.size() == 1) {
    const DirectoryUpdate& only = batch.front().update;
    message = {static_cast<std::uint16_t>(only.type), encode(only.request)};
  } else {
    std::vector<DirectoryUpdate> updates;
    updates.reserve(batch.size());
    for (const QueuedUpdate& queued : batch) updates.push_back(queued.update);
    message = {static_cast<std::uint16_t>(DirectoryMessage::kUpdates), encode(updates)};
  }
  const Result<ControlMessage> answer =
      co_await ports_.transport.call(node, std::move(message), directoryTimeouts());
  if (!answer.ok()) co_return answer.error();
  co_return Status();
}

void DirectoryOutbox::forward(std::vector<QueuedUpdate> batch) {
  for (QueuedUpdate& queued : batch) {
    if (++queued.at == queued.candidates.size()) continue;
    if (stillTrue(queued.update)) post(std::move(queued));
  }
}

bool DirectoryOutbox::stillTrue(DirectoryUpdate& update) const {
  DirectoryRequest& request = update.request;
  const std::optional<ChunkMask> held = ports_.chunks.held(request.key, request.stripe);
  if (update.type == DirectoryMessage::kDropped) return !held;
  if (update.type == DirectoryMessage::kHave) {
    request.chunks = held.value_or(0);
    return held.has_value();
  }
  for (const std::uint32_t chunk : ports_.chunks.report(request.key).fetching) {
    if (chunk / kChunksPerStripe == request.stripe)
      request.chunks &= static_cast<ChunkMask>(~bitOf(chunk));
  }
  return request.chunks != 0;
}

std::vector<DirectoryOutbox::QueuedUpdate> DirectoryOutbox::take(NodeQueue& queue) {
  const std::size_t count = queue.batched ? std::min(queue.waiting.size(), kMaxUpdates) : 1;
  const auto end = queue.waiting.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<QueuedUpdate> batch(std::make_move_iterator(queue.waiting.begin()),
                                  std::make_move_iterator(end));
  queue.waiting.erase(queue.waiting.begin(), end);
  return batch;
}

void DirectoryOutbox::forget(NodeQueue& queue, const QueuedUpdate& queued) {
  const auto newest = queue.newest.find(queued.update.request.key);
  if (newest != queue.newest.end() && newest->second == queued.number) queue.newest.erase(newest);
}

}  // namespace hearth
