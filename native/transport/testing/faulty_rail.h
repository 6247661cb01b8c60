// A rail of this process whose faults come from a seed. Reads give a known pattern, or the other
// side's bytes; the other side also takes writes. A draw decides how each request fares. For tests
// of code that uses rails.
#pragma once

#include <algorithm>
#include <cstring>
#include <list>
#include <memory>
#include <random>
#include <vector>

#include "base/crc32c.h"
#include "memory/testing/table_device.h"
#include "transport/rail.h"
#include "transport/testing/pattern.h"

namespace hearth::testing_rails {

using testing_memory::TableDevice;

// Percent of the requests that meet with each; the others are answered.
struct Faults {
  unsigned refused = 0;     // by the other side: it does not have it
  unsigned failed = 0;      // after a part of the bytes
  unsigned corrupt = 0;     // other bytes than their checksums say
  unsigned dropped = 0;     // no answer, and no word
  unsigned stalled = 0;     // a part, and then nothing; cancelled, it writes on for a while
  unsigned ended = 0;       // the rail ends, with all that is on it
  unsigned latestTurn = 8;  // answers come within so many turns of the loop, in any order
  Clock::duration late{};   // after which a stalled one writes on
  unsigned paused = 0;      // of the looks at a rail on which something waits in vain
};

// The other side's answer to a read.
struct Delivery {
  Outcome outcome;
  std::span<const std::byte> bytes;
  std::vector<std::uint32_t> checksums;
  std::shared_ptr<const void> keep = nullptr;  // owns the bytes; null: they outlive the rail
};
// Ends soon after the read's deadline at the latest.
using Give = std::function<Task<Delivery>(const RailTransfer& read)>;

inline Task<Delivery> givePattern(const RailTransfer& read) {
  const std::size_t size = read.memory.size();
  co_return Delivery{.outcome = {Status(), true},
                     .bytes = bytesOf(read.key, read.offset, size),
                     .checksums = checksumsOf(read.key, read.offset, size)};
}

// A write as the other side sees it. Destroyed when nothing of it can come any more.
class Taker {
 public:
  virtual ~Taker() = default;
  // Called before a byte is sent: ok when the other side is ready.
  [[nodiscard]] virtual Task<Outcome> begin() = 0;
  virtual void put(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Called when all bytes have been put.
  [[nodiscard]] virtual Task<Outcome> end(std::vector<std::uint32_t> checksums) = 0;
};
// `lost`: the other side wants nothing more of it. The transfer outlives the taker's begin().
using Take =
    std::function<std::unique_ptr<Taker>(const RailTransfer& write, std::function<void()> lost)>;

// When a request ends if no byte comes from now on.
inline Clock::time_point endOf(const RequestTimeouts& timeouts) {
  const Clock::time_point now = Clock::now();
  const bool silent = timeouts.silence < timeouts.deadline - now;
  return silent ? now + timeouts.silence : timeouts.deadline;
}

class FaultyRail final : public Rail, public std::enable_shared_from_this<FaultyRail> {
 public:
  struct Counts {
    std::size_t posted = 0, faulty = 0, lateWrites = 0;
  };

  // `device`: by which it reaches memory.
  FaultyRail(Reactor& reactor, Gate& gate, std::shared_ptr<TableDevice> device, Faults faults,
             std::uint64_t seed, Give give, Take take)
      : reactor_(reactor),
        gate_(gate),
        device_(std::move(device)),
        faults_(faults),
        give_(std::move(give)),
        take_(std::move(take)),
        random_(seed) {}

  void post(std::vector<std::unique_ptr<RailWork>> batch) override {
    for (std::unique_ptr<RailWork>& work : batch) {
      ++counts_.posted;
      load_ += work->transfer().memory.size();
      if (ended_) {
        endOne(*work);
      } else {
        gate_.spawn(carry(shared_from_this(), std::move(work)));
      }
    }
  }
  [[nodiscard]] bool usable() const override { return !ended_; }
  [[nodiscard]] bool paused() override {
    return !waiting_.empty() && random_() % 100 < faults_.paused;
  }
  void setFaults(Faults faults) { faults_ = faults; }
  [[nodiscard]] std::uint64_t load() const override { return load_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  // Ends the rail: everything on it fails.
  void end() {
    ended_ = true;
    for (Event* const waiting : std::exchange(waiting_, {})) waiting->set();
  }

 private:
  enum class Fate { kAnswered, kRefused, kFailed, kCorrupt, kDropped, kStalled, kEnded };

  [[nodiscard]] Fate draw() {
    unsigned at = static_cast<unsigned>(random_() % 100);
    const auto falls = [&at](unsigned percent) {
      const bool in = at < percent;
      at -= in ? 0 : percent;
      return in;
    };
    if (falls(faults_.refused)) return Fate::kRefused;
    if (falls(faults_.failed)) return Fate::kFailed;
    if (falls(faults_.corrupt)) return Fate::kCorrupt;
    if (falls(faults_.dropped)) return Fate::kDropped;
    if (falls(faults_.stalled)) return Fate::kStalled;
    if (falls(faults_.ended)) return Fate::kEnded;
    return Fate::kAnswered;
  }

  void endOne(RailWork& work) {
    load_ -= work.transfer().memory.size();
    work.settle({Error{ErrorCode::kUnavailable, "the rail has ended"}, false});
  }

  [[nodiscard]] Task<void> someTurns() {
    for (std::uint64_t turns = random_() % (faults_.latestTurn + 1); turns > 0; --turns)
      co_await reactor_.sleep(Clock::duration::zero());
  }

  // Waits until the request is cancelled, the rail ends, or the request's timeouts are over.
  [[nodiscard]] Task<void> waitInVain(RailWork& work, Event& woken) {
    waiting_.push_back(&woken);
    work.onCancel([&woken] { woken.set(); });
    co_await woken.waitUntil(endOf(work.transfer().timeouts));
    work.onCancel({});
    waiting_.remove(&woken);
  }

  // Writes in two halves, between which the loop turns.
  [[nodiscard]] Task<void> write(RailWork& work, std::span<const std::byte> bytes) {
    const std::size_t half = bytes.size() / 2;
    copyInto(work.transfer().memory, 0, bytes.first(half));
    co_await someTurns();
    copyInto(work.transfer().memory, half, bytes.subspan(half));
  }

  // Makes the device know all of the memory.
  [[nodiscard]] Status enroll(const MemoryVector& memory) const {
    for (const MemorySlice& slice : memory.slices()) {
      const auto known = slice.region->registrationWith(device_);
      if (!known.ok()) return known.error();
      if (!device_->knows(slice))
        return Error{ErrorCode::kInternal, "the device does not know memory that it enrolled"};
    }
    return {};
  }

  static Task<void> carry(std::shared_ptr<FaultyRail> self, std::unique_ptr<RailWork> work) {
    co_await self->someTurns();
    if (const Status enrolled = self->enroll(work->transfer().memory); !enrolled.ok()) {
      self->load_ -= work->transfer().memory.size();
      work->settle({enrolled, false});
      co_return;
    }
    const Fate fate = self->draw();
    if (fate != Fate::kAnswered) ++self->counts_.faulty;
    const bool writes = work->transfer().direction == Direction::kWrite;
    co_await (writes ? self->fareWriting(*work, fate) : self->fare(*work, fate));
    self->load_ -= work->transfer().memory.size();
  }

  [[nodiscard]] Task<void> fare(RailWork& work, Fate fate) {
    const MemoryVector& into = work.transfer().memory;
    const bool whole = fate == Fate::kAnswered || fate == Fate::kCorrupt;
    Delivery delivery;
    if (fate == Fate::kEnded) end();
    if (fate != Fate::kRefused && fate != Fate::kDropped && !ended_) {
      delivery = co_await give_(work.transfer());
      if (!delivery.outcome.status.ok()) {
        work.settle(delivery.outcome);
        co_return;
      }
      Task<void> writing =
          write(work, whole ? delivery.bytes : delivery.bytes.first(into.size() / 3));
      co_await writing;
    }
    if (ended_) {
      work.settle({Error{ErrorCode::kUnavailable, "the rail has ended"}, false});
      co_return;
    }
    switch (fate) {
      case Fate::kAnswered:
        std::ranges::copy(delivery.checksums, work.checksums().begin());
        work.settle({Status(), true});
        co_return;
      case Fate::kRefused:
        work.settle({Error{ErrorCode::kTryElsewhere, "not here"}, true});
        co_return;
      case Fate::kFailed:
        work.settle({Error{ErrorCode::kUnavailable, "broke off"}, false});
        co_return;
      case Fate::kCorrupt:
        into.bytesAt(random_() % into.size(), 1).front() ^= std::byte{1};
        work.settle({Error{ErrorCode::kCorrupt, "checksums differ"}, false});
        co_return;
      case Fate::kDropped:
      case Fate::kStalled:
      case Fate::kEnded: {
        Event woken(reactor_);
        co_await waitInVain(work, woken);
        work.settle(!ended_ ? Outcome{Error{ErrorCode::kDeadlineExceeded, "too late"}, false}
                            : Outcome{Error{ErrorCode::kUnavailable, "the rail has ended"}, false});
        if (fate != Fate::kStalled) co_return;
        // Late bytes still come, and are wrong: nobody may look at them any more.
        if (faults_.late != Clock::duration::zero()) co_await reactor_.sleep(faults_.late);
        co_await someTurns();
        ++counts_.lateWrites;
        copyInto(into, 0, std::vector<std::byte>(into.size(), std::byte{0xee}));
      }
    }
  }

  // Sends half of the bytes, and the rest when the loop has turned.
  [[nodiscard]] Task<void> send(Taker& taker, std::span<const std::byte> bytes) {
    const std::size_t half = bytes.size() / 2;
    taker.put(0, bytes.first(half));
    co_await someTurns();
    taker.put(half, bytes.subspan(half));
  }

  [[nodiscard]] Task<void> fareWriting(RailWork& work, Fate fate) {
    const RailTransfer& transfer = work.transfer();
    // Bytes on their way are in the rail's memory, as in a kernel's.
    std::vector<std::byte> bytes;
    forEachPiece(transfer.memory, 0, transfer.memory.size(),
                 [&bytes](auto piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
    const std::vector<std::uint32_t> checksums = crc32cOfBlocks(bytes, kBlockBytes);
    if (fate == Fate::kCorrupt) bytes[random_() % bytes.size()] ^= std::byte{1};
    if (fate == Fate::kEnded) end();
    Event woken(reactor_);
    bool lost = false;
    std::unique_ptr<Taker> taker = take_(transfer, [&] {
      lost = true;
      woken.set();
    });
    const bool whole = fate == Fate::kAnswered || fate == Fate::kCorrupt;
    if (fate != Fate::kRefused && fate != Fate::kDropped && !ended_) {
      const Outcome begun = co_await taker->begin();
      if (!begun.status.ok()) co_return work.settle(begun);
      co_await send(*taker, whole ? bytes : std::span(bytes).first(bytes.size() / 3));
    }
    Outcome outcome{Error{ErrorCode::kUnavailable, "the rail has ended"}, false};
    if (ended_) co_return work.settle(outcome);
    if (whole) {
      outcome = co_await taker->end(checksums);
      std::ranges::copy(checksums, work.checksums().begin());
    } else if (fate == Fate::kRefused) {
      outcome = {Error{ErrorCode::kTryElsewhere, "not here"}, true};
    } else if (fate == Fate::kFailed) {
      outcome = {Error{ErrorCode::kUnavailable, "broke off"}, false};
    } else {
      co_await waitInVain(work, woken);
      if (lost) outcome = {Error{ErrorCode::kConflict, "there is a newer write"}, true};
      if (!lost && !ended_) outcome = {Error{ErrorCode::kDeadlineExceeded, "too late"}, false};
    }
    work.settle(outcome);
    if (fate != Fate::kStalled) co_return;
    // Late bytes still come, perhaps after a newer write.
    if (faults_.late != Clock::duration::zero()) co_await reactor_.sleep(faults_.late);
    co_await someTurns();
    ++counts_.lateWrites;
    taker->put(0, bytes);
    co_await taker->end(checksums);
  }

  Reactor& reactor_;
  Gate& gate_;
  const std::shared_ptr<TableDevice> device_;
  Faults faults_;
  const Give give_;
  const Take take_;
  std::mt19937_64 random_;
  std::list<Event*> waiting_;
  std::uint64_t load_ = 0;
  bool ended_ = false;
  Counts counts_;
};

// Rails of one peer, each with a device of its own. Ended rails are replaced at the next look.
class FaultyRails final : public RailSource {
 public:
  FaultyRails(Reactor& reactor, std::size_t rails, Faults faults, std::uint64_t seed,
              Give give = givePattern, std::string name = "faulty", Take take = {})
      : gate_(reactor),
        reactor_(reactor),
        faults_(faults),
        give_(std::move(give)),
        take_(std::move(take)),
        random_(seed),
        rails_(rails),
        name_(std::move(name)) {
    for (std::size_t i = 0; i < rails; ++i)
      devices_.push_back(std::make_shared<TableDevice>("device" + std::to_string(i)));
  }

  [[nodiscard]] const std::string& peer() const override { return name_; }
  [[nodiscard]] Task<Result<std::shared_ptr<Rail>>> rail(std::shared_ptr<Rail> avoid,
                                                         RequestTimeouts timeouts) override {
    for (;;) {
      if (left_) co_return Error{ErrorCode::kUnavailable, name_ + " is left"};
      std::shared_ptr<Rail> best;
      for (const std::shared_ptr<Rail>& each : usableRails(0)) {
        const auto rank = [&](const std::shared_ptr<Rail>& rail) {
          return std::pair(rail == avoid, rail->load());
        };
        if (!best || rank(each) < rank(best)) best = each;
      }
      if (best) co_return best;
      if (Clock::now() >= timeouts.deadline)
        co_return Error{ErrorCode::kDeadlineExceeded, "no rail in time"};
      co_await reactor_.sleep(Clock::duration::zero());
    }
  }
  [[nodiscard]] std::vector<std::shared_ptr<Rail>> usableRails(std::size_t) override {
    std::vector<std::shared_ptr<Rail>> usable;
    for (std::size_t i = 0; i < rails_.size() && !left_; ++i) {
      std::shared_ptr<FaultyRail>& rail = rails_[i];
      if (rail && !rail->usable()) gone_.push_back(std::exchange(rail, nullptr));
      if (!rail) {
        rail = std::make_shared<FaultyRail>(reactor_, gate_, devices_[i], faults_, random_(), give_,
                                            take_);
      }
      usable.push_back(rail);
    }
    return usable;
  }
  void countHedged() override { ++hedged_; }
  [[nodiscard]] std::size_t hedged() const { return hedged_; }
  [[nodiscard]] FaultyRail& at(std::size_t index) { return *rails_[index]; }
  void endAll() {
    for (const std::shared_ptr<FaultyRail>& rail : rails_) {
      if (rail) rail->end();
    }
  }
  // Ends all rails, and makes no others from now on.
  void leave() {
    left_ = true;
    endAll();
  }
  // The device by which the rail at `index` reaches memory.
  [[nodiscard]] TableDevice& device(std::size_t index) { return *devices_[index]; }
  [[nodiscard]] FaultyRail::Counts counts() const {
    FaultyRail::Counts sum;
    for (const auto* all : {&rails_, &gone_}) {
      for (const auto& rail : *all) {
        if (rail == nullptr) continue;
        sum.posted += rail->counts().posted;
        sum.faulty += rail->counts().faulty;
        sum.lateWrites += rail->counts().lateWrites;
      }
    }
    return sum;
  }
  // Waits until nothing is on the rails any more.
  [[nodiscard]] Task<void> close() { return gate_.close(); }

 private:
  Gate gate_;
  Reactor& reactor_;
  const Faults faults_;
  const Give give_;
  const Take take_;
  std::mt19937_64 random_;
  std::vector<std::shared_ptr<TableDevice>> devices_;
  std::vector<std::shared_ptr<FaultyRail>> rails_, gone_;
  const std::string name_;
  bool left_ = false;
  std::size_t hedged_ = 0;
};

}  // namespace hearth::testing_rails
