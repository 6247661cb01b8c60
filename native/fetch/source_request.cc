#include "fetch/source_request.h"

#include <algorithm>
#include <bit>
#include <random>

#include "origin/tag_of_bytes.h"

namespace hearth {
namespace {

// The client's attempts in a row and pauses for a single source.
const OriginOptions kUsual;
// Longest wait for a location while another source can be asked.
constexpr auto kLocationTimeout = std::chrono::seconds(5);
// Longest turn of a source before another one is asked.
constexpr auto kLongestTurn = std::chrono::seconds(30);
// The same in order, where all is to come from one: for a chunk at
// OriginOptions::floorBytesPerSecond.
constexpr auto kLongestTurnInOrder = std::chrono::seconds(64);
// How often a request that may ask nobody yet looks again.
constexpr auto kNap = std::chrono::milliseconds(20);
constexpr std::string_view kUnproved =
    "nothing proves that it has the same bytes: the manifest has no SHA-256 of the file, and its "
    "ETags cannot be compared with the mirror's";

bool saysAway(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kDeadlineExceeded;
}

}  // namespace

SourceRequest::SourceRequest(Ports ports, const FileReference& file,
                             std::shared_ptr<SourceRounds> rounds)
    : ports_(std::move(ports)),
      file_(file),
      entry_(file.about.index),
      set_(file.dataset->sources.now()),
      rounds_(std::move(rounds)),
      inOrder_(set_->sources.size() > 1 && rounds_->inOrder()),
      tries_(set_->sources.size()),
      time_(kUsual.runTimeout) {}

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

void SourceRequest::leaveOutUnproved() {
  for (std::size_t mirror = 1; mirror < tries_.size(); ++mirror) {
    if (expectation(mirror)) continue;
    tries_[mirror].out = true;
    tries_[mirror].cause = {ErrorCode::kUnsupported, std::string(kUnproved)};
    if (set_->ranking.lacks(mirror, entry_, Clock::now()))
      say(mirror, "is not asked for files of which nothing can be proved", std::string(kUnproved));
  }
}

SourceMask SourceRequest::remaining() const {
  SourceMask mask = 0;
  for (std::size_t source = 0; source < tries_.size(); ++source) {
    const Tries& tries = tries_[source];
    if (!tries.out && tries.failures < kUsual.attempts) mask |= bitOfSource(source);
  }
  return mask;
}

SourceMask SourceRequest::candidates(Clock::time_point now) const {
  const SourceRanking::View view = set_->ranking.look(remaining(), entry_, now);
  return inOrder_ ? rounds_->next(set_, view, now) : view.usable();
}

SourceMask SourceRequest::due(SourceMask mask, Clock::time_point now) const {
  mask &= ~set_->ranking.leftAlone(mask, now);
  for (std::size_t source = 0; source < tries_.size(); ++source) {
    if (tries_[source].notBefore > now) mask &= ~bitOfSource(source);
  }
  return mask;
}

Task<Status> SourceRequest::fromAny() {
  leaveOutUnproved();
  while (!isOver()) {
    const Clock::time_point now = Clock::now();
    const SourceMask mask = candidates(now);
    if (mask == 0 || time_ <= Clock::duration::zero()) co_return failure();
    const SourceMask asked = due(mask, now);
    if (asked == 0) {
      co_await ports_.reactor.sleep(kNap);
      time_ -= Clock::now() - now;
      continue;
    }
    Task<std::optional<Status>> taking = take(set_->ranking.begin(asked, now));
    std::optional<Status> ours = co_await taking;
    if (ours) co_return std::move(*ours);
  }
  co_return Error{ErrorCode::kCancelled, "the engine is shutting down, or nobody wants the bytes"};
}

Task<std::optional<Status>> SourceRequest::take(Turn turn) {
  const std::size_t before = here_;
  const std::shared_ptr<OriginElsewhere> seen = terms(turn);
  Task<Status> asking = ask(turn.source, seen);
  Status status = co_await asking;
  std::uint64_t bytes = 0;
  for (std::size_t at = before; at < here_; ++at) bytes += pieces_[at].size();
  if (bytes != 0) {
    given_ |= bitOfSource(turn.source);
    for (Tries& tries : tries_) tries.failures = 0;
  }
  std::optional<Status> ours = conclude(turn, std::move(status), *seen, bytes);
  if (inOrder_ && (!isIn(remaining(), turn.source) || seen->retryAfter))
    rounds_->gaveUp(turn.source);
  co_return std::move(ours);
}

// A source that has failed before is waited for: when all fail, there may be only one that is slow.
// In order a slow source goes on, as the faster one may be wrong.
std::shared_ptr<OriginElsewhere> SourceRequest::terms(const Turn& turn) const {
  const SourceMask rest = remaining() & ~bitOfSource(turn.source);
  const SourceRanking::View view = set_->ranking.look(rest, entry_, turn.begun);
  const SourceMask others = inOrder_ ? view.having : view.healthy;
  auto terms = std::make_shared<OriginElsewhere>();
  terms->impatient = others != 0 && (inOrder_ || tries_[turn.source].failures == 0);
  terms->leaveStraggler = terms->impatient && !inOrder_;
  terms->left = terms->impatient ? std::min(time_, turnTime(turn, others)) : time_;
  if (!terms->impatient) return terms;
  // A request that waits for a connection asks another source once this one is set aside.
  terms->wanted = [set = set_, rounds = inOrder_ ? rounds_ : nullptr, turn] {
    return rounds ? rounds->stands(turn.source) : set->ranking.wanted(turn);
  };
  return terms;
}

// Bounds the turn, so that a source that trickles, which is no stall, does not take all the time.
Clock::duration SourceRequest::turnTime(const Turn& turn, SourceMask others) const {
  if (inOrder_)
    return std::min<Clock::duration>(kLongestTurnInOrder, time_ / (1 + std::popcount(others)));
  std::uint64_t bytes = 0;
  for (std::size_t at = here_; at < pieces_.size(); ++at) bytes += pieces_[at].size();
  const auto longest = set_->ranking.patience(turn, others, bytes, turn.begun);
  return std::clamp<Clock::duration>(longest.value_or(kLongestTurn), OriginElsewhere::kTimeout,
                                     kLongestTurn);
}

std::optional<Status> SourceRequest::conclude(const Turn& turn, Status status,
                                              const OriginElsewhere& seen, std::uint64_t bytes) {
  using Outcome = SourceRanking::Outcome;
  SourceRanking& ranking = set_->ranking;
  const Clock::time_point now = Clock::now();
  if (seen.retryAfter) ranking.leaveAlone(turn.source, now + *seen.retryAfter);
  if (status.ok()) {
    if (ranking.end(turn, Outcome::kGave, bytes, "", now))
      say(turn.source, "is used again", "it answers");
    return status;
  }
  Tries& tries = tries_[turn.source];
  const ErrorCode code = status.code();
  const bool first = turn.source == 0;
  tries.cause = status.error();
  if (code == ErrorCode::kTryElsewhere || code == ErrorCode::kCancelled) {
    ranking.end(turn, Outcome::kUndecided, bytes, "", now);
    // The dataset has other mirrors now; the first source is the same.
    const bool replaced = code == ErrorCode::kCancelled && !first;
    if (!replaced || isOver()) return status;
    tries.out = true;
  } else if (seen.unasked) {
    ranking.end(turn, Outcome::kUndecided, bytes, "", now);
  } else if (first && (code == ErrorCode::kOriginChanged || code == ErrorCode::kNotFound)) {
    ranking.end(turn, Outcome::kUndecided, bytes, "", now);
    firstLacks_ = tries.out = true;
    // The first source's word on its own state is true of the dataset.
    if (code == ErrorCode::kOriginChanged) return status;
  } else {
    noteFailure(turn, status.error(), seen, bytes);
  }
  return std::nullopt;
}

void SourceRequest::noteFailure(const Turn& turn, const Error& error, const OriginElsewhere& seen,
                                std::uint64_t bytes) {
  using Outcome = SourceRanking::Outcome;
  const Clock::time_point now = Clock::now();
  Tries& tries = tries_[turn.source];
  Outcome outcome = seen.straggled ? Outcome::kSlow : Outcome::kFailed;
  if (saysAway(error.code)) {
    if (!retries_)
      retries_.emplace(kUsual.firstBackOff, kUsual.longestBackOff, std::random_device()());
    tries.notBefore = now + retries_->delay(++tries.failures, seen.retryAfter);
    // Not one chunk came in the whole turn. When others fail the source is asked again, and waited
    // for.
    const bool overdue = located_ && error.code == ErrorCode::kDeadlineExceeded;
    if (inOrder_ && overdue && bytes == 0) rounds_->gaveUp(turn.source);
  } else {
    tries.out = true;
    const bool absent =
        error.code == ErrorCode::kOriginChanged || error.code == ErrorCode::kNotFound;
    // A server that may not say which files it has refuses those that it has not. An error in
    // finding its locations, as before credentials have come, may be over soon.
    const bool lacks = turn.source != 0 && (absent || located_);
    outcome = lacks ? Outcome::kLacks : Outcome::kRefused;
    if (lacks && set_->ranking.lacks(turn.source, entry_, now)) {
      say(turn.source, "has not every file as it was listed; these are read elsewhere",
          error.message);
    }
  }
  if (set_->ranking.end(turn, outcome, bytes, error.message, now))
    say(turn.source, "is put aside", error.message);
}

// The code is the first source's, unless that gave wrong bytes. Sources that answer, though with
// wrong bytes, are not away: nobody waits for them.
Error SourceRequest::failure() const {
  const SourceRanking::View view = set_->ranking.look(~SourceMask{0}, entry_, Clock::now());
  Error error{ErrorCode::kUnavailable, "no source gives it"};
  bool anyWrong = false;
  bool anyAway = false;
  const char* between = ": ";
  for (std::size_t source = 0; source < tries_.size(); ++source) {
    std::optional<Error> cause = tries_[source].cause;
    if (!cause && (isIn(view.lied, source) || rounds_->gaveWrong(source))) {
      cause = {ErrorCode::kCorrupt, "it gave wrong bytes lately"};
    } else if (!cause && !isIn(view.having, source)) {
      cause = {ErrorCode::kNotFound, "it has not the file as it was listed"};
    }
    if (!cause) continue;
    const bool wrong = cause->code == ErrorCode::kCorrupt;
    anyWrong = anyWrong || wrong;
    anyAway = anyAway || saysAway(cause->code) || cause->code == ErrorCode::kTryElsewhere;
    if (source == 0 && !wrong) error.code = cause->code;
    error.message += between + nameOf(source) + ": " + cause->message;
    between = "; ";
  }
  if (error.code == ErrorCode::kUnavailable && anyWrong && !anyAway)
    error.code = ErrorCode::kCorrupt;
  return error;
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

std::string SourceRequest::nameOf(std::size_t source) const {
  return source == 0 ? "the first source" : "the mirror " + set_->sources[source].name;
}

void SourceRequest::say(std::size_t source, const std::string& what, const std::string& why) const {
  log(ports_.events, EngineEvent::Level::kWarn,
      "dataset " + file_.dataset->id + ": " + nameOf(source) + " " + what,
      {{"dataset", file_.dataset->id}, {"reason", why}});
}

}  // namespace hearth
