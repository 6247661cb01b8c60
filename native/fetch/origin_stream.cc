#include "fetch/origin_stream.h"

#include <array>

#include "base/crc32c.h"
#include "origin/tag_of_bytes.h"

namespace hearth {
namespace {

bool isProvedByDigest(const ManifestEntry& about) {
  return about.sourceDigest || isGitBlobId(about.validator);
}

}  // namespace

OriginStream::OriginStream(Ports ports, FileReference file, std::size_t lane)
    : ports_(ports),
      file_(std::move(file)),
      lane_(lane),
      set_(file_.dataset->sources.now()),
      sink_(file_.about.size, [this](std::size_t piece) { check(piece); }),
      changed_(ports.reactor),
      pause_(ports.reactor) {}

Task<std::size_t> OriginStream::take(ChunkRun chunks, std::vector<std::span<std::byte>> pieces,
                                     ByteLanes::Filled filled) {
  const std::shared_ptr<OriginStream> self = shared_from_this();
  while (brings(chunks.first) && next_ != chunks.first) {
    if (!begun_) pause_.start(Clock::now() + kLongestPause, [this] { end(); });
    changed_.reset();
    co_await changed_.wait();
  }
  if (!brings(chunks.first) || ports_.gate.closed()) co_return 0;
  const auto part = std::make_shared<Part>(Part{pieces.size(), 0, std::move(filled)});
  parts_.push_back(part);
  next_ = chunks.end();
  pause_.cancel();
  changed_.set();
  ports_.lanes.reactorOf(lane_).post([self, pieces = std::move(pieces)] {
    for (const std::span<std::byte> piece : pieces) self->sink_.add(piece);
  });
  if (!std::exchange(begun_, true)) ports_.gate.spawn(run(self));
  while (part->full < part->count && !over_) {
    changed_.reset();
    co_await changed_.wait();
  }
  co_return part->full;
}

Task<void> OriginStream::run(std::shared_ptr<OriginStream> stream) {
  const Ports& ports = stream->ports_;
  const FileReference& file = stream->file_;
  Task<Result<Location>> finding = stream->set_->sources.front().locations->find(
      ports.reactor, file.about.index, LocationCache::kAnswerTimeout);
  Result<Location> location = co_await finding;
  if (location.ok() && !stream->ending_) {
    std::function<bool()> memoryWanted = [&pool = ports.buffers, owner = file.dataset->id] {
      return pool.shouldYield(owner);
    };
    Task<Status> streaming =
        ports.lanes.stream(stream->lane_, std::move(*location), file.expectation(), stream->sink_,
                           std::move(memoryWanted));
    // Runs that the stream leaves ask the origin, and report its error.
    [[maybe_unused]] const Status ignored = co_await streaming;
  }
  // Behind the pieces that have arrived.
  ports.reactor.post([stream] {
    if (!stream->confirming_) stream->finish();
  });
}

void OriginStream::check(std::size_t piece) {
  std::vector<std::uint32_t> checksums = crc32cOfBlocks(sink_.piece(piece), kBlockBytes);
  ports_.reactor.post([self = shared_from_this(), checksums = std::move(checksums)]() mutable {
    self->arrived(std::move(checksums));
  });
}

bool OriginStream::mustConfirm() const {
  const Part& part = *parts_.front();
  const bool isLast =
      next_ * kChunkBytes >= file_.about.size && parts_.size() == 1 && part.full + 1 == part.count;
  return isLast && !isProvedByDigest(file_.about);
}

bool OriginStream::isUnproved() const {
  return given_ && !proved_ && !isProvedByDigest(file_.about);
}

void OriginStream::arrived(std::vector<std::uint32_t> checksums) {
  if (!mustConfirm()) return give(std::move(checksums));
  pause_.cancel();
  confirming_ = true;
  ports_.gate.spawn(confirm(shared_from_this(), std::move(checksums)));
}

Task<void> OriginStream::confirm(std::shared_ptr<OriginStream> stream,
                                 std::vector<std::uint32_t> checksums) {
  Task<Status> asking = askAgain(stream);
  const Status same = co_await asking;
  // Without the piece its run asks the origin, and reports the error.
  if (same.ok()) {
    stream->proved_ = true;
    stream->give(std::move(checksums));
  }
  stream->finish();
}

Task<Status> OriginStream::askAgain(std::shared_ptr<OriginStream> stream) {
  const FileReference& file = stream->file_;
  Task<Result<Location>> finding = stream->set_->sources.front().locations->find(
      stream->ports_.reactor, file.about.index, LocationCache::kAnswerTimeout);
  Result<Location> location = co_await finding;
  if (!location.ok()) co_return location.error();
  location->elsewhere = std::make_shared<OriginElsewhere>();
  location->elsewhere->left = kProofTime;
  std::array<std::byte, 1> first{};
  OriginRange range{std::move(*location), file.expectation(), 0, {std::span(first)}};
  Task<Status> asking = stream->ports_.lanes.fetch(
      0, std::move(range), [](std::size_t, std::vector<std::uint32_t>) {}, nullptr);
  co_return co_await asking;
}

void OriginStream::give(std::vector<std::uint32_t> checksums) {
  const std::shared_ptr<Part> part = parts_.front();
  given_ = true;
  part->filled(part->full++, std::move(checksums));
  if (part->full == part->count) parts_.pop_front();
  changed_.set();
  if (!parts_.empty()) return;
  if (ending_) {
    stop();
  } else {
    pause_.start(Clock::now() + kLongestPause, [this] { end(); });
  }
}

void OriginStream::end() {
  if (std::exchange(ending_, true)) return;
  pause_.cancel();
  changed_.set();
  if (parts_.empty()) stop();
}

void OriginStream::stop() {
  if (over_ || !begun_) return finish();
  ports_.lanes.reactorOf(lane_).post([self = shared_from_this()] { self->sink_.end(); });
}

void OriginStream::finish() {
  ending_ = over_ = true;
  pause_.cancel();
  parts_.clear();
  changed_.set();
}

}  // namespace hearth
