// Finds items of a Slab by hash: open addressing with linear probing (Knuth, The Art of Computer
// Programming, vol. 3, 6.4, algorithms L and R) in one array of 8 bytes a place. It keeps the upper
// half of each hash, so a look-up of what is not there touches hardly an item, and growing touches
// none: a million items move in about ten milliseconds. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace hearth::tree {

class FlatIndex {
 public:
  static constexpr std::uint32_t kNone = 0xffffffff;

  // The item with this hash for which `same(item)` is true, or kNone.
  template <class Same>
  [[nodiscard]] std::uint32_t find(std::uint64_t hash, Same&& same) const {
    if (places_.empty()) return kNone;
    const std::uint32_t mark = markOf(hash);
    for (std::size_t at = home(mark);; at = next(at)) {
      const Place& place = places_[at];
      if (place.item == kNone) return kNone;
      if (place.mark == mark && same(place.item)) return place.item;
    }
  }

  // `item` is not in the index.
  void insert(std::uint64_t hash, std::uint32_t item) {
    if ((size_ + 1) * 4 > places_.size() * 3) grow();
    put({markOf(hash), item});
    ++size_;
  }

  // `item` is in the index, with this hash.
  void erase(std::uint64_t hash, std::uint32_t item) {
    std::size_t hole = home(markOf(hash));
    while (places_[hole].item != item) hole = next(hole);
    // The items that follow move up, unless they would come before their home.
    for (std::size_t at = next(hole); places_[at].item != kNone; at = next(at)) {
      const std::size_t wanted = home(places_[at].mark);
      if (((at - wanted) & mask()) < ((at - hole) & mask())) continue;
      places_[hole] = places_[at];
      hole = at;
    }
    places_[hole].item = kNone;
    --size_;
  }

  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Place {
    std::uint32_t mark = 0;
    std::uint32_t item = kNone;
  };

  static std::uint32_t markOf(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
  [[nodiscard]] std::size_t mask() const { return places_.size() - 1; }
  [[nodiscard]] std::size_t home(std::uint32_t mark) const { return mark & mask(); }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & mask(); }

  void put(Place place) {
    std::size_t at = home(place.mark);
    while (places_[at].item != kNone) at = next(at);
    places_[at] = place;
  }

  void grow() {
    const std::vector<Place> old =
        std::exchange(places_, std::vector<Place>(places_.empty() ? 16 : places_.size() * 2));
    for (const Place& place : old) {
      if (place.item != kNone) put(place);
    }
  }

  std::vector<Place> places_;  // a power of two of them, at most three quarters taken
  std::size_t size_ = 0;
};

}  // namespace hearth::tree
