// The entries of one folder in the order of their cookies, for readdir. A cookie grows with each
// entry that is made, so a new one stands at the end, and a reader that goes on behind a cookie
// misses nothing that was there when it began, whatever comes and goes meanwhile. One thread at a
// time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth::tree {

class FolderOrder {
 public:
  static constexpr std::uint32_t kGone = 0xffffffff;
  struct Place {
    std::uint64_t cookie = 0;
    std::uint32_t entry = kGone;  // its number in the slab of entries
  };

  // Amortised O(1) for the highest cookie so far. The cookie has no entry.
  void insert(std::uint64_t cookie, std::uint32_t entry) {
    const auto at = from(cookie);
    if (at != places_.end() && at->cookie == cookie) {
      at->entry = entry;
      --gone_;
    } else {
      places_.insert(at, {cookie, entry});
    }
  }
  // Amortised O(log n).
  void erase(std::uint64_t cookie) {
    from(cookie)->entry = kGone;
    if (++gone_ * 2 > places_.size() && places_.size() >= 16) compact();
  }
  // The entry with this cookie, or kGone. O(log n).
  [[nodiscard]] std::uint32_t find(std::uint64_t cookie) const {
    const auto at = std::ranges::lower_bound(places_, cookie, {}, &Place::cookie);
    return at != places_.end() && at->cookie == cookie ? at->entry : kGone;
  }
  // Calls visit(place) for each entry with a cookie above `cookie`, in order, until it is false.
  template <class Visit>
  void visitAfter(std::uint64_t cookie, Visit&& visit) const {
    auto at = std::ranges::upper_bound(places_, cookie, {}, &Place::cookie);
    for (; at != places_.end(); ++at) {
      if (at->entry != kGone && !visit(*at)) return;
    }
  }
  [[nodiscard]] std::size_t size() const { return places_.size() - gone_; }

 private:
  [[nodiscard]] std::vector<Place>::iterator from(std::uint64_t cookie) {
    if (places_.empty() || places_.back().cookie < cookie) return places_.end();
    return std::ranges::lower_bound(places_, cookie, {}, &Place::cookie);
  }
  void compact() {
    std::erase_if(places_, [](const Place& place) { return place.entry == kGone; });
    places_.shrink_to_fit();
    gone_ = 0;
  }

  std::vector<Place> places_;
  std::size_t gone_ = 0;
};

}  // namespace hearth::tree
