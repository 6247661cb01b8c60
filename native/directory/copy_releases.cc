#include "directory/copy_releases.h"

#include <algorithm>

#include "directory/directory_service.h"

namespace hearth {
namespace {

// An agent that does not answer is as if it held nothing.
constexpr auto kConfirmSilence = std::chrono::milliseconds(300);

}  // namespace

// A question that waits for its turn or for the answers of other agents. Its asker may have got an
// answer before.
struct CopyReleases::Pending {
  Pending(Reactor& reactor, std::string asker, DirectoryRequest about, Clock::time_point deadline)
      : node(std::move(asker)), request(std::move(about)), until(deadline), answered(reactor) {}

  const std::string node;
  const DirectoryRequest request;
  const Clock::time_point until;
  Event answered;
  ReleaseAnswer answer = ReleaseAnswer::kUnconfirmed;
};

// The answers of some agents about their copies; the first agent is the one that asks for leave.
// Goes on when there is an answer without all of them.
struct CopyReleases::Inquiry {
  explicit Inquiry(Reactor& reactor) : heard(reactor) {}

  std::vector<Part> parts;
  std::size_t open = 0;
  bool complete = false;  // all that may hold some of it were asked for it, now or a while ago
  Event heard;
};

Task<ReleaseAnswer> CopyReleases::release(std::string node, DirectoryRequest request) {
  if (!request.leave) co_return ReleaseAnswer::kRefused;
  if (ports_.gate.closed()) co_return ReleaseAnswer::kUnconfirmed;
  const auto pending = std::make_shared<Pending>(ports_.reactor, std::move(node),
                                                 std::move(request), Clock::now() + kAnswersIn);
  ports_.gate.spawn(settle(pending));
  (void)co_await pending->answered.waitUntil(pending->until);
  co_return pending->answer;
}

Task<void> CopyReleases::settle(std::shared_ptr<Pending> pending) {
  const DirectoryRequest& request = pending->request;
  std::shared_ptr<Asked>& known = asked_[request.key];
  if (known == nullptr) known = std::make_shared<Asked>(ports_.reactor);
  const std::shared_ptr<Asked> asked = known;
  const auto waiting = asked->waiting.emplace(pending->node, request.leave->number);
  co_await asked->turn.acquire(1);
  if (Clock::now() < pending->until) pending->answer = co_await decide(*asked, *pending);
  asked->waiting.erase(waiting);
  pending->answered.set();
  asked->turn.release(1);
  if (asked->waiting.empty()) asked_.erase(request.key);
}

Task<ReleaseAnswer> CopyReleases::decide(const Asked& asked, const Pending& pending) {
  const DirectoryRequest& request = pending.request;
  const auto inquiry = std::make_shared<Inquiry>(ports_.reactor);
  DirectoryService::Holders holders = co_await service_.holders(
      request, pending.node, kMaxOthers, std::min(pending.until, Clock::now() + kBuildFor));
  // An asker outside our view belongs to a cluster we have not heard of yet.
  inquiry->complete =
      holders.complete && (pending.node == ports_.self || ports_.view->ready(pending.node));
  inquiry->parts.push_back({.node = pending.node, .report = {}});
  for (std::string& other : holders.nodes)
    inquiry->parts.push_back({.node = std::move(other), .report = {}});
  if (ports_.gate.closed()) co_return ReleaseAnswer::kUnconfirmed;
  inquiry->open = inquiry->parts.size();
  for (std::size_t part = 0; part < inquiry->parts.size(); ++part)
    ports_.gate.spawn(ask(inquiry, part, request, pending.until));
  for (;;) {
    // From here to the answer nothing is waited for.
    if (const auto answer = answerOf(asked, pending, *inquiry)) co_return *answer;
    inquiry->heard.reset();
    const bool inTime = co_await inquiry->heard.waitUntil(pending.until);
    if (!inTime && !inquiry->heard.isSet()) co_return ReleaseAnswer::kUnconfirmed;
  }
}

std::optional<ReleaseAnswer> CopyReleases::answerOf(const Asked& asked, const Pending& pending,
                                                    const Inquiry& inquiry) const {
  const LeaveRequest& leave = *pending.request.leave;
  const Part& own = inquiry.parts.front();
  if (own.report) {
    const bool asks = own.report->copy && own.report->copy->asked == ports_.self &&
                      own.report->copy->request == leave.number;
    if (!asks) return ReleaseAnswer::kRefused;  // it does not wait for the answer any more
    std::vector<HeldChunks> others;
    for (const Part& part : std::span(inquiry.parts).subspan(1)) {
      if (stays(asked, part)) others.push_back(part.report->held);
    }
    // Whatever those say that have not answered yet.
    if (redundant(own.report->held, others, pending.request.size)) return ReleaseAnswer::kGranted;
  }
  if (inquiry.open != 0) return std::nullopt;
  if (!own.report) return ReleaseAnswer::kUnconfirmed;
  const bool confirmed = std::ranges::all_of(inquiry.parts, [&](const Part& part) {
    return &part == &own || (part.report && (!part.report->copy || part.report->copy->stored));
  });
  return confirmed && inquiry.complete ? ReleaseAnswer::kRefused : ReleaseAnswer::kUnconfirmed;
}

Task<void> CopyReleases::ask(std::shared_ptr<Inquiry> inquiry, std::size_t part,
                             DirectoryRequest request, Clock::time_point until) {
  const Clock::time_point asked = Clock::now();
  const std::string node = inquiry->parts[part].node;
  Task<std::optional<AgentReport>> asking =
      service_.partOf(node, request, {until, kConfirmSilence});
  std::optional<AgentReport> report = co_await asking;
  if (report) service_.correct(request.key, node, *report, asked);
  inquiry->parts[part].report = std::move(report);
  --inquiry->open;
  inquiry->heard.set();
}

bool CopyReleases::stays(const Asked& asked, const Part& other) const {
  if (!other.report || !other.report->copy || !other.report->copy->stored) return false;
  const CopyState& copy = *other.report->copy;
  if (copy.asked.empty()) return true;
  return copy.asked == ports_.self && asked.waiting.contains({other.node, copy.request});
}

}  // namespace hearth
