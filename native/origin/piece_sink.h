// Where the bytes of one fetch go: consecutive pieces of memory, each announced once when it is
// full. Reactor's thread.
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
  PieceSink(std::vector<std::span<std::byte>> pieces, std::function<void(std::size_t)> filled)
      : pieces_(std::move(pieces)), filled_(std::move(filled)) {
    for (const std::span<std::byte> piece : pieces_) total_ += piece.size();
    announce();
  }

  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint64_t received() const { return received_; }
  [[nodiscard]] std::uint64_t remaining() const { return total_ - received_; }

  // At most remaining() bytes.
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::span<std::byte> into = pieces_[piece_].subspan(within_);
      const std::size_t count = std::min(into.size(), bytes.size());
      std::memcpy(into.data(), bytes.data(), count);
      bytes = bytes.subspan(count);
      within_ += count;
      received_ += count;
      announce();
    }
  }

 private:
  void announce() {
    while (piece_ < pieces_.size() && within_ == pieces_[piece_].size()) {
      within_ = 0;
      filled_(piece_++);
    }
  }

  const std::vector<std::span<std::byte>> pieces_;
  const std::function<void(std::size_t)> filled_;
  std::uint64_t total_ = 0;
  std::uint64_t received_ = 0;
  std::size_t piece_ = 0;   // the one being filled
  std::size_t within_ = 0;  // bytes of it
};

}  // namespace hearth
