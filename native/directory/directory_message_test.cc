#include "directory/directory_message.h"

#include <gtest/gtest.h>

#include "base/optional_fields.h"

namespace hearth {
namespace {

DirectoryRequest sampleRequest() {
  DirectoryRequest request;
  request.key.bytes[3] = 9;
  request.size = 1ull << 40;
  request.stripe = 77;
  request.chunks = 0x8001;
  request.intent = Intent::kFetch;
  request.failure = {"node-b", true};
  request.inMemory = 0x8000;
  return request;
}

TEST(DirectoryMessage, RequestsRoundTrip) {
  EXPECT_EQ(decodeDirectoryRequest(encode(sampleRequest())), sampleRequest());
}

std::vector<DirectoryUpdate> sampleUpdates() {
  DirectoryRequest report = sampleRequest();
  report.intent = Intent::kLookUp;
  report.failure = {};
  return {{DirectoryMessage::kHave, report},
          {DirectoryMessage::kDropped, {.size = 7}},
          {DirectoryMessage::kGiveUp, report}};
}

TEST(DirectoryMessage, UpdatesRoundTrip) {
  EXPECT_EQ(decodeDirectoryUpdates(encode(sampleUpdates())), sampleUpdates());
  const std::vector<DirectoryUpdate> most(kMaxUpdates, sampleUpdates().front());
  EXPECT_EQ(decodeDirectoryUpdates(encode(most)), most);
}

TEST(DirectoryMessage, RefusesUpdatesThatAreNone) {
  EXPECT_FALSE(decodeDirectoryUpdates(encode(std::vector<DirectoryUpdate>(kMaxUpdates + 1))));
  auto updates = sampleUpdates();
  updates[1].type = DirectoryMessage::kLocate;
  EXPECT_FALSE(decodeDirectoryUpdates(encode(updates)));
  updates = sampleUpdates();
  updates[1].request.size = (1ull << 44) + 1;
  EXPECT_FALSE(decodeDirectoryUpdates(encode(updates)));
  const auto whole = encode(sampleUpdates());
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decodeDirectoryUpdates(std::span(whole).first(size)));
  // Releases that know no such message take it for a request, and must refuse it.
  EXPECT_FALSE(decodeDirectoryRequest(whole));
}

TEST(DirectoryMessage, AnswersRoundTrip) {
  const LocateAnswer answer{{{"a", 0xffff, 0xf0}, {"b", 1}}, {{"c", 2}}, 0x8000, 70'000, 0x0102};
  const auto decoded = decodeLocateAnswer(encode(answer));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->holders, answer.holders);
  EXPECT_EQ(decoded->fetchers, answer.fetchers);
  EXPECT_EQ(decoded->granted, 0x8000);
  EXPECT_EQ(decoded->sharers, 70'000u);
  EXPECT_EQ(decoded->elsewhere, 0x0102);
}

TEST(DirectoryMessage, ReportsRoundTrip) {
  const auto decoded = decodeAgentReport(encode(AgentReport{true, {1, 2, 3}, {7, 9}, {0, 2}}));
  ASSERT_TRUE(decoded);
  EXPECT_TRUE(decoded->wants);
  EXPECT_EQ(decoded->held, (std::vector<ChunkMask>{1, 2, 3}));
  EXPECT_EQ(decoded->fetching, (std::vector<std::uint32_t>{7, 9}));
  EXPECT_EQ(decoded->inMemory, (std::vector<ChunkMask>{0, 2}));
}

// Of others it would not be known who has them.
TEST(DirectoryMessage, BelievesOfChunksAloneThatTheyArriveForWhichAFetcherIsNamed) {
  const LocateAnswer answer{.fetchers = {{"c", 0b110}}, .arriving = 0b011};
  const auto decoded = decodeLocateAnswer(encode(answer));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->arriving, 0b010);
  EXPECT_EQ(decoded->giverOf(1), "c");
  EXPECT_EQ(decoded->giverOf(2), "");
}

TEST(DirectoryMessage, RefusesEveryTruncationAndTrailingBytes) {
  const auto request = encode(sampleRequest());
  const auto answer = encode(LocateAnswer{{{"a", 1}}, {{"b", 2}}, 4, 3});
  const auto report = encode(AgentReport{true, {1, 2}, {3}});
  for (std::size_t size = 0; size < request.size(); ++size) {
    EXPECT_FALSE(decodeDirectoryRequest(std::span(request).first(size)));
  }
  for (std::size_t size = 0; size < answer.size(); ++size) {
    EXPECT_FALSE(decodeLocateAnswer(std::span(answer).first(size)));
  }
  for (std::size_t size = 0; size < report.size(); ++size) {
    EXPECT_FALSE(decodeAgentReport(std::span(report).first(size)));
  }
  auto longer = request;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decodeDirectoryRequest(longer));
}

// Fields that a later release adds.
TEST(DirectoryMessage, PassesOverFieldsThatNeedNotBeUnderstood) {
  const auto withField = [](std::vector<std::byte> body, std::uint16_t tag) {
    ByteWriter writer(body);
    putField(writer, tag, std::as_bytes(std::span("later")));
    return body;
  };
  EXPECT_EQ(decodeDirectoryRequest(withField(encode(sampleRequest()), 9)), sampleRequest());
  EXPECT_TRUE(decodeLocateAnswer(withField(encode(LocateAnswer{}), 9)));
  EXPECT_TRUE(decodeAgentReport(withField(encode(AgentReport{}), 9)));
  EXPECT_FALSE(decodeDirectoryRequest(withField(encode(sampleRequest()), 9 | kMustUnderstand)));
  EXPECT_FALSE(decodeLocateAnswer(withField(encode(LocateAnswer{}), 9 | kMustUnderstand)));
  EXPECT_FALSE(decodeAgentReport(withField(encode(AgentReport{}), 9 | kMustUnderstand)));
}

// An earlier release reads an unknown intent of this one as a look, and this release one of a later
// release: a look changes nothing.
TEST(DirectoryMessage, AnIntentThatIsNotKnownIsALook) {
  constexpr std::size_t kIntentAt = 32 + 8 + 4 + 2;
  DirectoryRequest request = sampleRequest();
  request.intent = Intent::kInspect;
  EXPECT_EQ(decodeDirectoryRequest(encode(request)), request);
  request.intent = Intent::kReadThrough;
  auto body = encode(request);
  EXPECT_EQ(decodeDirectoryRequest(body), request);
  EXPECT_EQ(body[kIntentAt], static_cast<std::byte>(Intent::kLookUp)) << "to earlier releases";
  body.back() = std::byte{77};
  request.intent = Intent::kLookUp;
  EXPECT_EQ(decodeDirectoryRequest(body), request);
  body = encode(sampleRequest());
  body[kIntentAt] = std::byte{77};
  EXPECT_EQ(decodeDirectoryRequest(body), request);
}

TEST(DirectoryMessage, RefusesSizesWhoseDirectoryWouldBeHuge) {
  DirectoryRequest request = sampleRequest();
  request.size = 1ull << 44;
  EXPECT_TRUE(decodeDirectoryRequest(encode(request)));
  request.size = ~0ull;
  EXPECT_FALSE(decodeDirectoryRequest(encode(request)));
}

TEST(DirectoryMessage, RefusesCountsThatTheBodyCannotHold) {
  std::vector<std::byte> report(9, std::byte{0xff});
  EXPECT_FALSE(decodeAgentReport(report));
}

}  // namespace
}  // namespace hearth
