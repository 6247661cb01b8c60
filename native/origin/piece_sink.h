// Where the bytes of one fetch go: consecutive pieces of memory, each announced once when it is
// full. The fetch has all pieces at its start, or, with a late sink, gets them while its bytes
// come: its transfer pauses while no given piece has room. Reactor's thread.
//
// Transfers write through a Writer each, and several may exist: a straggler, and the hedge for the
// same bytes. Invariant: one writer at a time writes bytes, in order, behind the bytes present. A
// later writer that brings the next missing byte becomes this writer, and revokes the earlier ones
// for good: they may not write one byte more. So no two transfers ever write one piece, whatever
// still runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace hearth {

class PieceSink {
 public:
  class Writer;

  PieceSink(std::vector<std::span<std::byte>> pieces, std::function<void(std::size_t)> filled)
      : pieces_(std::move(pieces)), filled_(std::move(filled)) {
    for (const std::span<std::byte> piece : pieces_) total_ += piece.size();
    announce();
  }
  // A late sink, for `total` bytes.
  PieceSink(std::uint64_t total, std::function<void(std::size_t)> filled)
      : filled_(std::move(filled)), late_(true), total_(total) {}
  PieceSink(const PieceSink&) = delete;
  PieceSink& operator=(const PieceSink&) = delete;

  // Gives a late sink its next piece, which the caller keeps until the fetch has ended. `filled`
  // may be called inside; never call add() from there, nor from inside libcurl's callbacks. After
  // end() nothing is written into it.
  void add(std::span<std::byte> piece) {
    if (ended_) return;
    pieces_.push_back(piece);
    const std::vector<std::byte> spilled = std::exchange(spilled_, {});
    received_ -= spilled.size();
    append(spilled);
    if (const auto resume = full() ? nullptr : std::exchange(resume_, nullptr)) resume();
  }
  // The caller of a late sink wants no more bytes: the fetch ends soon, with kCancelled unless all
  // bytes came. Never from inside libcurl's callbacks.
  void end() {
    ended_ = true;
    if (stop_) stop_();
  }
  [[nodiscard]] std::span<const std::byte> piece(std::size_t index) const { return pieces_[index]; }

  [[nodiscard]] bool late() const { return late_; }
  [[nodiscard]] bool ended() const { return ended_; }
  // More bytes are to come, and no given piece has room for them.
  [[nodiscard]] bool full() const { return piece_ == pieces_.size() && remaining() != 0; }
  // The transfer pauses until `resume` is called, once.
  void awaitRoom(std::function<void()> resume) { resume_ = std::move(resume); }
  // Called by end(); null: no transfer runs.
  void setStop(std::function<void()> stop) {
    stop_ = std::move(stop);
    if (!stop_) resume_ = nullptr;
  }

  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint64_t received() const { return received_; }
  [[nodiscard]] std::uint64_t remaining() const { return total_ - received_; }
  // Bytes until the piece that is being filled is full; 0 when all are.
  [[nodiscard]] std::uint64_t pieceRemaining() const {
    return piece_ < pieces_.size() ? pieces_[piece_].size() - within_ : 0;
  }

 private:
  // At most remaining() bytes. A late sink keeps bytes behind its last piece for the next piece: no
  // piece waits for the memory of another one to be full.
  void append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      if (piece_ == pieces_.size()) {
        spilled_.insert(spilled_.end(), bytes.begin(), bytes.end());
        received_ += bytes.size();
        return;
      }
      const std::span<std::byte> into = pieces_[piece_].subspan(within_);
      const std::size_t count = std::min(into.size(), bytes.size());
      std::memcpy(into.data(), bytes.data(), count);
      bytes = bytes.subspan(count);
      within_ += count;
      received_ += count;
      announce();
    }
  }

  void announce() {
    while (piece_ < pieces_.size() && within_ == pieces_[piece_].size()) {
      within_ = 0;
      filled_(piece_++);
    }
  }

  std::vector<std::span<std::byte>> pieces_;
  const std::function<void(std::size_t)> filled_;
  const bool late_ = false;
  bool ended_ = false;
  std::function<void()> resume_, stop_;
  std::vector<std::byte> spilled_;  // received behind the last piece
  std::uint64_t total_ = 0;
  std::uint64_t received_ = 0;
  std::size_t piece_ = 0;   // the one being filled
  std::size_t within_ = 0;  // bytes of it
  std::uint64_t writersMade_ = 0;
  std::uint64_t writing_ = 0;  // number of the last writer that brought something; never falls
};

// One transfer's way into a sink, which must remain live while this object is used.
class PieceSink::Writer {
 public:
  // Brings the bytes [position, end) of the sink; end is at most total().
  Writer(PieceSink& sink, std::uint64_t position, std::uint64_t end)
      : sink_(sink), number_(++sink.writersMade_), position_(position), end_(end) {}

  // A later writer has brought a byte that this one has not: the sink takes no more of this one.
  [[nodiscard]] bool revoked() const { return number_ < sink_.writing_; }
  // This writer was the last to bring a missing byte.
  [[nodiscard]] bool leads() const { return number_ == sink_.writing_; }
  [[nodiscard]] bool done() const { return position_ == end_; }
  [[nodiscard]] std::uint64_t remaining() const { return end_ - position_; }
  // Its transfer begins so many bytes earlier.
  void rewind(std::uint64_t bytes) { position_ -= bytes; }

  // Takes the writer's next bytes, at most remaining(), and drops bytes that are present already.
  // False, and takes nothing, when the writer is revoked.
  [[nodiscard]] bool write(std::span<const std::byte> bytes) {
    if (revoked()) return false;
    const std::uint64_t here = sink_.received_ > position_ ? sink_.received_ - position_ : 0;
    position_ += bytes.size();
    if (bytes.size() <= here) return true;
    sink_.writing_ = number_;
    sink_.append(bytes.subspan(static_cast<std::size_t>(here)));
    return true;
  }

 private:
  PieceSink& sink_;
  const std::uint64_t number_;
  std::uint64_t position_;
  const std::uint64_t end_;
};

}  // namespace hearth
