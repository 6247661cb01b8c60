#include "fetch/direct_read.h"

#include <algorithm>

#include "cache/verified_read.h"
#include "fetch/arrived_read.h"

namespace hearth {
namespace {

// Parts of one read in flight: enough for a link whose answers take a millisecond, little of a
// peer's credit.
constexpr int kPartsAtOnce = 8;
// Agents that a part tries before it is fetched like any other chunk.
constexpr int kHolders = 2;
// How long a failed read may go on writing into its memory until the memory is given up.
constexpr auto kReleaseTimeout = std::chrono::seconds(1);

// The agent or the way there failed, and not only this chunk: the next part would wait as long.
bool failedAltogether(const Status& read) {
  return read.code() == ErrorCode::kUnavailable || read.code() == ErrorCode::kDeadlineExceeded;
}

// Memory for one attempt at a read, which tells when nothing writes into it any more. Peers serve
// from the start of a block, so the `before` bytes in front of the range go aside.
struct Attempt {
  Attempt(Reactor& reactor, const MemoryVector& into, std::uint64_t before)
      : released(std::make_shared<Event>(reactor)) {
    struct Kept {
      MemoryVector into;
      std::vector<std::byte> aside;
    };
    // Runs on the thread of the last owner.
    auto release = [&reactor, event = released](Kept* each) {
      delete each;
      if (reactor.onThisThread()) return event->set();
      reactor.post([event] { event->set(); });
    };
    std::shared_ptr<Kept> kept(new Kept{into, std::vector<std::byte>(before)}, std::move(release));
    std::vector<MemorySlice> slices(into.slices().begin(), into.slices().end());
    if (before != 0) slices.insert(slices.begin(), MemorySlice::of(kept->aside));
    for (MemorySlice& slice : slices) slice.owner = kept;
    memory = MemoryVector(std::move(slices));
  }

  MemoryVector memory;
  std::shared_ptr<Event> released;
};

}  // namespace

Task<Status> Fetcher::readInto(std::shared_ptr<FileFetch> fetch, std::uint64_t offset,
                               MemoryVector into) {
  const std::uint64_t size = fetch->cache->size();
  if (offset > size || into.size() > size - offset) {
    co_return Error{ErrorCode::kInvalidArgument,
                    fetch->reference.path() + " ends before the range that is to be read"};
  }
  if (!into.isSound())
    co_return Error{ErrorCode::kInvalidArgument, "memory is given that lies outside its region"};
  if (!into.isHost())
    co_return Error{ErrorCode::kUnsupported, "the engine reads into memory of processors only"};
  if (ports_.refusals.refuses(fetch->key()))
    co_return DigestRefusals::error().within(fetch->reference.path());
  DirectRead read(*this, std::move(fetch), offset, std::move(into));
  co_return co_await read.run();
}

Fetcher::DirectRead::DirectRead(Fetcher& fetcher, std::shared_ptr<FileFetch> fetch,
                                std::uint64_t offset, MemoryVector into)
    : fetcher_(fetcher),
      ports_(fetcher.ports_),
      fetch_(std::move(fetch)),
      offset_(offset),
      into_(std::move(into)) {}

Task<Status> Fetcher::DirectRead::run() {
  Gate parts(ports_.reactor);
  for (int i = 0; i < kPartsAtOnce; ++i) parts.spawn(readParts());
  co_await parts.close();
  co_return status_;
}

Task<void> Fetcher::DirectRead::readParts() {
  while (status_.ok() && !ports_.gate.closed()) {
    std::optional<Part> part = nextPart();
    if (!part) co_return;
    const Status read = co_await readPart(std::move(*part));
    if (status_.ok()) status_ = read;
  }
  if (status_.ok() && taken_ < into_.size()) status_ = shuttingDown();
}

std::optional<Fetcher::DirectRead::Part> Fetcher::DirectRead::nextPart() {
  if (taken_ == into_.size()) return std::nullopt;
  const std::uint64_t at = offset_ + taken_;
  const std::uint64_t size = std::min(into_.size() - taken_, kChunkBytes - at % kChunkBytes);
  Part part{static_cast<std::uint32_t>(at / kChunkBytes), at, rest_.part(size)};
  taken_ += size;
  return part;
}

Task<Status> Fetcher::DirectRead::readPart(Part part) {
  std::shared_ptr<LoadedChunk> loaded = fetch_->loaded.find(part.chunk);
  if (loaded != nullptr || fetch_->cache->resident(part.chunk)) {
    const Status read = co_await fromHere(part, std::move(loaded));
    if (read.ok()) co_return read;  // a bad chunk is not resident any more, and comes again
  }
  // Waits for a chunk that is on its way here, as it will be kept.
  if (!fetch_->flights.contains(part.chunk) && !fetch_->shared->rounds->inOrder()) {
    const std::optional<Status> read = co_await fromHolder(part);
    if (read) co_return *read;
  }
  const auto read = [this, &part](std::shared_ptr<LoadedChunk> landed) {
    return fromHere(part, std::move(landed));
  };
  co_return co_await readArrived(fetcher_, fetch_, part.chunk, read);
}

Task<Status> Fetcher::DirectRead::fromHere(const Part& part, std::shared_ptr<LoadedChunk> loaded) {
  if (loaded != nullptr) {
    copyInto(part.into, 0, loaded->bytes.subspan(part.offset % kChunkBytes, part.into.size()));
    co_return Status();
  }
  BandwidthLimiter& disk = ports_.limits.disk;
  if (disk.limits(Priority::kDemand)) {
    co_await disk.pass(ports_.reactor, part.into.size(), Priority::kDemand);
  }
  co_await fetcher_.directReadSlots_.copies.acquire(1);
  const Result<std::span<const std::byte>> bytes =
      co_await readVerified(fetch_->cache, part.offset, part.into.size());
  if (bytes.ok()) {
    auto copy = [into = part.into, from = *bytes] { return copyInto(into, 0, from), 0; };
    co_await ports_.reactor.offload(copy);
  }
  fetcher_.directReadSlots_.copies.release(1);
  co_return bytes.ok() ? Status() : Status(bytes.error());
}

Task<LocateAnswer> Fetcher::DirectRead::locate(std::uint32_t stripe, ChunkMask chunks,
                                               FailureReport failure) {
  const ManifestEntry& about = fetch_->reference.about;
  return ports_.directory.locate(about.key, about.size, stripe, chunks, Intent::kReadThrough,
                                 std::move(failure));
}

Task<std::shared_ptr<const Fetcher::DirectRead::StripeHolders>> Fetcher::DirectRead::holdersAround(
    const Part& part) {
  const std::uint32_t stripe = part.chunk / kChunksPerStripe;
  if (holders_ != nullptr && holders_->stripe == stripe) {
    const std::shared_ptr<StripeHolders> others = holders_;
    co_await others->known.wait();
    co_return others;
  }
  const auto asked = std::make_shared<StripeHolders>(ports_.reactor, stripe);
  holders_ = asked;
  ChunkMask chunks = 0;
  const std::uint64_t end = offset_ + into_.size();
  for (std::uint32_t chunk = part.chunk;
       chunk / kChunksPerStripe == stripe && chunk * kChunkBytes < end; ++chunk) {
    // A resident chunk is read from no agent, so the directory must not count one as giving it.
    if (chunk == part.chunk || !fetch_->cache->resident(chunk)) chunks |= bitOf(chunk);
  }
  // A look-up reports one agent; others that failed are reported by each part.
  FailureReport failure;
  if (!failed_.empty()) failure = {.node = *failed_.begin(), .held = true};
  asked->answer = co_await locate(stripe, chunks, std::move(failure));
  asked->known.set();
  co_return asked;
}

Task<LocateAnswer> Fetcher::DirectRead::locateHolders(const Part& part) {
  const std::shared_ptr<const StripeHolders> found = co_await holdersAround(part);
  const LocateAnswer& answer = found->answer;
  const std::string& node = answer.holderOf(part.chunk);
  const bool others = (answer.elsewhere & bitOf(part.chunk)) != 0;
  if (!node.empty()) {
    fetcher_.knownHolders_.note(fetch_->key(), part.chunk, {node, others}, part.into.size(),
                                Clock::now());
  }
  co_return answer;
}

Task<std::optional<Status>> Fetcher::DirectRead::fromHolder(const Part& part) {
  KnownHolders& knownHolders = fetcher_.knownHolders_;
  const std::optional<KnownHolders::Holder> known =
      knownHolders.take(fetch_->key(), part.chunk, part.into.size(), Clock::now());
  LocateAnswer answer;
  if (known) {
    answer.holders = {{.node = known->node, .chunks = bitOf(part.chunk)}};
    if (known->others) answer.elsewhere = bitOf(part.chunk);
  } else {
    answer = co_await locateHolders(part);
  }
  // A remembered holder that has lost the chunk costs the part none of its attempts.
  for (int named = known ? 0 : 1;; ++named) {
    const std::string node = answer.holderOf(part.chunk);
    if (node.empty()) co_return std::nullopt;
    const bool others = (answer.elsewhere & bitOf(part.chunk)) != 0;
    const Status read = co_await fromAgent(part, node, others);
    if (read.ok() || held_) co_return read;
    knownHolders.forget(fetch_->key(), part.chunk);
    if (named == kHolders) co_return std::nullopt;
    Task<LocateAnswer> locating =
        locate(part.chunk / kChunksPerStripe, bitOf(part.chunk), failureReportOf(node, true, read));
    answer = co_await locating;
  }
}

Task<Status> Fetcher::DirectRead::fromAgent(const Part& part, const std::string& node,
                                            bool others) {
  Status read = Error{ErrorCode::kTryElsewhere, "it has failed this read before"};
  if (failed_.contains(node)) co_return read;
  BandwidthLimiter& limiter = ports_.limits.fromPeers;
  if (limiter.limits(Priority::kDemand)) {
    co_await limiter.pass(ports_.reactor, part.into.size(), Priority::kDemand);
  }
  DirectReadSlots& slots = fetcher_.directReadSlots_;
  const std::uint64_t bytes = DirectReadSlots::bytesOf(part.into.size());
  const std::uint64_t late = slots.late(node);
  co_await slots.acquire(node, bytes);
  // The agent may have failed while this part waited. If another read was late, this one has waited
  // as long; of many, one behind the other, the last would wait for minutes.
  if (slots.late(node) != late) {
    read = Error{ErrorCode::kDeadlineExceeded, "it has not answered other reads in time"};
  } else if (!failed_.contains(node)) {
    read = co_await readFrom(node, part, others);
    if (read.code() == ErrorCode::kDeadlineExceeded) slots.noteLate(node);
  }
  // Asks the directory again for the rest of the stripe, which then comes from others.
  if (failedAltogether(read) && failed_.insert(node).second) holders_.reset();
  slots.release(node, bytes);
  co_return read;
}

Task<Status> Fetcher::DirectRead::readFrom(const std::string& node, const Part& part, bool others) {
  const std::uint64_t before = part.offset % kBlockBytes;
  std::vector<std::uint32_t> checksums;
  PeerStandings& standings = fetcher_.peerStandings_;
  const Clock::time_point began = Clock::now();
  if (others && standings.leavesOut(node, began))
    co_return Error{ErrorCode::kUnavailable, node + " has given no chunk lately; others have it"};
  const RequestTimeouts timeouts(
      began + (others ? standings.patience() : Clock::duration(kPeerTimeout)),
      others ? Clock::duration(kSilenceWithOthers) : kSilenceAlone);
  Attempt attempt(ports_.reactor, part.into, before);
  Status read;
  {
    // The end of its frame releases memory that it has not passed on to a rail.
    Task<Status> reading = ports_.lanes.read(part.chunk,
                                             {.node = node,
                                              .key = fetch_->key(),
                                              .offset = part.offset - before,
                                              .into = std::move(attempt.memory),
                                              .timeouts = timeouts},
                                             checksums);
    read = co_await reading;
  }
  if (read.ok()) {
    standings.gave(node, Clock::now() - began, Clock::now());
    ports_.counters.peerBytes.fetch_add(part.into.size(), std::memory_order_relaxed);
    co_return read;
  }
  if (others && read.code() == ErrorCode::kDeadlineExceeded) standings.late(node, Clock::now());
  // Late bytes of this attempt would overwrite those of the next agent.
  attempt.memory = {};
  co_await attempt.released->waitUntil(Clock::now() + kReleaseTimeout);
  held_ = held_ || !attempt.released->isSet();
  co_return read;
}

}  // namespace hearth
