#include "directory/release_client.h"

namespace hearth {
namespace {

ReleaseClient::Answer answerOf(ReleaseAnswer answer) {
  switch (answer) {
    case ReleaseAnswer::kGranted:
      return ReleaseClient::Answer::kGranted;
    case ReleaseAnswer::kUnconfirmed:
      return ReleaseClient::Answer::kUnconfirmed;
    case ReleaseAnswer::kRefused:
      break;
  }
  return ReleaseClient::Answer::kRefused;
}

}  // namespace

Task<ReleaseClient::Asked> ReleaseClient::ask(ContentKey key, std::uint64_t size,
                                              std::int64_t usedAtMs) {
  // The caller has heard of other agents before this shard did: nothing is known yet.
  if (ports_.view->readyOthers().empty()) co_return Asked();
  const std::string home = ports_.view->directoriesOf(key).front();
  const LeaveRequest leave{.number = ++requests_, .usedAtMs = usedAtMs};
  const DirectoryRequest request{.key = key, .size = size, .leave = leave};
  ports_.chunks.beginRelease(key, home, leave.number);
  if (home != ports_.self) {
    Task<Answer> asking = requestRemote(home, request);
    co_return Asked{co_await asking, leave.number};
  }
  co_return Asked{answerOf(co_await releases_.release(home, request)), leave.number};
}

Task<ReleaseClient::Answer> ReleaseClient::requestRemote(std::string home,
                                                         DirectoryRequest request) {
  const Clock::time_point now = Clock::now();
  std::erase_if(silentUntil_, [now](const auto& silent) { return silent.second <= now; });
  if (silentUntil_.contains(home)) co_return Answer::kUnanswered;
  ControlMessage message{static_cast<std::uint16_t>(DirectoryMessage::kRelease), encode(request)};
  const Result<ControlMessage> answer =
      co_await ports_.transport.call(home, std::move(message), {now + kTimeout, kSilence});
  if (answer.code() == ErrorCode::kProtocolError) co_return Answer::kUnsupported;
  const auto decoded = answer.ok() ? decodeReleaseAnswer(answer->body) : std::nullopt;
  if (decoded) co_return answerOf(*decoded);
  const bool late = answer.code() == ErrorCode::kDeadlineExceeded;
  if (late && ports_.transport.lives(home, kSilence)) co_return Answer::kUnconfirmed;
  ports_.counters.unanswered.fetch_add(1, std::memory_order_relaxed);
  if (late || answer.code() == ErrorCode::kUnavailable)
    silentUntil_[home] = Clock::now() + kSilentFor;
  co_return Answer::kUnanswered;
}

void ReleaseClient::evicted(const ContentKey& key, std::uint64_t size, std::uint64_t number) {
  ports_.chunks.endRelease(key, number);
  if (!ports_.chunks.held(key, 0)) return client_.dropped(key, size);
  // It is wanted again, or here again. That it was dropped would be said behind what is said of
  // the new copy, and would take the grants of this agent from it.
  for (std::uint32_t stripe = 0; std::uint64_t{stripe} * kStripeBytes < size; ++stripe)
    client_.have(key, size, stripe, ports_.chunks.held(key, stripe).value_or(0));
}

void ReleaseClient::kept(const ContentKey& key, std::uint64_t number) {
  ports_.chunks.endRelease(key, number);
}

}  // namespace hearth
