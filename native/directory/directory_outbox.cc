#include "directory/directory_outbox.h"

#include <algorithm>

#include "directory/directory_patience.h"
#include "directory/directory_service.h"

namespace hearth {

void DirectoryOutbox::tell(std::vector<std::string> candidates, DirectoryNews news) {
  post({.candidates = std::move(candidates), .at = 0, .news = std::move(news)});
}

Task<bool> DirectoryOutbox::told(std::string node, ContentKey key) {
  std::uint64_t awaited = 0;
  for (;;) {
    const auto box = boxes_.find(node);
    if (box == boxes_.end()) co_return true;
    if (awaited == 0) {
      const auto newest = box->second.newest.find(key);
      if (newest == box->second.newest.end()) co_return true;
      awaited = newest->second;
    }
    if (box->second.done >= awaited) co_return true;
    const std::shared_ptr<Call> call = box->second.call;
    co_await call->ended.wait();
    if (call->upTo >= awaited) co_return !call->failed;
  }
}

void DirectoryOutbox::post(Letter letter) {
  const std::string node = letter.candidates[letter.at];
  if (node == ports_.self) return service_.told(node, letter.news);
  const auto [found, fresh] = boxes_.try_emplace(node, ports_.reactor);
  Box& box = found->second;
  if (fresh) box.done = letters_;
  if (fresh && ports_.gate.closed()) {  // nobody would deliver it
    boxes_.erase(found);
    return;
  }
  // Also what was refused and put back while others came.
  while (box.waiting.size() >= kMostWaiting) {
    forget(box, box.waiting.front());
    box.waiting.pop_front();
  }
  letter.number = ++letters_;
  box.newest[letter.news.request.key] = letter.number;
  box.waiting.push_back(std::move(letter));
  if (fresh) ports_.gate.spawn(deliver(node));
}

Task<void> DirectoryOutbox::deliver(std::string node) {
  Box& box = boxes_.at(node);  // stays where it is until it is erased here
  // Who closes waits for the call that is under way, and for no other.
  while (!box.waiting.empty() && !ports_.gate.closed()) {
    std::vector<Letter> letters = take(box);
    const Status sent = co_await send(node, letters);
    if (letters.size() > 1 && sent.code() == ErrorCode::kProtocolError) {
      box.together = false;
      std::move(letters.rbegin(), letters.rend(), std::front_inserter(box.waiting));
      continue;
    }
    for (const Letter& letter : letters) forget(box, letter);
    box.done = letters.back().number;
    if (!sent.ok()) forward(std::move(letters));
    const auto call = std::exchange(box.call, std::make_shared<Call>(ports_.reactor));
    call->upTo = box.done;
    call->failed = !sent.ok();
    call->ended.set();
  }
  const std::shared_ptr<Call> none = box.call;
  boxes_.erase(node);
  none->ended.set();
}

Task<Status> DirectoryOutbox::send(const std::string& node, const std::vector<Letter>& letters) {
  ControlMessage message;
  if (letters.size() == 1) {
    const DirectoryNews& only = letters.front().news;
    message = {static_cast<std::uint16_t>(only.type), encode(only.request)};
  } else {
    std::vector<DirectoryNews> news;
    news.reserve(letters.size());
    for (const Letter& letter : letters) news.push_back(letter.news);
    message = {static_cast<std::uint16_t>(DirectoryMessage::kNews), encode(news)};
  }
  Task<Result<ControlMessage>> call =
      ports_.transport.call(node, std::move(message), directoryPatience());
  const Result<ControlMessage> answer = co_await call;
  if (!answer.ok()) co_return answer.error();
  co_return Status();
}

void DirectoryOutbox::forward(std::vector<Letter> letters) {
  for (Letter& letter : letters) {
    if (++letter.at == letter.candidates.size()) continue;
    if (stillTrue(letter.news)) post(std::move(letter));
  }
}

bool DirectoryOutbox::stillTrue(DirectoryNews& news) const {
  DirectoryRequest& request = news.request;
  const std::optional<ChunkMask> held = ports_.chunks.held(request.key, request.stripe);
  if (news.type == DirectoryMessage::kDropped) return !held;
  if (news.type == DirectoryMessage::kHave) {
    request.chunks = held.value_or(0);
    return held.has_value();
  }
  for (const std::uint32_t chunk : ports_.chunks.report(request.key).fetching) {
    if (chunk / kChunksPerStripe == request.stripe)
      request.chunks &= static_cast<ChunkMask>(~bitOf(chunk));
  }
  return request.chunks != 0;
}

std::vector<DirectoryOutbox::Letter> DirectoryOutbox::take(Box& box) {
  const std::size_t count = box.together ? std::min(box.waiting.size(), kMostNews) : 1;
  const auto end = box.waiting.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<Letter> letters(std::make_move_iterator(box.waiting.begin()),
                              std::make_move_iterator(end));
  box.waiting.erase(box.waiting.begin(), end);
  return letters;
}

void DirectoryOutbox::forget(Box& box, const Letter& letter) {
  const auto newest = box.newest.find(letter.news.request.key);
  if (newest != box.newest.end() && newest->second == letter.number) box.newest.erase(newest);
}

}  // namespace hearth
