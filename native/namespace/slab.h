// Items with small numbers, which stay where they are in memory as long as they live. A number is
// used again after erase(). One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace hearth::tree {

template <class Item>
class Slab {
 public:
  [[nodiscard]] std::uint32_t add(Item item) {
    std::uint32_t number = end_;
    if (!free_.empty()) {
      number = free_.back();
      free_.pop_back();
    } else {
      if (end_ % kPartItems == 0) parts_.push_back(std::make_unique<Item[]>(kPartItems));
      ++end_;
    }
    (*this)[number] = std::move(item);
    return number;
  }
  void erase(std::uint32_t number) {
    (*this)[number] = Item{};
    free_.push_back(number);
  }
  [[nodiscard]] Item& operator[](std::uint32_t number) {
    return parts_[number / kPartItems][number % kPartItems];
  }
  [[nodiscard]] const Item& operator[](std::uint32_t number) const {
    return parts_[number / kPartItems][number % kPartItems];
  }
  // All numbers are below, those that were erased included.
  [[nodiscard]] std::uint32_t end() const { return end_; }

 private:
  static constexpr std::uint32_t kPartItems = 256;
  std::vector<std::unique_ptr<Item[]>> parts_;
  std::vector<std::uint32_t> free_;
  std::uint32_t end_ = 0;
};

}  // namespace hearth::tree
