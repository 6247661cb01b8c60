// Checks the chunk store like a model: takes every order in which readers, a landing chunk, the
// drop of a file and a request for a slot can follow one another, step by step, with the real
// stock, pool, tier and reactor. All of it runs on one thread, readers within the turns of another
// shard's reactor. The product's moves hold in every order, and each broken move is found in one.
#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "base/testing/moved_clock.h"
#include "fetch/chunk_arrival.h"
#include "fetch/slot_exchange.h"
#include "fetch/testing_broken_moves.h"
#include "fetch/testing_order_scenarios.h"
#include "fetch/testing_orders.h"
#include "fetch/testing_slots.h"
#include "fetch/testing_stuck_answer.h"
#include "reactor/synchronization.h"

namespace hearth {
namespace {

using testing_support::Fault;
using testing_support::HeldBytes;
using namespace testing_support::scenarios;
using testing_support::lendToStuckPeer;
using testing_support::NextTurn;
using testing_support::Orders;
using testing_support::OwnedSlots;
using testing_support::Scenario;
using testing_support::SlotMoves;
using testing_support::StuckAnswer;
using testing_support::Tag;
using testing_support::tagAt;

constexpr std::size_t kOrderSlots = SlotStock::kFewest;
constexpr std::size_t kLenderSlots = 2 * kOrderSlots;  // of the other shard, which uses none
constexpr std::size_t kTagStride = kChunkBytes / 4;
constexpr std::size_t kHalf = kChunkBytes / 2;
constexpr std::uint32_t kModel = 1, kOther = 2;

struct Actor {
  std::vector<std::function<void()>> steps;
  bool turns = false;  // each step is a turn of the reactor
  std::function<bool()> may = [] { return true; };
  std::size_t taken = 0;
  [[nodiscard]] bool ready() const { return taken < steps.size() && may(); }
};

// The parts that outlast an order.
struct Machine {
  std::unique_ptr<Reactor> shard = std::move(*Reactor::create());
  std::unique_ptr<Reactor> elsewhere = std::move(*Reactor::create());
  OwnedSlots slots{kOrderSlots + kLenderSlots};

  // A turn of the other shard, in which posted functions run before this one.
  void runElsewhere(const std::function<void()>& function) const {
    elsewhere->runUntilComplete([](const std::function<void()>& run) -> Task<bool> {
      run();
      co_return true;
    }(function));
  }
};

// One order of one scenario, on the shard's thread.
class Life {
 public:
  Life(Machine& machine, SlotMoves& moves, const Scenario& scenario, Orders& orders)
      : machine_(machine), moves_(moves), scenario_(scenario), orders_(orders) {}

  Task<Fault> run() {
    co_await setUp();
    while (fault_ == Fault::kNone) {
      std::vector<Actor*> ready;
      for (Actor& actor : actors_) {
        if (actor.ready()) ready.push_back(&actor);
      }
      if (ready.empty()) break;
      Actor& next = *ready[orders_.choose(ready.size())];
      if (next.turns) co_await turn();
      next.steps[next.taken++]();
    }
    co_await judge();
    co_await cleanUp();
    co_return fault_;
  }

 private:
  struct Reader {
    HeldBytes held;
    Tag tag;
  };

  static std::shared_ptr<KeyFetch> file(std::uint32_t number) {
    ContentKey key;
    key.bytes[0] = static_cast<std::uint8_t>(number);
    return std::make_shared<KeyFetch>(key, kChunkBytes, nullptr, std::make_shared<LoadedChunks>());
  }

  // Takes the slots that the scenario does not need.
  Task<void> setUp() {
    for (const ChunkSlot* const slot : machine_.slots.all())
      writeTags({slot->data(), kChunkBytes}, Tag(), kTagStride);
    if (scenario_.lends) {
      exchange_.join(*machine_.shard, stock_, tier_);
      exchange_.join(*machine_.elsewhere, otherStock_, otherTier_);
      exchange_.open();
    }
    moves_.attach(stock_, tier_);
    while (others_.size() < kOrderSlots) {
      std::vector<ChunkBuffer> buffer = co_await pool_.acquire(Priority::kDemand, 1);
      others_.push_back(std::move(buffer.front()));
    }
    if (scenario_.begins) {
      load();
      fill();
      land();
      settle();
    }
    actors_.push_back({std::vector<std::function<void()>>(scenario_.turns, [] {}), true});
    actors_.push_back({{[this] { request(); }, [this] { fillOther(); }}});
    actors_.back().may = [this] { return !requested_ || granted_.has_value(); };
    readers_.resize(static_cast<std::size_t>(scenario_.readers));
    for (Reader& reader : readers_) {
      actors_.push_back({{[this, &reader] { elsewhere([&] { find(reader); }); },
                          [this, &reader] { elsewhere([&] { readAndLetGo(reader); }); }}});
    }
    if (scenario_.isLent) actors_.push_back({{[this] { lend(); }, [this] { answer_.reset(); }}});
    if (scenario_.lands) {
      load();
      actors_.push_back({{[this] { fill(); }, [this] { land(); }, [this] { settle(); }}});
    }
    if (scenario_.arrives || scenario_.fails) {
      load();
      arrival_ = std::make_shared<ChunkArrival>(*machine_.shard, landing_);
      actors_.push_back({{[this] { fillHalf(0); }, [this] { advance(); }, [this] { fillRest(); }}});
      if (scenario_.arrives) {
        actors_.back().steps.push_back([this] { landArrived(); });
        actors_.back().steps.push_back([this] { settle(); });
      }
      actors_.push_back(
          {{[this] { answerHalf(); }, [this] { elsewhere([&] { readAndLetGo(peer_); }); }}});
    }
    if (scenario_.drops) actors_.push_back({{[this] { drop(); }}});
    co_await turn();
  }

  NextTurn turn() { return NextTurn(*machine_.shard); }
  void elsewhere(const std::function<void()>& function) const { machine_.runElsewhere(function); }

  // The model's chunk.
  void load() {
    landing_ = moves_.load(*machine_.shard, std::move(others_.back()));
    others_.pop_back();
  }
  void fill() { moves_.beforeLanding(*landing_, {kModel, 0, landed_ + 1}, kTagStride); }
  void land() {
    model_->loaded.put(0, landing_);
    ++landed_;
  }
  void settle() {
    moves_.afterLanding(*landing_, {kModel, 0, landed_}, kTagStride);
    moves_.settle(tier_, model_, 0, landing_);
    landing_.reset();
  }
  // The first or the second half of the arriving chunk.
  [[nodiscard]] std::span<std::byte> half(std::size_t number) const {
    return landing_->bytes.subspan(number * kHalf, kHalf);
  }
  void fillHalf(std::size_t number) {
    moves_.beforeAnswers(half(number), {kModel, 0, landed_ + 1}, kTagStride);
  }
  void advance() { arrival_->advance(kHalf); }
  void fillRest() {
    moves_.afterAnswers(half(0), {kModel, 0, landed_ + 1}, kTagStride);
    if (scenario_.arrives) return fillHalf(1);
    moves_.letGo(*landing_);
    arrival_->end();
    arrival_.reset();
    landing_.reset();
  }
  void landArrived() {
    advance();
    land();
    arrival_->end();
    arrival_.reset();
  }
  void answerHalf() {
    if (arrival_ == nullptr) return;
    std::shared_ptr<LoadedChunk> found = arrival_->first(kHalf);
    if (found == nullptr) return;
    peer_.held = moves_.hold(std::move(found));
    peer_.held.bytes = peer_.held.bytes.first(kHalf);
    peer_.tag = tagAt(peer_.held.bytes, 0);
    if (peer_.tag.file != kModel) fault_ = Fault::kWrongBytes;
  }
  // As FileVerifier does where a digest is wrong.
  void drop() {
    dropped_ = landed_;
    for (const auto& [chunk, loaded] : model_->loaded.all()) moves_.letGo(*loaded);
    model_->loaded.clear();
  }

  void lend() {
    const std::shared_ptr<LoadedChunk> found = model_->loaded.find(0);
    if (found != nullptr) answer_ = lendToStuckPeer(found);
  }
  void find(Reader& reader) {
    std::shared_ptr<LoadedChunk> found = model_->loaded.find(0);
    if (found == nullptr) return;
    if (stale(*found)) fault_ = Fault::kStale;
    reader.held = moves_.hold(std::move(found));
    reader.tag = tagAt(reader.held.bytes, 0);
    if (reader.tag.file != kModel) fault_ = Fault::kWrongBytes;
  }
  void readAndLetGo(Reader& reader) {
    if (!allTagged(reader.held.bytes, reader.tag, kTagStride)) fault_ = Fault::kWrongBytes;
    reader.held = {};
  }
  [[nodiscard]] bool stale(const LoadedChunk& found) const {
    return dropped_ != 0 && tagAt(found.bytes, 0).generation <= dropped_;
  }

  void request() {
    requested_ = true;
    moves_.look();
    gate_.spawn(acquire());
  }
  Task<void> acquire() {
    const Priority priority = scenario_.lends ? Priority::kBackground : Priority::kDemand;
    std::vector<ChunkBuffer> buffer = co_await pool_.acquire(priority, 1);
    granted_ = std::move(buffer.front());
  }
  void fillOther() {
    const auto loaded = moves_.load(*machine_.shard, std::move(*granted_));
    moves_.beforeLanding(*loaded, {kOther, 0, 1}, kTagStride);
    other_->loaded.put(0, loaded);
    moves_.afterLanding(*loaded, {kOther, 0, 1}, kTagStride);
    moves_.settle(tier_, other_, 0, loaded);
  }

  // Gives both shards turns until nothing is left to do.
  Task<void> quiesce() {
    for (int turns = 0; turns < 4; ++turns) {
      co_await turn();
      elsewhere([] {});
    }
  }

  Task<void> judge() {
    if (fault_ != Fault::kNone) co_return;
    co_await quiesce();
    if (!granted_ && scenario_.isLent) {  // nobody says when a peer has its answer
      moveClock(std::chrono::seconds(10));
      co_await quiesce();
    }
    const std::shared_ptr<LoadedChunk> found = model_->loaded.find(0);
    if (!granted_) {
      fault_ = Fault::kSleeps;
    } else if (found != nullptr && stale(*found)) {
      fault_ = Fault::kStale;
    }
  }

  // Ends the scenario: all slots come back and the request is served, whatever was broken.
  Task<void> cleanUp() {
    readers_.clear();
    peer_ = {};
    arrival_.reset();
    answer_.reset();
    others_.clear();
    landing_.reset();
    tier_.clear();
    for (const auto& each : {model_, other_}) each->loaded.clear();
    moves_.look();
    stock_.receive({});
    co_await gate_.close();
    granted_.reset();
    exchange_.close();
    co_await quiesce();
    const std::size_t back = stock_.free() + otherStock_.free();
    if (fault_ == Fault::kNone && back != kOrderSlots + kLenderSlots) fault_ = Fault::kSlotLost;
  }

  Machine& machine_;
  SlotMoves& moves_;
  const Scenario& scenario_;
  Orders& orders_;
  SlotExchange exchange_;
  SlotStock stock_{machine_.slots.part(0, kOrderSlots)};
  SlotStock otherStock_{machine_.slots.part(kOrderSlots, kLenderSlots)};
  BufferPool pool_{*machine_.shard, stock_, kOrderSlots};
  BufferPool otherPool_{*machine_.elsewhere, otherStock_, kOrderSlots};
  MemoryTier tier_{*machine_.shard, stock_};
  MemoryTier otherTier_{*machine_.elsewhere, otherStock_};
  Gate gate_{*machine_.shard};
  const std::shared_ptr<KeyFetch> model_ = file(kModel), other_ = file(kOther);
  std::vector<Actor> actors_;
  std::vector<ChunkBuffer> others_;
  std::shared_ptr<LoadedChunk> landing_;
  std::vector<Reader> readers_;
  Reader peer_;
  std::shared_ptr<ChunkArrival> arrival_;
  std::shared_ptr<StuckAnswer> answer_;
  bool requested_ = false;
  std::optional<ChunkBuffer> granted_;
  std::uint64_t landed_ = 0;   // the generation that landed last
  std::uint64_t dropped_ = 0;  // the generation dropped last
  Fault fault_ = Fault::kNone;
};

struct Verdict {
  Fault fault = Fault::kNone;
  std::size_t orders = 0;
};

// Runs orders up to the first fault.
Verdict verdictOn(SlotMoves& moves, const Scenario& scenario) {
  Machine machine;
  struct Run {
    static Task<Fault> one(Machine& machine, SlotMoves& moves, const Scenario& scenario,
                           Orders& orders) {
      Life life(machine, moves, scenario, orders);
      co_return co_await life.run();
    }
    static Task<Verdict> all(Machine& machine, SlotMoves& moves, const Scenario& scenario) {
      Orders orders;
      Verdict verdict;
      do {
        ++verdict.orders;
        verdict.fault = co_await one(machine, moves, scenario, orders);
      } while (verdict.fault == Fault::kNone && orders.next());
      co_return verdict;
    }
  };
  return machine.shard->runUntilComplete(Run::all(machine, moves, scenario));
}

TEST(MemoryTierOrders, TheProductsMovesHoldInEveryOrder) {
  SlotMoves moves;
  for (const Scenario& scenario :
       {kTwoReaders, kLanding, kFirstLanding, kPeer, kTwoShards, kArriving, kFailing}) {
    const Verdict verdict = verdictOn(moves, scenario);
    EXPECT_EQ(verdict.fault, Fault::kNone) << scenario.name << ", order " << verdict.orders;
    EXPECT_GT(verdict.orders, 100u) << scenario.name;
    RecordProperty(scenario.name, static_cast<int>(verdict.orders));
  }
}

template <class Moves>
Fault faultOf(const Scenario& scenario) {
  Moves moves;
  return verdictOn(moves, scenario).fault;
}

TEST(MemoryTierOrders, FindAReferenceDroppedEarly) {
  EXPECT_EQ(faultOf<testing_support::ReferenceDroppedEarly>(kTwoReaders), Fault::kWrongBytes);
}

TEST(MemoryTierOrders, FindASlotReturnedUnderAReader) {
  EXPECT_EQ(faultOf<testing_support::SlotReturnedEarly>(kLanding), Fault::kWrongBytes);
}

TEST(MemoryTierOrders, FindAChunkThatLandsBeforeItsBytes) {
  EXPECT_EQ(faultOf<testing_support::LandedBeforeFilled>(kFirstLanding), Fault::kWrongBytes);
}

TEST(MemoryTierOrders, FindAnAnswerBeforeItsBytes) {
  EXPECT_EQ(faultOf<testing_support::AnsweredBeforeFilled>(kArriving), Fault::kWrongBytes);
}

TEST(MemoryTierOrders, FindASlotReturnedUnderAnAnswer) {
  EXPECT_EQ(faultOf<testing_support::SlotReturnedEarly>(kFailing), Fault::kWrongBytes);
}

TEST(MemoryTierOrders, FindAChunkKeptAfterItsDrop) {
  EXPECT_EQ(faultOf<testing_support::KeptAfterDrop>(kLanding), Fault::kStale);
}

TEST(MemoryTierOrders, FindALastReaderThatWakesNobody) {
  EXPECT_EQ(faultOf<testing_support::NoWakeUp>(kTwoReaders), Fault::kSleeps);
}

TEST(MemoryTierOrders, FindAShardThatDoesNotLookAgain) {
  EXPECT_EQ(faultOf<testing_support::NoSecondLook>(kTwoReaders), Fault::kSleeps);
}

TEST(MemoryTierOrders, FindAShardThatGetsNoAnswer) {
  EXPECT_EQ(faultOf<testing_support::NoAnswer>(kTwoShards), Fault::kSleeps);
}

}  // namespace
}  // namespace hearth
