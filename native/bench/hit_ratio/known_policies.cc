#include "bench/hit_ratio/known_policies.h"

#include <algorithm>
#include <list>
#include <set>
#include <tuple>
#include <vector>

namespace hearth::hit_ratio {
namespace {

class Lru final : public ReplacementPolicy {
 public:
  explicit Lru(const ModelTrace& trace) : places_(trace.files.size()) {}

  void hit(FileId file) override { order_.splice(order_.end(), order_, places_[file]); }
  void insert(FileId file) override { places_[file] = order_.insert(order_.end(), file); }
  FileId evict() override {
    const FileId file = order_.front();
    order_.pop_front();
    return file;
  }

 private:
  std::list<FileId> order_;  // least recently used first
  std::vector<std::list<FileId>::iterator> places_;
};

// LFU and GDSF: what is worth least goes, of equal ones the least recently used.
class ByValue : public ReplacementPolicy {
 public:
  explicit ByValue(const ModelTrace& trace) : trace_(trace), cached_(trace.files.size()) {}

  void hit(FileId file) override {
    order_.erase({cached_[file].value, cached_[file].turn, file});
    place(file, cached_[file].count + 1);
  }
  void insert(FileId file) override { place(file, 1); }
  FileId evict() override {
    const FileId file = std::get<2>(*order_.begin());
    leaves(cached_[file].value);
    order_.erase(order_.begin());
    return file;
  }

 protected:
  [[nodiscard]] std::uint64_t bytesOf(FileId file) const { return trace_.files[file].bytes; }

 private:
  [[nodiscard]] virtual double value(FileId file, std::uint64_t count) const = 0;
  virtual void leaves(double /*value*/) {}

  void place(FileId file, std::uint64_t count) {
    cached_[file] = {count, ++turn_, value(file, count)};
    order_.insert({cached_[file].value, turn_, file});
  }

  struct Cached {
    std::uint64_t count, turn;
    double value;
  };
  const ModelTrace& trace_;
  std::uint64_t turn_ = 0;
  std::vector<Cached> cached_;
  std::set<std::tuple<double, std::uint64_t, FileId>> order_;
};

class Lfu final : public ByValue {
 public:
  using ByValue::ByValue;

 private:
  [[nodiscard]] double value(FileId /*file*/, std::uint64_t count) const override {
    return static_cast<double>(count);
  }
};

class Gdsf final : public ByValue {
 public:
  Gdsf(const ModelTrace& trace, GdsfCost cost) : ByValue(trace), cost_(cost) {}

 private:
  [[nodiscard]] double value(FileId file, std::uint64_t count) const override {
    const double size = cost_ == GdsfCost::kBytes ? 1 : static_cast<double>(bytesOf(file));
    return clock_ + static_cast<double>(count) / size;
  }
  void leaves(double value) override { clock_ = value; }

  const GdsfCost cost_;
  double clock_ = 0;
};

class Sieve final : public ReplacementPolicy {
 public:
  explicit Sieve(const ModelTrace& trace) : visited_(trace.files.size()) {}

  void hit(FileId file) override { visited_[file] = true; }
  void insert(FileId file) override {
    visited_[file] = false;
    queue_.push_back(file);
  }
  FileId evict() override {
    for (;; ++hand_) {
      if (hand_ == queue_.end()) hand_ = queue_.begin();
      if (!visited_[*hand_]) break;
      visited_[*hand_] = false;
    }
    const FileId file = *hand_;
    hand_ = queue_.erase(hand_);
    return file;
  }

 private:
  std::list<FileId> queue_;  // oldest first
  std::list<FileId>::iterator hand_ = queue_.end();
  std::vector<bool> visited_;
};

class S3Fifo final : public ReplacementPolicy {
 public:
  S3Fifo(const ModelTrace& trace, std::uint64_t capacityBytes)
      : trace_(trace), capacity_(capacityBytes), states_(trace.files.size()) {}

  void hit(FileId file) override {
    states_[file].count = std::min<std::uint8_t>(states_[file].count + 1, 3);
  }
  void insert(FileId file) override {
    State& state = states_[file];
    add(state.ghost != 0 ? main_ : small_, file);
    state = {};
  }
  FileId evict() override {
    for (;;) {
      const bool fromSmall =
          !small_.files.empty() && (small_.bytes >= capacity_ / 10 || main_.files.empty());
      Queue& queue = fromSmall ? small_ : main_;
      const FileId file = take(queue);
      State& state = states_[file];
      if (fromSmall && state.count > 1) {
        state.count = 0;
        add(main_, file);
      } else if (!fromSmall && state.count > 0) {
        --state.count;
        add(main_, file);
      } else {
        if (fromSmall) remember(file);
        return file;
      }
    }
  }

 private:
  struct State {
    std::uint8_t count = 0;
    std::uint64_t ghost = 0;  // its turn in the ghost queue; 0: not there
  };
  struct Queue {
    std::list<FileId> files;  // oldest first
    std::uint64_t bytes = 0;
  };

  void add(Queue& queue, FileId file) {
    queue.files.push_back(file);
    queue.bytes += trace_.files[file].bytes;
  }
  FileId take(Queue& queue) {
    const FileId file = queue.files.front();
    queue.files.pop_front();
    queue.bytes -= trace_.files[file].bytes;
    return file;
  }
  void remember(FileId file) {
    states_[file].ghost = ++turn_;
    ghosts_.push_back({file, turn_});
    ghostBytes_ += trace_.files[file].bytes;
    // One that came back meanwhile keeps its room here: with that the hit ratio is higher.
    while (ghostBytes_ > capacity_ / 10 * 9) {
      const auto [oldest, turn] = ghosts_.front();
      ghosts_.pop_front();
      ghostBytes_ -= trace_.files[oldest].bytes;
      if (states_[oldest].ghost == turn) states_[oldest].ghost = 0;
    }
  }

  struct Ghost {
    FileId file;
    std::uint64_t turn;
  };
  const ModelTrace& trace_;
  const std::uint64_t capacity_;
  std::vector<State> states_;
  Queue small_, main_;
  std::list<Ghost> ghosts_;
  std::uint64_t ghostBytes_ = 0;
  std::uint64_t turn_ = 0;
};

}  // namespace

std::unique_ptr<ReplacementPolicy> makeLru(const ModelTrace& trace) {
  return std::make_unique<Lru>(trace);
}

std::unique_ptr<ReplacementPolicy> makeLfu(const ModelTrace& trace) {
  return std::make_unique<Lfu>(trace);
}

std::unique_ptr<ReplacementPolicy> makeSieve(const ModelTrace& trace) {
  return std::make_unique<Sieve>(trace);
}

std::unique_ptr<ReplacementPolicy> makeS3Fifo(const ModelTrace& trace,
                                              std::uint64_t capacityBytes) {
  return std::make_unique<S3Fifo>(trace, capacityBytes);
}

std::unique_ptr<ReplacementPolicy> makeGdsf(const ModelTrace& trace, GdsfCost cost) {
  return std::make_unique<Gdsf>(trace, cost);
}

}  // namespace hearth::hit_ratio
