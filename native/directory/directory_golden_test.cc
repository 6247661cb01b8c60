// The bytes of every message of the key directory, as control requests and answers carry them. A
// change that alters them breaks agents of neighbouring releases: what is new goes into optional
// fields, or into another message.
#include <gtest/gtest.h>

#include "base/testing/golden_bytes.h"
#include "directory/directory_message.h"
#include "wire/frame.h"

namespace hearth {
namespace {

using testing_support::bytesOfHex;
using testing_support::expectGolden;
using testing_support::hexOf;

const std::string kKeyHex = "abababababababababababababababababababababababababababababababab";

DirectoryRequest request() {
  DirectoryRequest request;
  request.key.bytes.fill(0xab);
  return request;
}

// Fields that a later release may append to a body: one a reader may skip, and one it must
// understand.
const std::string kLaterField = "090005006c61746572";
const std::string kRequiredField = "098005006c61746572";

// `hex` is the body of a message; fields of later releases behind it change nothing, or are
// refused.
template <class Value, class Decode>
void expectBody(const std::string& hex, const Value& value, Decode decode) {
  const auto encoding = [](const Value& each) { return encode(each); };
  expectGolden(hex, value, encoding, decode);
  const auto later = decode(bytesOfHex(hex + kLaterField));
  ASSERT_TRUE(later) << hex;
  EXPECT_EQ(hexOf(encode(*later)), hex);
  EXPECT_FALSE(decode(bytesOfHex(hex + kRequiredField))) << hex;
}

// The body of a frame, without its header.
template <class Frame>
std::vector<std::byte> frameBody(const Frame& body) {
  const std::vector<std::byte> frame = encodeFrame(body);
  return {frame.begin() + kFrameHeaderBytes, frame.end()};
}

// `typeAndLength` are those of the control request around `body`.
void expectRequest(DirectoryMessage type, const std::string& typeAndLength, const std::string& body,
                   const DirectoryRequest& value) {
  expectBody(body, value, decodeDirectoryRequest);
  const ControlRequest control{static_cast<std::uint16_t>(type), encode(value)};
  EXPECT_EQ(hexOf(frameBody(control)), typeAndLength + body);
}

void expectLocate() {
  DirectoryRequest locate = request();
  locate.size = 1ull << 40;
  locate.stripe = 77;
  locate.chunks = 0x8001;
  locate.intent = Intent::kFetch;
  locate.failure = {"node-b", true};
  expectRequest(DirectoryMessage::kLocate, "06003a000000",
                kKeyHex +
                    "0000000000010000"
                    "4d000000"
                    "0180"
                    "02"
                    "01"
                    "0600"
                    "6e6f64652d62"
                    "0000",
                locate);
  locate = request();
  locate.size = 5;
  locate.chunks = 1;
  locate.intent = Intent::kRead;
  expectRequest(DirectoryMessage::kLocate, "060034000000",
                kKeyHex +
                    "0500000000000000"
                    "00000000"
                    "0100"
                    "01"
                    "00"
                    "0000"
                    "0000",
                locate);
  expectBody(
      "0080"
      "70110100"
      "0201"
      "0200"
      "010061ffff"
      "f000"
      "01006201000000"
      "0100"
      "01006302000000",
      LocateAnswer{{{"a", 0xffff, 0xf0}, {"b", 1}}, {{"c", 2}}, 0x8000, 70'000, 0x0102},
      decodeLocateAnswer);
  expectBody("000001000000000000000000", LocateAnswer{}, decodeLocateAnswer);
  expectBody(
      "0000"
      "02000000"
      "0000"
      "0000"
      "0100"
      "01006303000000"
      "0100"
      "0200"
      "0200",
      LocateAnswer{.fetchers = {{"c", 3}}, .sharers = 2, .arriving = 2}, decodeLocateAnswer);
}

void expectQuery() {
  DirectoryRequest query = request();
  query.size = 7;
  expectRequest(DirectoryMessage::kQuery, "080034000000",
                kKeyHex + "0700000000000000" + std::string(24, '0'), query);
  expectBody(
      "01"
      "03000000"
      "010002000300"
      "02000000"
      "0700000009000000"
      "02000000"
      "00000200",
      AgentReport{true, {1, 2, 3}, {7, 9}, {0, 2}}, decodeAgentReport);
  expectBody("00000000000000000000000000", AgentReport{}, decodeAgentReport);
  expectBody(
      "00"
      "01000000"
      "0700"
      "00000000"
      "00000000"
      "0100"
      "0e00"
      "01"
      "0300"
      "616263"
      "0500000000000000",
      AgentReport{.held = {7}, .copy = CopyState{true, "abc", 5}}, decodeAgentReport);
}

// An agent reports that it holds chunks, or does not, or will not: the answer is empty.
void expectHave() {
  DirectoryRequest have = request();
  have.size = 9;
  have.stripe = 1;
  have.chunks = 3;
  have.inMemory = 2;
  expectRequest(DirectoryMessage::kHave, "020034000000",
                kKeyHex + "0900000000000000" + "01000000" + "0300" + "00000000" + "0200", have);
}

void expectGiveUp() {
  DirectoryRequest giveUp = request();
  giveUp.size = 9;
  giveUp.stripe = 1;
  giveUp.chunks = 3;
  expectRequest(DirectoryMessage::kGiveUp, "070034000000",
                kKeyHex + "0900000000000000" + "01000000" + "0300" + "00000000" + "0000", giveUp);
}

void expectDropped() {
  DirectoryRequest dropped = request();
  dropped.size = 9;
  expectRequest(DirectoryMessage::kDropped, "040034000000",
                kKeyHex + "0900000000000000" + std::string(24, '0'), dropped);
}

void expectAwait() {
  DirectoryRequest await = request();
  await.stripe = 2;
  await.chunks = 16;
  expectRequest(DirectoryMessage::kAwait, "090034000000",
                kKeyHex + "0000000000000000" + "02000000" + "1000" + "00000000" + "0000", await);
}

void expectRelease() {
  DirectoryRequest release = request();
  release.size = 9;
  release.leave = LeaveRequest{.number = 5, .usedAtMs = 0x0102};
  expectRequest(DirectoryMessage::kRelease, "0b0048000000",
                kKeyHex + "0900000000000000" + std::string(24, '0') +
                    "0200"
                    "1000"
                    "0500000000000000"
                    "0201000000000000",
                release);
  expectBody("01", ReleaseAnswer::kGranted, decodeReleaseAnswer);
  expectBody("02", ReleaseAnswer::kRefused, decodeReleaseAnswer);
  expectBody("03", ReleaseAnswer::kUnconfirmed, decodeReleaseAnswer);
  EXPECT_EQ(decodeReleaseAnswer(bytesOfHex("04")), ReleaseAnswer::kRefused);
  EXPECT_FALSE(decodeReleaseAnswer({}));
}

void expectUpdates() {
  DirectoryRequest about = request();
  about.size = 9;
  about.stripe = 1;
  about.chunks = 3;
  about.inMemory = 2;
  const std::vector<DirectoryUpdate> updates = {{DirectoryMessage::kHave, about},
                                                {DirectoryMessage::kGiveUp, about},
                                                {DirectoryMessage::kDropped, {.size = 7}}};
  const std::string one = kKeyHex + "0900000000000000" + "01000000" + "0300" + "0200";
  const std::string body =
      "03000000"
      "0200" +
      one + "0700" + one + "0400" + std::string(64, '0') + "0700000000000000" +
      std::string(16, '0');
  expectBody(body, updates, decodeDirectoryUpdates);
  expectBody("00000000", std::vector<DirectoryUpdate>{}, decodeDirectoryUpdates);
  const ControlRequest control{static_cast<std::uint16_t>(DirectoryMessage::kUpdates),
                               encode(updates)};
  EXPECT_EQ(hexOf(frameBody(control)), "0a009a000000" + body);
}

// False for a number that is none. The compiler wants a case here for each message.
bool expectMessage(DirectoryMessage type) {
  switch (type) {
    case DirectoryMessage::kHave:
      expectHave();
      return true;
    case DirectoryMessage::kDropped:
      expectDropped();
      return true;
    case DirectoryMessage::kLocate:
      expectLocate();
      return true;
    case DirectoryMessage::kGiveUp:
      expectGiveUp();
      return true;
    case DirectoryMessage::kQuery:
      expectQuery();
      return true;
    case DirectoryMessage::kAwait:
      expectAwait();
      return true;
    case DirectoryMessage::kUpdates:
      expectUpdates();
      return true;
    case DirectoryMessage::kRelease:
      expectRelease();
      return true;
  }
  return false;
}

TEST(DirectoryGolden, BytesOfEveryMessage) {
  std::vector<unsigned> messages;
  for (unsigned number = kDirectoryControlFirst; number < kEngineControlFirst; ++number) {
    if (expectMessage(static_cast<DirectoryMessage>(number))) messages.push_back(number);
  }
  EXPECT_EQ(messages, (std::vector<unsigned>{2, 4, 6, 7, 8, 9, 10, 11}));
}

// Of have, giveUp, dropped, updates and await.
TEST(DirectoryGolden, AnswersWithoutABody) {
  const ControlAnswer answer{ErrorCode::kOk, {}, 10, {}};
  expectGolden("000000000a0000000000", answer, frameBody<ControlAnswer>, decodeBody<ControlAnswer>);
}

}  // namespace
}  // namespace hearth
