#include "volume/follower_list.h"

#include <gmock/gmock.h>

#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>

namespace hearth {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Time = FollowerList::Time;
using std::chrono::milliseconds;

const Time kBegin{std::chrono::hours(1)};
Time at(int ms) { return kBegin + milliseconds(ms); }

TEST(FollowerListTest, ANodeComesOntoTheListWhenItHasTheWholeLog) {
  FollowerList list({}, 1, kBegin);
  list.setCandidates({"c", "b", "d"});
  EXPECT_THAT(list.wanted(kBegin), IsEmpty());
  list.setDurable(5, at(10));
  list.setConfirmed("b", 4);
  EXPECT_THAT(list.wanted(at(20)), IsEmpty());
  EXPECT_EQ(list.committed(), 5u);
  for (const char* const node : {"b", "c", "d"}) list.setConfirmed(node, 5);
  // The first candidates, and no more.
  EXPECT_THAT(list.wanted(at(30)), ElementsAre("b", "c"));
  list.setDurable(6, at(40));
  // The transaction may have succeeded.
  EXPECT_EQ(list.committed(), 5u);
  list.setListed({"b", "c"});
  EXPECT_THAT(list.wanted(at(50)), ElementsAre("b", "c"));
}

TEST(FollowerListTest, ALateNodeLeavesAndChangesWaitUntilItCertainlyHasLeft) {
  FollowerList list({"b"}, 1, kBegin);
  EXPECT_FALSE(list.hasBegun());
  list.setConfirmed("b", 1);
  EXPECT_TRUE(list.hasBegun());
  list.setDurable(2, at(100));
  EXPECT_EQ(list.nextChange(at(100)), at(1100));
  EXPECT_TRUE(list.isInTime(at(1099)));
  EXPECT_THAT(list.wanted(at(1099)), ElementsAre("b"));
  EXPECT_FALSE(list.isInTime(at(1100)));
  EXPECT_THAT(list.wanted(at(1100)), IsEmpty());
  // It comes back too late: the transaction may be on its way.
  list.setConfirmed("b", 2);
  EXPECT_THAT(list.wanted(at(1200)), IsEmpty());
  EXPECT_TRUE(list.mayBeListed("b"));
  list.setDurable(3, at(1300));
  EXPECT_FALSE(list.isInTime(at(2300)));
  list.setListed({});
  EXPECT_TRUE(list.isInTime(at(2300)));
  EXPECT_EQ(list.dropped(), 1u);
  list.setConfirmed("b", 3);
  EXPECT_THAT(list.wanted(at(2400)), IsEmpty());
  EXPECT_THAT(list.wanted(at(1100) + FollowerList::kPause), ElementsAre("b"));
}

TEST(FollowerListTest, ANodeThatIsNoCandidateOrDivergesLeaves) {
  FollowerList list({"b", "c"}, 1, kBegin);
  list.setConfirmed("b", 1);
  list.setConfirmed("c", 1);
  list.setDiverged("b");
  EXPECT_FALSE(list.isInTime(at(1)));
  EXPECT_THAT(list.wanted(at(1)), ElementsAre("c"));
  list.setListed({"c"});
  list.setCandidates({"b"});
  EXPECT_THAT(list.wanted(at(2)), IsEmpty());
  EXPECT_TRUE(list.mayBeListed("c"));
}

// A leader, its followers and the store, in random orders of everything that may happen to them.
class Model {
 public:
  explicit Model(std::uint32_t seed) : random_(seed), list_({"b", "c"}, 1, kBegin) {
    marks_.push_back({1, kBegin});
  }

  void step() {
    now_ += milliseconds(pick(200));
    switch (pick(8)) {
      case 0:
      case 1:
        durable_ += 1 + pick(3);
        list_.setDurable(durable_, now_);
        marks_.push_back({durable_, now_});
        break;
      case 2:
      case 3: {  // records come to a follower, whose answer may be lost or late
        const std::string node = anyNode();
        logs_[node] = std::min(durable_, logs_[node] + 1 + pick(6));
        if (pick(4) != 0) answers_.emplace_back(node, logs_[node]);
        break;
      }
      case 4:
        if (!answers_.empty()) {
          const auto [node, record] = answers_.front();
          answers_.pop_front();
          // One message is under way to a follower; a crash in between answers with less.
          list_.setConfirmed(node, std::min(record, logs_[node]));
        }
        break;
      case 5: {  // a machine lost what was not synced, and its follower says so
        const std::string node = anyNode();
        if (store_.contains(node)) break;
        logs_[node] -= std::min<std::uint64_t>(logs_[node], pick(3));
        list_.setConfirmed(node, logs_[node]);
        break;
      }
      case 6:
        list_.setCandidates(pick(3) == 0 ? std::vector<std::string>{"b", "d"}
                                         : std::vector<std::string>{"b", "c", "d"});
        break;
      default:
        transact();
    }
    check();
  }

 private:
  struct Mark {
    std::uint64_t record;
    Time at;
  };
  int pick(int below) { return std::uniform_int_distribution(0, below - 1)(random_); }
  std::string anyNode() { return std::string(1, static_cast<char>('b' + pick(3))); }

  // One transaction at a time is under way. It succeeds or not, and its answer may be lost; then
  // another one follows.
  void transact() {
    if (!underWay_) {
      underWay_ = list_.wanted(now_);
      return;
    }
    const std::vector<std::string> wrote = *std::exchange(underWay_, std::nullopt);
    if (pick(3) == 0) return;
    store_ = {wrote.begin(), wrote.end()};
    if (pick(3) != 0) list_.setListed(wrote);
  }

  void check() {
    const std::uint64_t committed = list_.committed();
    for (const std::string& node : store_) {
      EXPECT_TRUE(list_.mayBeListed(node)) << node;
      EXPECT_GE(logs_[node], committed) << node;
      if (!list_.hasBegun() || !list_.isInTime(now_)) continue;
      EXPECT_GE(logs_[node], 1u);
      for (const Mark& mark : marks_) {
        if (now_ - mark.at >= FollowerList::kMaxLag) EXPECT_GE(logs_[node], mark.record) << node;
      }
    }
    while (marks_.size() > 1 && now_ - marks_[1].at >= FollowerList::kMaxLag) marks_.pop_front();
  }

  std::mt19937 random_;
  FollowerList list_;
  Time now_ = kBegin;
  std::uint64_t durable_ = 1;
  std::deque<Mark> marks_;
  std::map<std::string, std::uint64_t> logs_;
  std::deque<std::pair<std::string, std::uint64_t>> answers_;
  std::set<std::string> store_{"b", "c"};
  std::optional<std::vector<std::string>> underWay_;
};

TEST(FollowerListTest, NoListedNodeLacksWhatWasAnsweredASecondAgoInAnyOrderOfEvents) {
  for (std::uint32_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed);
    for (int i = 0; i < 120; ++i) {
      model.step();
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace hearth
