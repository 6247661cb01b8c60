// The bytes of one key that writes over faulty rails (faulty_rail.h) have put at the other side:
// each block is of the newest write that has landed there. Writes get their places by the order
// that real connections use. On the reactor's thread.
#pragma once

#include "transport/testing/faulty_rail.h"
#include "transport/write_order.h"

namespace hearth::testing_rails {

class Shelf {
 public:
  Shelf(Reactor& reactor, std::size_t size)
      : order_(reactor), bytes_(size), generations_(blocksOf(size)) {}

  [[nodiscard]] Take take() {
    return [this](const RailTransfer& write, std::function<void()> lost) {
      return std::make_unique<Write>(*this, write, std::move(lost));
    };
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  // The generation of the write that landed last in a block; 0: none.
  [[nodiscard]] std::uint64_t generation(std::size_t block) const { return generations_[block]; }
  // Writes that lost their place to a newer one.
  [[nodiscard]] std::size_t losses() const { return losses_; }

 private:
  class Write final : public Taker {
   public:
    Write(Shelf& shelf, const RailTransfer& write, std::function<void()> lost)
        : shelf_(shelf),
          request_{.key = write.key,
                   .offset = write.offset,
                   .length = static_cast<std::uint32_t>(write.memory.size()),
                   .generation = write.generation},
          onLoss_(std::move(lost)) {}

    Task<Outcome> begin() override {
      Task<Result<std::unique_ptr<WriteOrder::Place>>> entering =
          shelf_.order_.enter("writer", request_, Interest(), [this](bool) {
            if (over_) return;
            ++shelf_.losses_;
            over_ = true;
            onLoss_();
          });
      Result<std::unique_ptr<WriteOrder::Place>> entered = co_await entering;
      if (!entered.ok()) co_return Outcome{entered.error(), true};
      place_ = std::move(*entered);
      for (std::uint64_t& each : generations()) {
        if (each > request_.generation) co_return Outcome{WriteOrder::lost(), true};
      }
      co_return Outcome{Status(), true};
    }
    void put(std::uint64_t offset, std::span<const std::byte> bytes) override {
      if (!over_) std::ranges::copy(bytes, memory().subspan(offset).begin());
    }
    Task<Outcome> end(std::vector<std::uint32_t> checksums) override {
      if (over_) co_return Outcome{WriteOrder::lost(), true};
      if (crc32cOfBlocks(memory(), kBlockBytes) != checksums)
        co_return Outcome{Error{ErrorCode::kCorrupt, "checksums differ"}, false};
      for (std::uint64_t& each : generations()) each = request_.generation;
      co_return Outcome{Status(), true};
    }

   private:
    std::span<std::byte> memory() {
      return std::span(shelf_.bytes_).subspan(request_.offset, request_.length);
    }
    std::span<std::uint64_t> generations() {
      return std::span(shelf_.generations_)
          .subspan(request_.offset / kBlockBytes, blocksOf(request_.length));
    }

    Shelf& shelf_;
    const WriteRequest request_;
    const std::function<void()> onLoss_;
    std::unique_ptr<WriteOrder::Place> place_;
    bool over_ = false;  // nothing more is taken
  };

  WriteOrder order_;
  std::vector<std::byte> bytes_;
  std::vector<std::uint64_t> generations_;
  std::size_t losses_ = 0;
};

}  // namespace hearth::testing_rails
