// The order in which a request asks sources, played by an origin that answers as the test says.
#include "fetch/source_request.h"

#include <gtest/gtest.h>

#include <deque>

#include "base/testing/moved_clock.h"
#include "fetch/testing_slots.h"
#include "manifest/manifest.h"
#include "transport/testing/unreachable_transport.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSize = 3 * kBlockBytes;

// A source's answer to one request; all its bytes when there is none left.
struct Answer {
  ErrorCode code = ErrorCode::kUnavailable;
  std::optional<Clock::duration> retryAfter;
  std::function<void(OriginElsewhere&)> before;  // it is answered
};

class ScriptedOrigin final : public OriginClient {
 public:
  using OriginClient::fetch;
  Task<Status> fetch(Location location, OriginExpectation, std::uint64_t,
                     std::vector<std::span<std::byte>> into,
                     std::function<void(std::size_t)> filled, std::function<bool()>) override {
    const auto source =
        static_cast<std::size_t>(location.url[std::string("http://s").size()] - '0');
    if (location.elsewhere) lefts.push_back(location.elsewhere->left);
    if (!answers[source].empty()) {
      const Answer answer = answers[source].front();
      answers[source].pop_front();
      if (answer.before) answer.before(*location.elsewhere);
      if (location.elsewhere->wanted && !location.elsewhere->wanted()) {
        location.elsewhere->unasked = true;
      } else {
        asked.push_back(source);
        location.elsewhere->retryAfter = answer.retryAfter;
      }
      co_return Error{answer.code, "as the test says"};
    }
    asked.push_back(source);
    for (std::size_t piece = 0; piece < into.size(); ++piece) filled(piece);
    co_return Status();
  }
  Task<Status> stream(Location, OriginExpectation, PieceSink&, std::function<bool()>) override {
    co_return Error{ErrorCode::kUnsupported, "it gives ranges only"};
  }
  Task<void> close() override { co_return; }
  [[nodiscard]] OriginStatistics statistics() const override { return {}; }

  std::map<std::size_t, std::deque<Answer>> answers;
  std::vector<std::size_t> asked;
  std::vector<Clock::duration> lefts;
};

struct SourceRequestTest : testing::Test {
  SourceRequestTest() {
    ManifestBuilder builder(false);
    ManifestRow row;
    row.path = "model";
    row.size = kSize;
    row.sourceDigest = Sha256Digest{};
    row.key.bytes[0] = 1;
    builder.add(std::move(row));
    dataset = std::make_shared<Dataset>(*Manifest::parse(*builder.build()), "mirrored", events);
    file = FileReference::of(dataset, *dataset->manifest->lookUp("model"));
    lanes.push_back({*reactor, origin, transport});
    setSources(2);
    (void)rounds->wrong("it is not what the digest says", Clock::now());
  }
  void setSources(std::size_t sources) {
    std::vector<MirrorPlace> mirrors;
    for (std::size_t at = 1; at < sources; ++at) mirrors.push_back({.name = std::to_string(at)});
    dataset->sources.setMirrors(mirrors);
    for (std::size_t at = 0; at < sources; ++at) {
      Location base;
      base.url = "http://s" + std::to_string(at) + "/";
      dataset->sources.locations(at)->setBase(base);
    }
  }
  [[nodiscard]] std::shared_ptr<const SourceSet> set() const { return dataset->sources.now(); }
  // Returns the sources that gave it.
  SourceMask request(ErrorCode expected = ErrorCode::kOk) {
    SourceRequest asking({*reactor, gate, byteLanes, pool, events}, file, rounds);
    std::vector<std::byte> memory(kSize);
    Task<Status> running = asking.run(0, 0, {std::span(memory)}, [](std::size_t, auto) {});
    const Status status = reactor->runUntilComplete(std::move(running));
    EXPECT_EQ(status.code(), expected);
    return asking.given();
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  Gate gate{*reactor};
  ScriptedOrigin origin;
  testing_rails::UnreachableTransport transport;
  std::vector<ByteLane> lanes;
  ByteLanes byteLanes{lanes, 0};
  testing_support::OwnedSlots slots{1};
  SlotStock stock{slots.all()};
  BufferPool pool{*reactor, stock, 1};
  EventSink events = [](EngineEvent) {};
  std::shared_ptr<Dataset> dataset;
  FileReference file;
  std::shared_ptr<SourceRounds> rounds = std::make_shared<SourceRounds>();
};

using Asked = std::vector<std::size_t>;

TEST_F(SourceRequestTest, RetriesInOrderAsOftenAsASingleSource) {
  origin.answers[0].resize(5);
  EXPECT_EQ(request(), 0b01U);
  EXPECT_EQ(origin.asked, (Asked{0, 0, 0, 0, 0, 0}));
}

TEST_F(SourceRequestTest, SkipsASourceThatGaveUpInTheRound) {
  origin.answers[0].resize(6);
  EXPECT_EQ(request(), 0b10U);
  EXPECT_FALSE(rounds->stands(0));
  origin.answers[0].resize(1);
  EXPECT_EQ(request(), 0b10U);
  EXPECT_EQ(origin.asked, (Asked{0, 0, 0, 0, 0, 0, 1, 1}));
}

TEST_F(SourceRequestTest, SkipsASourceThatGaveAllWrongEvenIfOthersFail) {
  rounds->gave(set(), 0b01);
  (void)rounds->wrong("it is not what the digest says", Clock::now());
  origin.answers[1].resize(6);
  EXPECT_EQ(request(ErrorCode::kUnavailable), 0U);
  EXPECT_EQ(request(), 0b10U);
  EXPECT_EQ(origin.asked, (Asked{1, 1, 1, 1, 1, 1, 1}));
}

TEST_F(SourceRequestTest, KeepsASlowSourceInOrder) {
  const auto turn = set()->ranking.begin(0b10, Clock::now());
  (void)set()->ranking.end(turn, SourceRanking::Outcome::kGave, 1u << 30, "", turn.begun + 1ms);
  EXPECT_EQ(request(), 0b01U);
  ASSERT_EQ(origin.lefts.size(), 1U);
  EXPECT_GT(origin.lefts[0], 1min) << "not seconds, as the other would take";
}

TEST_F(SourceRequestTest, WaitsForASourceAgainWhereOthersFail) {
  origin.answers[0].push_back({.code = ErrorCode::kDeadlineExceeded});
  origin.answers[1].resize(6);
  EXPECT_EQ(request(), 0b01U);
  EXPECT_EQ(origin.asked, (Asked{0, 1, 1, 1, 1, 1, 1, 0}));
  EXPECT_GT(origin.lefts.back(), 5min);
}

TEST_F(SourceRequestTest, LeavesASourceAloneThatAskedForIt) {
  origin.answers[0].push_back({.retryAfter = 60s});
  EXPECT_EQ(request(), 0b10U);
  EXPECT_EQ(request(), 0b10U);
  EXPECT_EQ(origin.asked, (Asked{0, 1, 1}));
}

TEST_F(SourceRequestTest, AWaitForAConnectionFollowsTheRound) {
  origin.answers[0].push_back({.before = [this](auto&) { rounds->gaveUp(0); }});
  EXPECT_EQ(request(), 0b10U);
  EXPECT_EQ(origin.asked, (Asked{1}));
}

TEST_F(SourceRequestTest, LeavesAStragglerForTheNextSource) {
  rounds = std::make_shared<SourceRounds>();
  origin.answers[0].push_back({.before = [](OriginElsewhere& seen) {
    EXPECT_TRUE(seen.leaveStraggler);
    seen.straggled = true;
  }});
  EXPECT_EQ(request(), 0b10U);
  EXPECT_EQ(origin.asked, (Asked{0, 1}));
  EXPECT_LE(origin.lefts[0], 30s);
  const auto seen = set()->ranking.statistics(Clock::now());
  EXPECT_EQ(seen[0].aside, "as the test says");
  EXPECT_EQ(seen[0].stragglers, 1U);
  EXPECT_EQ(seen[1].aside, "");
}

TEST_F(SourceRequestTest, WaitsForASlowSourceWhereAllFail) {
  rounds = std::make_shared<SourceRounds>();
  origin.answers[0].resize(1);
  origin.answers[1].resize(6);
  EXPECT_EQ(request(), 0b01U);
  EXPECT_GT(origin.lefts.back(), 5min);
}

TEST_F(SourceRequestTest, ASingleSourceIsAGiverToo) {
  setSources(1);
  EXPECT_EQ(request(), 0b1U);
}

}  // namespace
}  // namespace hearth
