// The bytes of every frame. They are the protocol: a change that alters them needs another version.
// They are what version 2 was when it was first released, so that later releases are held to it,
// and frames of writes what they were when the feature `writes` came.
#include <gtest/gtest.h>

#include "base/testing/golden_bytes.h"
#include "wire/frame.h"

namespace hearth {
namespace {

using testing_support::bytesOfHex;
using testing_support::expectGolden;

// Fields that a later release may append to a body: one a reader may skip, and one it must
// understand.
const std::string kLaterField = "630005006c61746572";
const std::string kRequiredField = "638005006c61746572";
const std::string kKeyHex = "abababababababababababababababababababababababababababababababab";

ContentKey goldenKey() {
  ContentKey key;
  key.bytes.fill(0xab);
  return key;
}

template <class Body>
std::vector<std::byte> encodeBody(const Body& body) {
  const std::vector<std::byte> frame = encodeFrame(body);
  return {frame.begin() + kFrameHeaderBytes, frame.end()};
}

// `hex` is the body of a frame; fields of later releases behind it change nothing, or are refused.
template <class Body>
void expectBody(const std::string& hex, const Body& body) {
  expectGolden(hex, body, encodeBody<Body>, decodeBody<Body>);
  const Result<Body> later = decodeBody<Body>(bytesOfHex(hex + kLaterField));
  ASSERT_TRUE(later.ok()) << hex << ": " << later.error().message;
  EXPECT_EQ(*later, body);
  EXPECT_EQ(decodeBody<Body>(bytesOfHex(hex + kRequiredField)).code(), ErrorCode::kUnsupported);
}

// A frame without a body.
void expectEmptyFrame(const std::string& hex, FrameType type) {
  EXPECT_EQ(testing_support::hexOf(encodeEmptyFrame(type, 0x1122334455667788)), hex);
  const Result<FrameHeader> header = decodeHeader(bytesOfHex(hex));
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(*header, (FrameHeader{.type = type, .requestId = 0x1122334455667788}));
}

// The whole frame: its header shows where the checksums are. It has no optional fields.
void expectPreface() {
  const std::string header =
      "485254480200010000000000080000000000000000000000"
      "10044e2c88f3c027";
  const std::string body = "0300000004000000";
  const auto encoding = [](const Preface& preface) { return encodeFrame(preface); };
  const auto decoding = [](const std::vector<std::byte>& frame) -> Result<Preface> {
    const Result<FrameHeader> decoded = decodeHeader(frame);
    if (!decoded.ok()) return decoded.error();
    return decodeBody<Preface>(std::span(frame).subspan(kFrameHeaderBytes));
  };
  expectGolden(header + body, Preface{3, 4}, encoding, decoding);
}

void expectGreeting() {
  const std::string names =
      "010063"
      "0600"
      "6e6f64652d31"
      "010069";
  expectBody(names + std::string(64, '0') +
                 "0200"
                 "0200"
                 "0100000000000000"
                 "02000000",
             Hello{"c", "node-1", "i", {}, 2, 2, 1});
}

void expectChallenge() {
  expectBody(
      "010063"
      "01006e"
      "010069" +
          std::string(64, '0') +
          "0200"
          "0100000000000000"
          "01",
      Challenge{"c", "n", "i", {}, 2, 1});
}

void expectReadRequest() {
  const ContentKey key = goldenKey();
  expectBody(kKeyHex +
                 "0000030000000000"
                 "01000100"
                 "c4090000"
                 "00000000",
             ReadRequest{key, 3 * kBlockBytes, 65537, 2500});
  const MemoryDescriptor memory{MemoryKind::kGpu, 1000, 2, 3, 4, 5, {{6, 7}}};
  expectBody(kKeyHex +
                 "0000000000000000"
                 "00000100"
                 "01000000"
                 "02000000"
                 "01003400"
                 "03000100e803000002000000000000000300000000000000"
                 "04000000000000000500000000000000"
                 "060000000700000000000000",
             ReadRequest{key, 0, 65536, 1, RequestClass::kRepair, memory});
}

template <class Answer>
void expectDataAnswer() {
  expectBody(
      "00000000"
      "01000100"
      "02000000"
      "04030201"
      "05000000",
      Answer{.payloadLength = 65537, .blockChecksums = {0x01020304, 5}});
  expectBody(
      "0300"
      "0200"
      "6e6f"
      "00000000"
      "00000000",
      Answer{.code = ErrorCode::kNotFound, .sentence = "no"});
}

void expectReadAnswer() {
  expectDataAnswer<ReadAnswer>();
  expectBody(
      "00000000"
      "01000000"
      "01000000"
      "05000000"
      "01800500"
      "0000010001",
      ReadAnswer{.payloadLength = 1, .blockChecksums = {5}, .part = AnswerPart{kBlockBytes, true}});
}

void expectControl() {
  expectBody(
      "0600"
      "02000000"
      "0102",
      ControlRequest{6, {std::byte{1}, std::byte{2}}});
}

void expectControlAnswer() {
  expectBody(
      "00000000"
      "0600"
      "02000000"
      "0102",
      ControlAnswer{ErrorCode::kOk, {}, 6, {std::byte{1}, std::byte{2}}});
  expectBody(
      "0300"
      "02006e6f"
      "000000000000",
      ControlAnswer{ErrorCode::kNotFound, "no", 0, {}});
}

void expectCredit() {
  expectBody(
      "0000000400000000"
      "00040000",
      Credit{1u << 26, 1024, {}});
  expectBody(
      "0000000400000000"
      "00040000"
      "01000c00"
      "0000000100000000"
      "10000000",
      Credit{1u << 26, 1024, WriteCredit{1u << 24, 16}});
}

void expectWriteRequest() {
  const std::string range = kKeyHex +
                            "0000030000000000"
                            "01000100"
                            "c4090000"
                            "01000000"
                            "0800000000000000";
  WriteRequest request{goldenKey(), 3 * kBlockBytes, 65537, 2500, RequestClass::kWarm, 8, {}};
  expectBody(range, request);
  request.target = MemoryDescriptor{MemoryKind::kHost, 1000, 2, 3, 4, 5, {}};
  expectBody(range +
                 "01802800"
                 "01000000e803000002000000000000000300000000000000"
                 "04000000000000000500000000000000",
             request);
}

void expectWriteAnswer() {
  expectBody("00000000", WriteAnswer{});
  expectBody(
      "0e00"
      "0200"
      "6e6f",
      WriteAnswer{ErrorCode::kUnsupported, "no"});
}

// False for a number that is none. The compiler wants a case here for each frame.
bool expectFrame(FrameType type) {
  switch (type) {
    case FrameType::kPreface:
      expectPreface();
      return true;
    case FrameType::kHello:
      expectGreeting();
      return true;
    case FrameType::kChallenge:
      expectChallenge();
      return true;
    case FrameType::kProof:
      expectBody(
          "01"
          "01000000"
          "07",
          Proof{ProofKind::kClusterSecret, {std::byte{7}}});
      return true;
    case FrameType::kRefuse:
      expectBody(
          "0600"
          "0200"
          "6e6f",
          Refuse{ErrorCode::kUnauthenticated, "no"});
      return true;
    case FrameType::kCredit:
      expectCredit();
      return true;
    case FrameType::kGoodbye:
      expectBody(
          "0600"
          "0200"
          "6e6f",
          Goodbye{ErrorCode::kUnauthenticated, "no"});
      return true;
    case FrameType::kPing:
      expectEmptyFrame("48525448020008000000000000000000887766554433221100000000ce7d53e6", type);
      return true;
    case FrameType::kPong:
      expectEmptyFrame("485254480200090000000000000000008877665544332211000000007a9346ba", type);
      return true;
    case FrameType::kReadRequest:
      expectReadRequest();
      return true;
    case FrameType::kReadAnswer:
      expectReadAnswer();
      return true;
    case FrameType::kManifestRequest:
      expectBody(kKeyHex +
                     "0000030000000000"
                     "01000100",
                 ManifestRequest{goldenKey().bytes, 3 * kBlockBytes, 65537});
      return true;
    case FrameType::kManifestAnswer:
      expectDataAnswer<ManifestAnswer>();
      return true;
    case FrameType::kControlRequest:
      expectControl();
      return true;
    case FrameType::kControlAnswer:
      expectControlAnswer();
      return true;
    case FrameType::kCancel:
      expectEmptyFrame("48525448020016000000000000000000887766554433221100000000b0b2b713", type);
      return true;
    case FrameType::kWriteRequest:
      expectWriteRequest();
      return true;
    case FrameType::kWriteReady:
      expectEmptyFrame("48525448020018000000000000000000887766554433221100000000bb3b5035", type);
      return true;
    case FrameType::kWriteData:
      expectBody(
          "00000100"
          "01000100"
          "02000000"
          "04030201"
          "05000000",
          WriteData{kBlockBytes, 65537, {0x01020304, 5}});
      return true;
    case FrameType::kWriteAnswer:
      expectWriteAnswer();
      return true;
  }
  return false;
}

TEST(FrameGolden, BytesOfEveryFrame) {
  std::vector<unsigned> frames;
  for (unsigned number = 0; number < 256; ++number) {
    if (expectFrame(static_cast<FrameType>(number))) frames.push_back(number);
  }
  EXPECT_EQ(frames, (std::vector<unsigned>{1,  2,  3,  4,  5,  6,  7,  8,  9,  16,
                                           17, 18, 19, 20, 21, 22, 23, 24, 25, 26}));
  EXPECT_EQ(static_cast<std::uint64_t>(WireFeature::kWrites), 4u);
}

}  // namespace
}  // namespace hearth
