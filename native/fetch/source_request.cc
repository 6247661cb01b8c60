#include "fetch/source_request.h"

#include <algorithm>
#include <bit>

#include "origin/tag_of_bytes.h"

namespace hearth {
namespace {

// Longest wait for a location while another source can be asked.
constexpr auto kLocationTimeout = std::chrono::seconds(5);
// Longest turn of a source before another one is asked.
constexpr auto kLongestTurn = std::chrono::seconds(30);
// The same in order, where all is to come from one: for a chunk at
// OriginOptions::floorBytesPerSecond.
constexpr auto kLongestTurnInOrder = std::chrono::seconds(64);
// How often a request that may ask nobody looks whether the shard ends.
constexpr auto kNap = std::chrono::milliseconds(100);
constexpr auto kShortest = std::chrono::milliseconds(1);
constexpr std::string_view kLacking = "it has not the file as it was listed";
constexpr std::string_view kUnproved =
    "nothing proves that it has the same bytes: the manifest has no SHA-256 of the file, and its "
    "ETags cannot be compared with the mirror's";

// Another attempt may succeed.
bool isRetryable(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded;
}

}  // namespace

SourceRequest::SourceRequest(Ports ports, const FileReference& file, SourceRounds& rounds)
    : ports_(ports),
      file_(file),
      entry_(file.about.index),
      set_(file.dataset->sources.now()),
      order_(set_->sources.size() == 1 ? nullptr : rounds.order(set_)),
      time_(OriginOptions().runTimeout) {}

Task<Status> SourceRequest::run(std::uint32_t chunk, std::uint64_t offset,
                                std::vector<std::span<std::byte>> pieces,
                                ByteLanes::Filled filled) {
  chunk_ = chunk;
  offset_ = offset;
  pieces_ = std::move(pieces);
  filled_ = std::move(filled);
  const bool single = set_->sources.size() == 1;
  Task<Status> asking = single ? ask(0, nullptr) : fromAny();
  Status status = co_await asking;
  if (single) {
    firstLacks_ =
        status.code() == ErrorCode::kOriginChanged || status.code() == ErrorCode::kNotFound;
    if (here_ != 0) given_ = 1;
  }
  co_return std::move(status);
}

void SourceRequest::leaveOutUnfit() {
  const Clock::time_point now = Clock::now();
  const SourceMask liars = set_->choice.liars(~SourceMask{1}, now);
  for (std::size_t mirror = 1; mirror < set_->sources.size(); ++mirror) {
    if ((liars & bitOfSource(mirror)) != 0) {
      standings_->leaveOut(mirror, {ErrorCode::kCorrupt, "it gave wrong bytes lately"});
    } else if (!expectation(mirror)) {
      standings_->leaveOut(mirror, {ErrorCode::kUnsupported, std::string(kUnproved)});
      if (!set_->choice.unproved(mirror, entry_, now)) continue;
      say(mirror, "is not asked for files of which nothing can be proved", std::string(kUnproved));
    }
  }
  if (order_ == nullptr) return;
  const SourceMask fit = standings_->remaining();
  standings_->leaveOut(fit & ~order_->admitted(fit, now),
                       {ErrorCode::kCorrupt, "all that it gave of the file was wrong"});
}

SourceMask SourceRequest::candidates(Clock::time_point now) const {
  SourceChoice& choice = set_->choice;
  if (order_ == nullptr) return choice.usable(standings_->remaining(), entry_, now);
  // Includes a source that is put aside, perhaps for bytes of this very file.
  const SourceMask having = choice.mayHave(standings_->remaining(), entry_, now);
  return order_->next(having, standings_->notLeftAlone(having, now), choice.answering(having, now));
}

Task<bool> SourceRequest::rest() {
  const Clock::time_point begun = Clock::now();
  Clock::time_point now = begun;
  while (now - begun < time_) {
    if (isOver()) co_return false;
    const SourceMask mask = candidates(now);
    if (mask == 0 || standings_->due(mask, now) != 0) break;
    const Clock::time_point next = std::min(begun + time_, standings_->soonest(mask));
    co_await ports_.reactor.sleep(std::clamp<Clock::duration>(next - now, kShortest, kNap));
    now = Clock::now();
  }
  time_ -= now - begun;
  co_return !isOver();
}

Task<Status> SourceRequest::fromAny() {
  standings_.emplace(*set_);
  leaveOutUnfit();
  while (standings_->remaining() != 0 && time_ > Clock::duration::zero() && !isOver()) {
    const Clock::time_point now = Clock::now();
    const SourceMask asked = candidates(now);
    if (asked == 0) {
      standings_->leaveOut(standings_->remaining(), {ErrorCode::kNotFound, std::string(kLacking)});
      break;
    }
    const SourceMask mask = standings_->due(asked, now);
    if (mask == 0) {
      if (!co_await rest()) break;
      continue;
    }
    const std::optional<Turn> turn = set_->choice.begin(mask, entry_, now);
    if (!turn) continue;  // another request has just found out that they lack it
    Task<std::optional<Status>> taking = take(*turn);
    std::optional<Status> ours = co_await taking;
    if (ours) co_return std::move(*ours);
  }
  if (isOver())
    co_return Error{ErrorCode::kCancelled,
                    "the engine is shutting down, or nobody wants the bytes"};
  co_return standings_->failure();
}

Task<std::optional<Status>> SourceRequest::take(Turn turn) {
  const std::size_t before = here_;
  const SourceMask others = othersThan(turn);
  // In order one source gives all, without a hedge. A source that has failed before has none
  // either: when all fail, there may be only one that is slow.
  const auto beside = order_ ? std::nullopt : set_->choice.beside(turn, others, entry_, turn.begun);
  const SourceMask self = bitOfSource(turn.source);
  // A straggler need not be failing, and the sources put aside may be back before it gives
  // anything.
  const bool bounded = (hedgeBroke_ & self) != 0 && (standings_->remaining() & ~self) != 0;
  hedgeBroke_ &= ~self;
  const bool hedged = beside.has_value() && standings_->failures(turn.source) == 0;
  const bool impatient = order_ ? others != 0 : hedged || bounded;
  const auto seen = elsewhere(turn, beside, impatient);
  if (impatient) seen->left = std::min(time_, turnTime(turn, others));
  Task<Status> asking = ask(turn.source, seen);
  Status status = co_await asking;
  std::uint64_t bytes = 0;
  for (std::size_t at = before; at < here_; ++at) bytes += pieces_[at].size();
  if (bytes != 0) standings_->cameOn();
  const bool ours = note(turn, status, *seen, beside.value_or(0), bytes);
  if (order_ && (standings_->remaining() & self) == 0) order_->gaveUp(turn.source);
  if (ours) co_return std::move(status);
  co_return std::nullopt;
}

SourceMask SourceRequest::othersThan(const Turn& turn) const {
  SourceMask others = standings_->remaining() & ~bitOfSource(turn.source);
  if (order_ == nullptr) return standings_->due(others, turn.begun);
  for (std::size_t source = 0; source < set_->sources.size(); ++source) {
    if (!order_->stands(source)) others &= ~bitOfSource(source);
  }
  return set_->choice.mayHave(others, entry_, turn.begun);
}

// Bounds the turn, so that a source that trickles, which is no stall, does not take all the time.
// In order a slower source may go on, as the faster one may be the liar.
Clock::duration SourceRequest::turnTime(const Turn& turn, SourceMask others) const {
  if (order_)
    return std::min<Clock::duration>(kLongestTurnInOrder, time_ / (1 + std::popcount(others)));
  std::uint64_t bytes = 0;
  for (std::size_t at = here_; at < pieces_.size(); ++at) bytes += pieces_[at].size();
  const auto longest = set_->choice.longestTurn(turn, others, bytes, turn.begun);
  return std::clamp<Clock::duration>(longest.value_or(kLongestTurn), OriginElsewhere::kTimeout,
                                     kLongestTurn);
}

bool SourceRequest::note(const Turn& turn, const Status& status, const OriginElsewhere& seen,
                         std::size_t beside, std::uint64_t bytes) {
  SourceChoice& choice = set_->choice;
  const Clock::time_point now = Clock::now();
  const ErrorCode code = status.code();
  if (bytes != 0) {
    if (seen.gave) given_ |= bitOfSource(turn.source);
    if (seen.hedgeBytes != 0) given_ |= bitOfSource(beside);
  }
  if (seen.retryAfter) choice.leaveAlone(turn.source, now + *seen.retryAfter);
  if (seen.hedgeRetryAfter) choice.leaveAlone(beside, now + *seen.hedgeRetryAfter);
  if (code == ErrorCode::kTryElsewhere || code == ErrorCode::kCancelled) {
    choice.abandoned(turn, bytes);
    // The dataset has other mirrors now; the first source is the same.
    const bool replaced = code == ErrorCode::kCancelled && turn.source != 0;
    if (!replaced || isOver()) return true;
    standings_->leaveOut(turn.source, status.error());
    return false;
  }
  if (seen.unasked) {
    choice.abandoned(turn, bytes);
    standings_->noteCause(turn.source, status.error());
    return false;
  }
  if (seen.hedgeWon) {
    if (choice.straggled(turn, bytes, beside, seen.hedgeBytes, now))
      say(turn.source, "is put aside", "it was slow, and another source was faster");
    if (status.ok()) return true;
    // The hedge gave only its part.
    standings_->noteFailure(turn.source, status.error());
    return false;
  }
  if (seen.hedgeBroke) {
    // The source that the hedge was for need not be slow.
    choice.abandoned(turn, bytes);
    if (choice.brokeOff(beside, turn.begun, status.error().message, now))
      say(beside, "is put aside", status.error().message);
    standings_->noteFailure(turn.source, status.error());
    hedgeBroke_ |= bitOfSource(turn.source);
    return false;
  }
  if (status.ok()) {
    if (choice.succeeded(turn, bytes, now)) say(turn.source, "is used again", "it answers");
    return true;
  }
  if (code != ErrorCode::kOriginChanged && code != ErrorCode::kNotFound) {
    noteFailure(turn, status.error(), seen.retryAfter, bytes);
    return false;
  }
  standings_->leaveOut(turn.source, status.error());
  if (turn.source != 0) {
    noteLacks(turn, status.error().message);
    return false;
  }
  firstLacks_ = true;
  choice.abandoned(turn, bytes);
  // The first source's word on its own state is true of the dataset.
  return code == ErrorCode::kOriginChanged;
}

void SourceRequest::noteFailure(const Turn& turn, const Error& error,
                                std::optional<Clock::duration> retryAfter, std::uint64_t bytes) {
  SourceChoice& choice = set_->choice;
  const Clock::time_point now = Clock::now();
  bool aside = false;
  if (isRetryable(error.code)) {
    standings_->noteTry(turn.source, error, retryAfter);
    // Not one chunk came in the whole turn. When others fail the source is asked again, and waited
    // for.
    const bool overdue = located_ && error.code == ErrorCode::kDeadlineExceeded;
    if (order_ && overdue && bytes == 0) order_->gaveUp(turn.source);
    aside = choice.failed(turn, bytes, error.message, now);
  } else {
    standings_->leaveOut(turn.source, error);
    // A server that may not say which files it has refuses those that it has not. An error in
    // finding its locations, as before credentials have come, may be over soon.
    if (turn.source != 0 && located_) return noteLacks(turn, error.message);
    aside = choice.refused(turn, bytes, error.message, now);
  }
  if (aside) say(turn.source, "is put aside", error.message);
}

void SourceRequest::noteLacks(const Turn& turn, const std::string& why) {
  if (set_->choice.lacks(turn, entry_, why, Clock::now()))
    say(turn.source, "has not every file as it was listed; these are read elsewhere", why);
}

std::optional<OriginExpectation> SourceRequest::expectation(std::size_t source) const {
  if (source == 0) return file_.expectation();
  const ManifestEntry& about = file_.about;
  if (about.objectOffset != 0) return std::nullopt;
  // The whole file is compared with the digest; the mirror's own name for it says nothing.
  if (about.sourceDigest) return OriginExpectation{.objectSize = about.size, .validator = {}};
  if (isGitBlobId(about.validator)) return file_.expectation();
  if (set_->sources[source].sameTags && isTagOfBytes(about.validator)) return file_.expectation();
  return std::nullopt;
}

std::shared_ptr<OriginElsewhere> SourceRequest::elsewhere(const Turn& turn,
                                                          std::optional<std::size_t> beside,
                                                          bool impatient) const {
  auto other = std::make_shared<OriginElsewhere>();
  other->impatient = impatient;
  other->left = time_;
  // A request that waits for a connection to a source asks another one once that is put aside.
  if (impatient) {
    other->wanted = [set = set_, order = order_, turn] {
      if (order == nullptr) return set->choice.wanted(turn);
      const bool lied = set->choice.liars(bitOfSource(turn.source), Clock::now()) != 0;
      return order->stands(turn.source) && !lied;
    };
  }
  if (!beside) return other;
  std::optional<Location> location = set_->sources[*beside].locations->peek(entry_);
  const auto expected = expectation(*beside);
  if (!location || location->url.empty() || !expected) return other;
  other->hedge = std::move(*location);
  other->expectation = *expected;
  other->hedgeWanted = [set = set_, to = *beside] { return set->choice.well(to, Clock::now()); };
  return other;
}

Task<Result<Location>> SourceRequest::locate(std::size_t source, OriginElsewhere* seen) {
  const bool impatient = seen != nullptr && seen->impatient;
  const Clock::time_point begun = Clock::now();
  Task<Result<Location>> finding = set_->sources[source].locations->find(
      ports_.reactor, entry_, impatient ? kLocationTimeout : LocationCache::kAnswerTimeout);
  Result<Location> location = co_await finding;
  if (seen != nullptr) {
    time_ -= Clock::now() - begun;
    seen->left = std::min(seen->left, time_);
  }
  located_ = location.ok();
  co_return std::move(location);
}

Task<Status> SourceRequest::ask(std::size_t source, std::shared_ptr<OriginElsewhere> seen) {
  const std::shared_ptr<LocationCache> locations = set_->sources[source].locations;
  const auto expected = expectation(source);
  if (!expected) co_return Error{ErrorCode::kNotFound, std::string(kUnproved)};
  Status status;
  // Resolves a refused location again, once.
  for (int tries = 0; tries < 2 && here_ < pieces_.size(); ++tries) {
    Task<Result<Location>> locating = locate(source, seen.get());
    Result<Location> location = co_await locating;
    if (!location.ok()) co_return location.error();
    location->elsewhere = seen;
    location->unwanted = ports_.unwanted;
    const Clock::duration left = seen ? seen->left : Clock::duration();
    Task<Status> requesting = request(std::move(*location), *expected);
    status = co_await requesting;
    if (seen) time_ -= left - seen->left;
    if (status.code() != ErrorCode::kLocationExpired) break;
    locations->expire(entry_);
  }
  co_return std::move(status);
}

// Does not ask again for full pieces, as readers may be reading them. Only locations of HTTP
// expire, and pieces of HTTP come in order.
Task<Status> SourceRequest::request(Location location, OriginExpectation expectation) {
  const std::size_t base = here_;
  OriginRange range{std::move(location), std::move(expectation), offset_, {}};
  for (std::size_t at = 0; at < base; ++at) range.offset += pieces_[at].size();
  range.into.assign(pieces_.begin() + static_cast<std::ptrdiff_t>(base), pieces_.end());
  ByteLanes::Filled filled = [this, base](std::size_t piece, std::vector<std::uint32_t> checksums) {
    here_ = std::max(here_, base + piece + 1);
    filled_(base + piece, std::move(checksums));
  };
  std::function<bool()> memoryWanted = [&pool = ports_.buffers, owner = file_.dataset->id] {
    return pool.shouldYield(owner);
  };
  Task<Status> fetching =
      ports_.lanes.fetch(chunk_, std::move(range), std::move(filled), std::move(memoryWanted));
  Status status = co_await fetching;
  co_return std::move(status);
}

void SourceRequest::say(std::size_t source, const std::string& what, const std::string& why) const {
  log(ports_.events, EngineEvent::Level::kWarn,
      "dataset " + file_.dataset->id + ": " + standings_->nameOf(source) + " " + what,
      {{"dataset", file_.dataset->id}, {"reason", why}});
}

}  // namespace hearth
