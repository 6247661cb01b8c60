#include "wire/frame.h"

#include <gtest/gtest.h>

#include <random>

#include "base/crc32c.h"

namespace hearth {
namespace {

std::string hexOf(std::span<const std::byte> bytes) {
  static const char* const digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[static_cast<unsigned>(byte) >> 4];
    text += digits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

std::span<const std::byte> bodyOf(const std::vector<std::byte>& frame) {
  return std::span(frame).subspan(kFrameHeaderBytes);
}

// Values that a decoder must accept, from a seeded generator.
class Random {
 public:
  std::uint64_t below(std::uint64_t limit) { return engine_() % limit; }
  std::string name() {
    std::string text(1 + below(kMaxNameBytes), 'a');
    for (char& character : text) character = static_cast<char>('!' + below(90));
    return text;
  }
  std::string sentence() { return below(2) == 0 ? std::string() : name(); }
  ErrorCode failure() { return static_cast<ErrorCode>(1 + below(18)); }
  template <std::size_t size>
  std::array<std::uint8_t, size> bytes() {
    std::array<std::uint8_t, size> value;
    for (std::uint8_t& byte : value) byte = static_cast<std::uint8_t>(engine_());
    return value;
  }
  std::vector<std::byte> blob() {
    std::vector<std::byte> value(below(3000));
    for (std::byte& byte : value) byte = static_cast<std::byte>(engine_());
    return value;
  }
  template <class Answer>
  Answer answer() {
    Answer answer;
    if (below(3) == 0) {
      answer.code = failure();
      answer.sentence = sentence();
      return answer;
    }
    answer.payloadLength = static_cast<std::uint32_t>(below(kChunkBytes + 1));
    for (std::size_t i = 0; i < blocksOf(answer.payloadLength); ++i) {
      answer.blockChecksums.push_back(static_cast<std::uint32_t>(engine_()));
    }
    return answer;
  }

 private:
  std::mt19937_64 engine_{20261121};
};

// Every prefix and every extension of a body is refused, and so is every flipped bit of the frame.
template <class Body>
void expectExact(const Body& body, std::uint64_t requestId) {
  const std::vector<std::byte> frame = encodeFrame(body, requestId);
  const Result<FrameHeader> header = decodeHeader(frame);
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header.value().type, Body::kType);
  EXPECT_EQ(header.value().requestId, requestId);
  EXPECT_EQ(header.value().bodyLength, bodyOf(frame).size());
  EXPECT_LE(bodyOf(frame).size(), bodyLimit(Body::kType));
  EXPECT_TRUE(checkBody(header.value(), bodyOf(frame)).ok());
  const Result<Body> decoded = decodeBody<Body>(bodyOf(frame));
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(decoded.value(), body);

  for (std::size_t length = 0; length < bodyOf(frame).size(); length += 1 + length / 8) {
    EXPECT_FALSE(decodeBody<Body>(bodyOf(frame).first(length)).ok());
  }
  std::vector<std::byte> longer = frame;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decodeBody<Body>(bodyOf(longer)).ok());
  for (std::size_t bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
    std::vector<std::byte> damaged = frame;
    damaged[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    EXPECT_FALSE(decodeHeader(damaged).ok()) << "bit " << bit;
  }
}

template <class Body, class Make>
void expectRoundTrips(Make make) {
  Random random;
  for (int i = 0; i < 40; ++i) expectExact<Body>(make(random), random.below(~0ull));
}

TEST(Frame, RoundTripsEveryBody) {
  expectRoundTrips<Preface>([](Random& random) {
    const auto shards = static_cast<std::uint32_t>(1 + random.below(kMaxShards));
    return Preface{static_cast<std::uint32_t>(random.below(shards)), shards};
  });
  expectRoundTrips<Hello>([](Random& random) {
    return Hello{random.name(), random.name(), random.name(), random.bytes<32>()};
  });
  expectRoundTrips<Challenge>([](Random& random) {
    return Challenge{random.name(), random.name(), random.name(), random.bytes<32>()};
  });
  expectRoundTrips<Proof>([](Random& random) { return Proof{random.bytes<32>()}; });
  expectRoundTrips<Refuse>([](Random& random) {
    return Refuse{random.failure(), random.sentence()};
  });
  expectRoundTrips<Goodbye>([](Random& random) {
    return Goodbye{random.failure(), random.sentence()};
  });
  expectRoundTrips<Credit>([](Random& random) {
    return Credit{random.below(~0ull), static_cast<std::uint32_t>(random.below(~0u))};
  });
  expectRoundTrips<ReadRequest>([](Random& random) {
    const std::uint64_t block = random.below(1u << 30);
    const std::uint64_t room = kChunkBytes - block * kBlockBytes % kChunkBytes;
    return ReadRequest{{random.bytes<32>()},
                       block * kBlockBytes,
                       static_cast<std::uint32_t>(1 + random.below(room)),
                       static_cast<std::uint32_t>(random.below(~0u))};
  });
  expectRoundTrips<ManifestRequest>([](Random& random) {
    return ManifestRequest{random.bytes<32>(), random.below(1u << 30) * kBlockBytes,
                           static_cast<std::uint32_t>(1 + random.below(kChunkBytes))};
  });
  expectRoundTrips<ReadAnswer>([](Random& random) { return random.answer<ReadAnswer>(); });
  expectRoundTrips<ManifestAnswer>([](Random& random) { return random.answer<ManifestAnswer>(); });
  expectRoundTrips<ControlRequest>([](Random& random) {
    return ControlRequest{static_cast<std::uint16_t>(random.below(65536)), random.blob()};
  });
  expectRoundTrips<ControlAnswer>([](Random& random) {
    if (random.below(2) == 0) return ControlAnswer{random.failure(), random.sentence(), 0, {}};
    return ControlAnswer{
        ErrorCode::kOk, {}, static_cast<std::uint16_t>(random.below(65536)), random.blob()};
  });
}

TEST(Frame, LongestBodiesFitTheirLimits) {
  const std::string name(kMaxNameBytes, 'n');
  expectExact(Hello{name, name, name, {}}, 0);
  ReadAnswer answer{.payloadLength = kChunkBytes};
  answer.blockChecksums.assign(blocksOf(kChunkBytes), 7);
  expectExact(answer, 1);
  expectExact(ControlRequest{1, std::vector<std::byte>(kMaxControlBytes)}, 2);
  expectExact(ControlAnswer{ErrorCode::kOk, {}, 1, std::vector<std::byte>(kMaxControlBytes)}, 2);
}

// These bytes are the protocol: a change that alters them needs another version.
TEST(Frame, GoldenBytes) {
  EXPECT_EQ(hexOf(encodeFrame(Preface{3, 4})),
            "48525448010001000000000008000000000000000000000010044e2cebc2fcec"
            "0300000004000000");
  EXPECT_EQ(hexOf(encodeEmptyFrame(FrameType::kPing, 0x1122334455667788)),
            "48525448010008000000000000000000887766554433221100000000ad4c6f2d");
  EXPECT_EQ(hexOf(bodyOf(encodeFrame(Hello{"c", "node-1", "i", {}}))),
            "0100630600"
            "6e6f64652d31"
            "010069" +
                std::string(64, '0'));
  ContentKey key;
  key.bytes.fill(0xab);
  std::string keyHex;
  for (int i = 0; i < 32; ++i) keyHex += "ab";
  EXPECT_EQ(hexOf(bodyOf(encodeFrame(ReadRequest{key, 3 * kBlockBytes, 65537, 2500}))),
            keyHex +
                "0000030000000000"
                "01000100"
                "c4090000");
  EXPECT_EQ(hexOf(bodyOf(encodeFrame(
                ReadAnswer{.payloadLength = 65537, .blockChecksums = {0x01020304, 5}}))),
            "00000000"
            "01000100"
            "02000000"
            "04030201"
            "05000000");
  EXPECT_EQ(hexOf(bodyOf(encodeFrame(Refuse{ErrorCode::kUnauthenticated, "no"}))),
            "0600"
            "0200"
            "6e6f");
  EXPECT_EQ(hexOf(bodyOf(encodeFrame(Credit{1u << 26, 1024}))),
            "0000000400000000"
            "00040000");
}

TEST(Frame, RefusesRangesThatNoOneMayAskFor) {
  const auto refused = [](const ReadRequest& request) {
    return !decodeBody<ReadRequest>(bodyOf(encodeFrame(request))).ok();
  };
  EXPECT_TRUE(refused({{}, 0, 0, 1}));
  EXPECT_TRUE(refused({{}, 1, 1, 1}));
  EXPECT_TRUE(refused({{}, 0, kChunkBytes + 1, 1}));
  EXPECT_TRUE(refused({{}, kBlockBytes, kChunkBytes, 1}));
  EXPECT_TRUE(refused({{}, ~0ull - 65535 + 1, 0, 1}));
  EXPECT_FALSE(refused({{}, ~0ull - 65535, 65536, 1}));
}

TEST(Frame, RefusesPayloadsBesideErrorsAndWrongNumbersOfChecksums) {
  const auto refused = [](const ReadAnswer& answer) {
    return !decodeBody<ReadAnswer>(bodyOf(encodeFrame(answer))).ok();
  };
  EXPECT_TRUE(refused({ErrorCode::kNotFound, "x", 1, {1}}));
  EXPECT_TRUE(refused({ErrorCode::kOk, {}, 65536, {1, 2}}));
  EXPECT_TRUE(refused({ErrorCode::kOk, {}, 65537, {1}}));
  EXPECT_TRUE(refused({ErrorCode::kOk, "x", 1, {1}}));
  EXPECT_FALSE(refused({ErrorCode::kOk, {}, 0, {}}));
}

TEST(Frame, RefusesNamesAndSentencesThatCouldDisturbALog) {
  EXPECT_FALSE(decodeBody<Hello>(bodyOf(encodeFrame(Hello{"c", "a\nb", "i", {}}))).ok());
  EXPECT_FALSE(decodeBody<Hello>(bodyOf(encodeFrame(Hello{"", "a", "i", {}}))).ok());
  const std::vector<std::byte> frame =
      encodeFrame(Refuse{ErrorCode::kInternal, "a\x1b[2Jb" + std::string(5000, 'x')});
  const Result<Refuse> refuse = decodeBody<Refuse>(bodyOf(frame));
  ASSERT_TRUE(refuse.ok());
  EXPECT_EQ(refuse.value().sentence.substr(0, 6), "a [2Jb");
  EXPECT_EQ(refuse.value().sentence.size(), kMaxSentenceBytes);
}

TEST(Frame, AnotherVersionIsUnsupportedExceptForRefuse) {
  const auto withVersion = [](std::vector<std::byte> frame, std::uint8_t version) {
    frame[4] = static_cast<std::byte>(version);
    const std::uint32_t checksum = crc32c(std::span(frame).first(28));
    for (unsigned i = 0; i < 4; ++i) {
      frame[28 + i] = static_cast<std::byte>((checksum >> (8 * i)) & 0xff);
    }
    return frame;
  };
  EXPECT_EQ(decodeHeader(withVersion(encodeFrame(Preface{}), 2)).code(), ErrorCode::kUnsupported);
  EXPECT_TRUE(decodeHeader(withVersion(encodeFrame(Refuse{ErrorCode::kUnsupported, "v"}), 9)).ok());
}

TEST(Frame, RandomBytesNeverPass) {
  Random random;
  for (int i = 0; i < 20000; ++i) {
    const auto noise = random.bytes<64>();
    EXPECT_FALSE(decodeHeader(std::as_bytes(std::span(noise))).ok());
  }
}

}  // namespace
}  // namespace hearth
