#include "fetch/run_executor.h"

#include <bit>

#include "fetch/origin_stream.h"

namespace hearth {
namespace {

// Pauses between attempts, which go on for kPeerTimeout: where links are full an agent may hear of
// its grant seconds after the others.
constexpr Clock::duration kFirstPause = std::chrono::milliseconds(5);
constexpr Clock::duration kLongestPause = std::chrono::milliseconds(250);
constexpr std::uint32_t kManySharers = 4;
// How often a run looks whether another agent has come first: while it waits for a turn, and in the
// background for a limit of the node.
constexpr auto kLookAgain = std::chrono::milliseconds(250);
constexpr auto kLookAgainInBackground = std::chrono::seconds(1);

// Errors that another agent, or the origin, may not give.
bool isRetryableElsewhere(ErrorCode code) {
  switch (code) {
    case ErrorCode::kTryElsewhere:
    case ErrorCode::kUnavailable:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kCorrupt:
    case ErrorCode::kProtocolError:
    case ErrorCode::kCancelled:
    case ErrorCode::kUnauthenticated:
    case ErrorCode::kOutOfSpace:
    case ErrorCode::kIoError:
    case ErrorCode::kInternal:
      return true;
    default:
      return false;
  }
}

// Replaces the status of a run that gave way to others until its time was over; keeps other errors.
Status tooSlow(const Status& fetched) {
  if (fetched.code() != ErrorCode::kTryElsewhere) return fetched;
  return Error{ErrorCode::kDeadlineExceeded,
               fetched.error().message +
                   "; given up after ten minutes: check the origin, and the network to it"};
}

// The agent with the first of its chunks alone.
StripeHolder firstOf(const StripeHolder& agent) {
  return {agent.node, static_cast<ChunkMask>(agent.chunks & -agent.chunks)};
}

}  // namespace

Fetcher::RunExecutor::RunExecutor(Fetcher& fetcher, RunState& state)
    : fetcher_(fetcher),
      ports_(fetcher.ports_),
      state_(state),
      file_(state.fetch->reference),
      turns_(file_.dataset->originTurns),
      ofOrigin_(state.options.rate.get()),
      ofPeers_(state.options.peerRate.get()),
      nodeOrigin_(fetcher.ports_.limits.origin),
      nodeFromPeers_(fetcher.ports_.limits.fromPeers),
      raised_(*state.urgency, [this] { turn_.force(); }),
      slot_(fetcher.peerReadSlots_),
      pauses_(kFirstPause, kLongestPause) {}

Task<Status> Fetcher::RunExecutor::run() {
  while (!ports_.gate.closed()) {
    const ChunkMask missing = state_.missing();
    if (missing == 0) co_return Status();
    const Ended ended = co_await step(missing);
    if (ended) co_return *ended;
  }
  co_return shuttingDown();
}

Task<Fetcher::RunExecutor::Ended> Fetcher::RunExecutor::step(ChunkMask missing) {
  const auto refused = state_.fetch->refusal.holds(file_.dataset->locations);
  if (state_.fetch->shared->rounds->inOrder()) {
    if (refused) co_return Ended(*refused);
    if (const Ended ended = givenUp(false)) co_return ended;
    co_return co_await fetchAlone(missing);
  }
  if (refused) {
    co_return co_await lookElsewhere(missing, *refused);
  }
  // Goes chunk by chunk where many share: a chunk goes on to others as soon as it has come in.
  if (sharers_ >= kManySharers && !state_.demand()) missing &= static_cast<ChunkMask>(-missing);
  const bool through = state_.through();
  if (const Ended ended = givenUp(through)) co_return ended;
  askForTurn();
  // Takes memory before it asks for a grant, as a granted chunk must come in soon.
  std::vector<ChunkBuffer> own = co_await memoryForTurn();
  const Intent intent = own.empty() ? (slot_.held() ? Intent::kRead : Intent::kLookUp)
                        : through   ? Intent::kLookUp
                                    : Intent::kFetch;
  LocateAnswer answer = co_await locate(missing, intent);
  const bool nowhere = answer.holders.empty() && answer.fetchers.empty();
  if (through && nowhere && !own.empty()) answer.granted = missing;
  if (answer.granted != 0) {
    co_return co_await fetchGranted(answer.granted, std::move(own));
  }
  own.clear();
  if (nowhere) {
    co_await waitForGrant();
    co_return Ended();
  }
  turn_.end();
  nodeOrigin_.leave();
  co_return co_await readFromAgents(answer, missing);
}

Task<Fetcher::RunExecutor::Ended> Fetcher::RunExecutor::lookElsewhere(ChunkMask missing,
                                                                      Error refused) {
  turn_.end();
  nodeOrigin_.leave();
  if (!state_.demand()) co_return Ended(refused);
  const LocateAnswer answer = co_await locate(missing, Intent::kLookUp);
  if (answer.holders.empty() && answer.fetchers.empty()) co_return Ended(refused);
  co_return co_await readFromAgents(answer, missing);
}

Fetcher::RunExecutor::Ended Fetcher::RunExecutor::givenUp(bool through) {
  if (state_.unwanted()) {
    state_.givenUp = ChunkFlight::Reason::kAbandoned;
    return Error{ErrorCode::kCancelled, "the bytes are not wanted any more"};
  }
  if (through && state_.unawaited()) {
    state_.givenUp = ChunkFlight::Reason::kForgone;
    return Error{ErrorCode::kOutOfSpace, "there is no room for what no reader waits for yet"};
  }
  return std::nullopt;
}

bool Fetcher::RunExecutor::mayFetch() const { return jobLets(ofOrigin_) && given(nodeOrigin_); }

Task<void> Fetcher::RunExecutor::earn(BandwidthAllowance& allowance) {
  const Clock::duration pause =
      state_.demand() ? Clock::duration(kLookAgain) : kLookAgainInBackground;
  return allowance.earn(ports_.reactor, state_.bytes(), *state_.urgency, Clock::now() + pause);
}

void Fetcher::RunExecutor::use(BandwidthAllowance& allowance, ChunkMask wanted) {
  const ChunkMask come = wanted & ~state_.missing();
  allowance.use(state_.bytesOf(come), state_.urgency->priority());
}

bool Fetcher::RunExecutor::streamed() const {
  const std::shared_ptr<OriginStream>& stream = state_.options.stream;
  return stream != nullptr && stream->brings(state_.chunks.first) && mayFetch();
}

void Fetcher::RunExecutor::askForTurn() {
  if (streamed() || turn_.asked() || slot_.held() || !mayFetch()) return;
  turn_ = state_.demand() ? turns_.force(ports_.reactor, state_.bytes())
                          : turns_.ask(ports_.reactor, state_.bytes());
}

Task<std::vector<ChunkBuffer>> Fetcher::RunExecutor::memoryForTurn() {
  if (!turn_.held() && !streamed()) co_return std::vector<ChunkBuffer>();
  co_return co_await acquireMemory();
}

Task<std::vector<ChunkBuffer>> Fetcher::RunExecutor::acquireMemory() {
  return ports_.ofOrigin.acquire(*state_.urgency, state_.chunks.count, state_.options.rank,
                                 file_.dataset->id);
}

Task<LocateAnswer> Fetcher::RunExecutor::locate(ChunkMask missing, Intent intent) {
  state_.named = state_.named || intent != Intent::kLookUp;
  if (intent != Intent::kLookUp) state_.enter(ChunkFlight::State::kAsking);
  LocateAnswer answer = co_await ports_.directory.locate(
      file_.about.key, file_.about.size, state_.chunks.stripe(), missing, intent, failure_);
  // Those that wait for the answer resume when the granted chunks are under way.
  if (intent != Intent::kLookUp) state_.enter(ChunkFlight::State::kWaiting);
  failure_ = {};
  // The directory may not have heard yet that the chunk came.
  if (answer.holders.empty() && !answer.fetchers.empty() &&
      firstOf(answer.fetchers.front()) == come_) {
    answer.holders.push_back(come_);
  }
  sharers_ = answer.sharers;
  turns_.setSharers(sharers_);
  co_return answer;
}

Task<Fetcher::RunExecutor::Ended> Fetcher::RunExecutor::fetchAlone(ChunkMask missing) {
  if (!given(nodeOrigin_)) {
    co_await earn(nodeOrigin_);
    co_return Ended();
  }
  std::vector<ChunkBuffer> own = co_await acquireMemory();
  const Status fetched = co_await fetcher_.fromOrigin(state_, missing, std::move(own));
  use(nodeOrigin_, missing);
  co_return co_await judgeOrigin(fetched);
}

Task<Fetcher::RunExecutor::Ended> Fetcher::RunExecutor::judgeOrigin(Status fetched) {
  if (fetched.ok()) co_return Ended();
  // Nobody wanted the bytes. The next step ends the run, unless a reader has come meanwhile.
  if (fetched.code() == ErrorCode::kCancelled) {
    co_await ports_.reactor.sleep(kFirstPause);
    co_return Ended();
  }
  if (state_.unwanted() || state_.queuesAgain(fetched)) co_return Ended();
  co_return tooSlow(fetched);  // other failures the origin client has tried again already
}

Task<Fetcher::RunExecutor::Ended> Fetcher::RunExecutor::fetchGranted(ChunkMask granted,
                                                                     std::vector<ChunkBuffer> own) {
  ofOrigin_.use(state_.bytes());
  const bool wasStreamed = streamed();
  const Status fetched = co_await fetcher_.fromOrigin(state_, granted, std::move(own));
  use(nodeOrigin_, granted);
  turn_.end(fetched.ok() ? state_.bytes() : 0);
  if (fetched.ok()) co_return Ended();
  state_.giveBack(granted);
  ports_.directory.giveUp(file_.about.key, file_.about.size, state_.chunks.stripe(), granted);
  // The stream has left the chunks, which is no failure of the run.
  if (wasStreamed && fetched.code() == ErrorCode::kTryElsewhere) co_return Ended();
  co_return co_await judgeOrigin(fetched);
}

Task<void> Fetcher::RunExecutor::waitForGrant() {
  leaveSlot();
  if (!jobLets(ofOrigin_)) {
    co_await ofOrigin_.spend(ports_.reactor, state_.bytes(), *state_.urgency);
  } else if (!given(nodeOrigin_)) {
    co_await earn(nodeOrigin_);
  } else if (turn_.asked()) {
    co_await turn_.wait(Clock::now() + kLookAgain);
  }
}

Task<Fetcher::RunExecutor::Ended> Fetcher::RunExecutor::readFromAgents(const LocateAnswer& answer,
                                                                       ChunkMask missing) {
  Status read;
  if (answer.holders.empty() && answer.arriving == 0) {
    read = co_await awaitFetcher(answer);
  } else {
    if (!state_.demand() && !slot_.held()) {
      co_await takeSlot(missing);
      // Asks a second time, now to read: only requests to read are spread over holders, and have
      // others wait for one of the readers (KeyDirectory::locate). The holders may also have
      // changed while the run waited for its slot.
      co_return Ended();
    }
    if (!given(nodeFromPeers_)) {
      slotMemory_.clear();
      co_await earn(nodeFromPeers_);
    }
    // The chunks may be elsewhere by now.
    if (!given(nodeFromPeers_)) co_return Ended();
    ofPeers_.use(state_.bytes());
    read = co_await fetcher_.fromPeers(state_, answer, std::move(slotMemory_), failure_);
    use(nodeFromPeers_, missing);
    leaveSlot();
    // The agent does not pass on arriving bytes, or not yet: waits until it has the whole chunk.
    if (read.code() == ErrorCode::kTryElsewhere && answer.holders.empty()) {
      failure_ = {};
      read = co_await awaitFetcher(answer);
    }
  }
  co_return co_await judge(read);
}

Task<Status> Fetcher::RunExecutor::awaitFetcher(const LocateAnswer& answer) {
  leaveSlot();
  come_ = firstOf(answer.fetchers.front());
  return fetcher_.awaitFetcher(state_, come_, failure_);
}

Task<void> Fetcher::RunExecutor::takeSlot(ChunkMask missing) {
  if (!ofPeers_.given()) {
    co_await ofPeers_.spend(ports_.reactor, state_.bytes(), *state_.urgency);
  }
  if (!given(nodeFromPeers_)) co_await earn(nodeFromPeers_);
  if (!given(nodeFromPeers_)) co_return;
  Task<void> taking =
      slot_.take(*state_.urgency, static_cast<std::uint32_t>(std::popcount(missing)));
  co_await taking;
  if (!slot_.held()) co_return;
  slotMemory_ = co_await ports_.ofPeers.acquire(
      *state_.urgency, static_cast<std::size_t>(std::popcount(missing)), state_.options.rank);
}

Task<Fetcher::RunExecutor::Ended> Fetcher::RunExecutor::judge(Status read) {
  if (read.ok()) {
    failing_.reset();
    pauses_.reset();
    co_return Ended();
  }
  come_ = {};
  if (!isRetryableElsewhere(read.code())) co_return read;
  if (!failing_) failing_ = Clock::now();
  if (Clock::now() - *failing_ > kPeerTimeout) {
    co_return read.error().within("no agent gave the bytes");
  }
  co_await ports_.reactor.sleep(pauses_.next());
  co_return Ended();
}

}  // namespace hearth
