#include "origin/piece_sink.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace hearth {
namespace {

class PieceSinkTest : public testing::Test {
 protected:
  // Two pieces of four and six bytes.
  std::string memory_ = std::string(10, '.');
  std::vector<std::size_t> filled_;
  PieceSink sink_{{std::as_writable_bytes(std::span(memory_).subspan(0, 4)),
                   std::as_writable_bytes(std::span(memory_).subspan(4))},
                  [this](std::size_t piece) { filled_.push_back(piece); }};

  static bool write(PieceSink::Writer& writer, std::string_view text) {
    return writer.write(std::as_bytes(std::span(text)));
  }
};

TEST_F(PieceSinkTest, AnnouncesPiecesInOrderOnce) {
  PieceSink::Writer writer(sink_, 0, 10);
  EXPECT_EQ(sink_.pieceRemaining(), 4u);
  EXPECT_TRUE(write(writer, "abcde"));
  EXPECT_EQ(sink_.pieceRemaining(), 5u);
  EXPECT_TRUE(write(writer, "fghij"));
  EXPECT_EQ(sink_.pieceRemaining(), 0u);
  EXPECT_EQ(memory_, "abcdefghij");
  EXPECT_EQ(filled_, (std::vector<std::size_t>{0, 1}));
  EXPECT_TRUE(writer.done());
}

TEST_F(PieceSinkTest, TheLaterWriterRevokesTheOneBeforeWithItsFirstByteThatIsNotHere) {
  PieceSink::Writer first(sink_, 0, 10);
  EXPECT_TRUE(write(first, "ab"));
  PieceSink::Writer hedge(sink_, 2, 10);
  EXPECT_TRUE(write(first, "cd"));
  EXPECT_TRUE(write(hedge, "cd"));
  EXPECT_FALSE(first.revoked()) << "it is as far";
  EXPECT_FALSE(hedge.leads());
  EXPECT_TRUE(write(first, "e"));
  EXPECT_TRUE(write(hedge, "ef"));
  EXPECT_TRUE(hedge.leads());
  EXPECT_TRUE(first.revoked());
  EXPECT_FALSE(write(first, "XYZ"));
  EXPECT_EQ(memory_, "abcdef....");
  EXPECT_TRUE(write(hedge, "ghij"));
  EXPECT_EQ(memory_, "abcdefghij");
  EXPECT_EQ(filled_, (std::vector<std::size_t>{0, 1}));
}

TEST_F(PieceSinkTest, AWriterThatIsNeverAheadChangesNothing) {
  PieceSink::Writer first(sink_, 0, 10);
  EXPECT_TRUE(write(first, "abcdef"));
  PieceSink::Writer hedge(sink_, 6, 8);
  EXPECT_TRUE(write(first, "ghij"));
  EXPECT_TRUE(write(hedge, "XY"));
  EXPECT_TRUE(hedge.done());
  EXPECT_FALSE(first.revoked());
  EXPECT_EQ(memory_, "abcdefghij");
}

TEST_F(PieceSinkTest, DropsWhatIsHereWhenATransferBeginsEarlier) {
  PieceSink::Writer cut(sink_, 0, 10);
  EXPECT_TRUE(write(cut, "abcde"));
  PieceSink::Writer whole(sink_, 5, 10);
  whole.rewind(5);
  EXPECT_EQ(whole.remaining(), 10u);
  EXPECT_TRUE(write(whole, "ABC"));
  EXPECT_TRUE(write(whole, "DEFGHIJ"));
  EXPECT_EQ(memory_, "abcdeFGHIJ");
}

TEST(LatePieceSinkTest, KeepsWhatComesBehindItsLastPieceUntilTheNextOneIsGiven) {
  std::string memory(10, '.');
  const auto bytes = std::as_writable_bytes(std::span(memory));
  std::vector<std::size_t> filled;
  PieceSink sink(10, [&filled](std::size_t piece) { filled.push_back(piece); });
  PieceSink::Writer writer(sink, 0, 10);
  const auto write = [&writer](std::string_view text) {
    return writer.write(std::as_bytes(std::span(text)));
  };
  EXPECT_TRUE(sink.full());
  sink.add(bytes.first(4));
  EXPECT_FALSE(sink.full());
  EXPECT_TRUE(write("abcdef"));
  EXPECT_EQ(filled, (std::vector<std::size_t>{0})) << "the first waits for no memory of the next";
  EXPECT_EQ(sink.received(), 6u);
  int resumed = 0;
  ASSERT_TRUE(sink.full());
  sink.awaitRoom([&resumed] { ++resumed; });
  sink.add(bytes.subspan(4, 2));
  EXPECT_EQ(memory, "abcdef....");
  EXPECT_EQ(resumed, 0) << "there is no room yet";
  sink.add(bytes.subspan(6));
  EXPECT_EQ(resumed, 1);
  EXPECT_TRUE(write("ghij"));
  EXPECT_EQ(memory, "abcdefghij");
  EXPECT_EQ(filled, (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_FALSE(sink.full());
}

TEST(LatePieceSinkTest, WritesNothingIntoAPieceThatComesAfterItsEnd) {
  std::string memory(4, '.');
  PieceSink sink(8, [](std::size_t) { FAIL(); });
  PieceSink::Writer writer(sink, 0, 8);
  EXPECT_TRUE(writer.write(std::as_bytes(std::span(std::string_view("abcd")))));
  bool stopped = false;
  sink.setStop([&stopped] { stopped = true; });
  sink.end();
  EXPECT_TRUE(stopped);
  sink.add(std::as_writable_bytes(std::span(memory)));
  EXPECT_EQ(memory, "....");
}

// Writers as they come and go when stragglers are hedged, in any order: each brings bytes of its
// own, so that it shows who wrote what.
TEST(PieceSinkPropertyTest, NoWriterWritesBehindALaterOne) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&random](std::size_t bound) { return random() % bound; };
    std::string memory(200, '.');
    std::vector<std::span<std::byte>> pieces;
    for (std::size_t at = 0; at < memory.size();) {
      const std::size_t size = std::min(1 + below(40), memory.size() - at);
      pieces.push_back(std::as_writable_bytes(std::span(memory).subspan(at, size)));
      at += size;
    }
    const std::size_t count = pieces.size();
    std::size_t filled = 0;
    PieceSink sink(std::move(pieces), [&filled](std::size_t piece) { EXPECT_EQ(piece, filled++); });
    std::vector<PieceSink::Writer> writers;
    while (sink.remaining() > 0) {
      if (writers.empty() || (writers.size() < 20 && below(10) == 0)) {
        writers.emplace_back(sink, sink.received(), sink.total());
      }
      const std::size_t i = below(writers.size());
      const std::size_t length = std::min<std::size_t>(writers[i].remaining(), 1 + below(30));
      const std::string bytes(length, static_cast<char>('a' + i));
      const std::string before = memory;
      const bool revoked = writers[i].revoked();
      EXPECT_EQ(writers[i].write(std::as_bytes(std::span(bytes))), !revoked);
      if (revoked) EXPECT_EQ(memory, before);
    }
    EXPECT_EQ(filled, count);
    EXPECT_TRUE(std::ranges::is_sorted(memory))
        << "an earlier one wrote behind a later: " << memory;
  }
}

}  // namespace
}  // namespace hearth
