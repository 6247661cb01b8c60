#include "wire/frame.h"

#include <gtest/gtest.h>

#include <random>

#include "base/optional_fields.h"

namespace hearth {
namespace {

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
  std::optional<MemoryDescriptor> memory() {
    if (below(2) == 0) return std::nullopt;
    MemoryDescriptor memory{static_cast<MemoryKind>(1 + below(4)),
                            static_cast<std::uint32_t>(1 + below(1000)),
                            below(~0ull),
                            below(~0ull),
                            below(1ull << 40),
                            1 + below(1ull << 40),
                            {}};
    for (std::uint64_t keys = below(5); keys > 0; --keys) {
      memory.keys.push_back({static_cast<std::uint32_t>(below(9)), below(~0ull)});
    }
    return memory;
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

std::vector<std::byte> withField(std::vector<std::byte> frame, std::uint16_t tag) {
  ByteWriter out(frame);
  putField(out, tag, std::as_bytes(std::span("later")));
  return frame;
}

// Every prefix of a body is refused (except where optional fields begin), and so is every flipped
// bit of the frame but those of flags that mean nothing; optional fields of later releases are
// passed over.
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
    const Result<Body> cut = decodeBody<Body>(bodyOf(frame).first(length));
    EXPECT_TRUE(!cut.ok() || !(*cut == body));
  }
  std::vector<std::byte> longer = frame;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decodeBody<Body>(bodyOf(longer)).ok());
  const Result<Body> later = decodeBody<Body>(bodyOf(withField(frame, 99)));
  ASSERT_TRUE(later.ok()) << later.error().message;
  EXPECT_EQ(*later, body);
  EXPECT_EQ(decodeBody<Body>(bodyOf(withField(frame, 99 | kMustUnderstand))).code(),
            ErrorCode::kUnsupported);
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
    const auto oldest = static_cast<std::uint16_t>(random.below(1000));
    const auto newest = static_cast<std::uint16_t>(oldest + random.below(1000));
    return Hello{random.name(),
                 random.name(),
                 random.name(),
                 random.bytes<32>(),
                 oldest,
                 newest,
                 random.below(~0ull),
                 static_cast<std::uint32_t>(random.below(~0u))};
  });
  expectRoundTrips<Challenge>([](Random& random) {
    return Challenge{random.name(),
                     random.name(),
                     random.name(),
                     random.bytes<32>(),
                     static_cast<std::uint16_t>(random.below(65536)),
                     random.below(~0ull),
                     static_cast<ProofKind>(random.below(256))};
  });
  expectRoundTrips<Proof>([](Random& random) {
    return Proof{static_cast<ProofKind>(random.below(256)), random.blob()};
  });
  expectRoundTrips<Refuse>([](Random& random) {
    return Refuse{random.failure(), random.sentence()};
  });
  expectRoundTrips<Goodbye>([](Random& random) {
    return Goodbye{random.failure(), random.sentence()};
  });
  expectRoundTrips<Credit>([](Random& random) {
    Credit credit{random.below(~0ull), static_cast<std::uint32_t>(random.below(~0u)), {}};
    if (random.below(2) == 0) credit.writes = WriteCredit{random.below(~0ull), 7};
    return credit;
  });
  expectRoundTrips<WriteRequest>([](Random& random) {
    const std::uint64_t block = random.below(1u << 30);
    const std::uint64_t room = kChunkBytes - block * kBlockBytes % kChunkBytes;
    return WriteRequest{{random.bytes<32>()},
                        block * kBlockBytes,
                        static_cast<std::uint32_t>(1 + random.below(room)),
                        static_cast<std::uint32_t>(random.below(~0u)),
                        static_cast<RequestClass>(random.below(3)),
                        random.below(~0ull),
                        random.memory()};
  });
  expectRoundTrips<WriteData>([](Random& random) {
    const std::uint64_t block = random.below(kChunkBytes / kBlockBytes);
    const std::uint64_t room = kChunkBytes - block * kBlockBytes;
    WriteData data{static_cast<std::uint32_t>(block * kBlockBytes),
                   static_cast<std::uint32_t>(1 + random.below(room)),
                   {}};
    for (std::size_t i = 0; i < blocksOf(data.payloadLength); ++i)
      data.blockChecksums.push_back(static_cast<std::uint32_t>(random.below(~0u)));
    return data;
  });
  expectRoundTrips<WriteAnswer>([](Random& random) {
    if (random.below(2) == 0) return WriteAnswer{};
    return WriteAnswer{random.failure(), random.sentence()};
  });
  expectRoundTrips<ReadRequest>([](Random& random) {
    const std::uint64_t block = random.below(1u << 30);
    const std::uint64_t room = kChunkBytes - block * kBlockBytes % kChunkBytes;
    return ReadRequest{{random.bytes<32>()},
                       block * kBlockBytes,
                       static_cast<std::uint32_t>(1 + random.below(room)),
                       static_cast<std::uint32_t>(random.below(~0u)),
                       static_cast<RequestClass>(random.below(3)),
                       random.memory()};
  });
  expectRoundTrips<ManifestRequest>([](Random& random) {
    return ManifestRequest{random.bytes<32>(), random.below(1u << 30) * kBlockBytes,
                           static_cast<std::uint32_t>(1 + random.below(kChunkBytes))};
  });
  expectRoundTrips<ReadAnswer>([](Random& random) {
    ReadAnswer answer = random.answer<ReadAnswer>();
    if (answer.code != ErrorCode::kOk || random.below(2) == 0) return answer;
    const std::uint64_t room = (kChunkBytes - answer.payloadLength) / kBlockBytes;
    answer.part = AnswerPart{static_cast<std::uint32_t>(random.below(room + 1) * kBlockBytes),
                             random.below(2) == 0};
    return answer;
  });
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
  expectExact(Proof{ProofKind::kCapability, std::vector<std::byte>(kMaxProofBytes)}, 0);
  ReadRequest request{.length = 1, .target = MemoryDescriptor{.leaseMs = 1, .length = 1}};
  request.target->keys.assign(kMaxRemoteKeys, {1, 2});
  expectExact(request, 1);
  WriteRequest write{.length = 1, .target = request.target};
  expectExact(write, 1);
  WriteData data{.payloadLength = kChunkBytes, .blockChecksums = {}};
  data.blockChecksums.assign(blocksOf(kChunkBytes), 7);
  expectExact(data, 1);
  ReadAnswer answer{.payloadLength = kChunkBytes};
  answer.blockChecksums.assign(blocksOf(kChunkBytes), 7);
  expectExact(answer, 1);
  expectExact(ControlRequest{1, std::vector<std::byte>(kMaxControlBytes)}, 2);
  expectExact(ControlAnswer{ErrorCode::kOk, {}, 1, std::vector<std::byte>(kMaxControlBytes)}, 2);
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

TEST(Frame, RefusesPartsThatMakeNoSense) {
  const auto refused = [](const ReadAnswer& answer) {
    return !decodeBody<ReadAnswer>(bodyOf(encodeFrame(answer))).ok();
  };
  EXPECT_TRUE(refused({ErrorCode::kOk, {}, 1, {1}, AnswerPart{1, true}}));
  EXPECT_TRUE(refused({ErrorCode::kOk, {}, 1, {1}, AnswerPart{kChunkBytes, true}}));
  EXPECT_TRUE(refused({ErrorCode::kNotFound, "x", 0, {}, AnswerPart{0, true}}));
  EXPECT_FALSE(refused({ErrorCode::kOk, {}, 1, {1}, AnswerPart{kChunkBytes - kBlockBytes, true}}));
}

// Values of later releases, unknown to this one.
TEST(Frame, TakesWhatALaterReleaseSaysForTheNearestThatItKnows) {
  std::vector<std::byte> request = encodeFrame(ReadRequest{.length = 1});
  request[kFrameHeaderBytes + 48] = std::byte{77};  // the class
  EXPECT_EQ(decodeBody<ReadRequest>(bodyOf(request))->requestClass, RequestClass::kWarm);
  const MemoryDescriptor memory{static_cast<MemoryKind>(77), 1, 1, 1, 1, 1, {}};
  const auto unknownKind = encodeFrame(ReadRequest{.length = 1, .target = memory});
  const Result<ReadRequest> decoded = decodeBody<ReadRequest>(bodyOf(unknownKind));
  ASSERT_TRUE(decoded.ok());
  EXPECT_FALSE(decoded->target.has_value());
  std::vector<std::byte> answer = encodeFrame(ReadAnswer{ErrorCode::kInternal, "new", 0, {}, {}});
  answer[kFrameHeaderBytes] = std::byte{0xff};
  answer[kFrameHeaderBytes + 1] = std::byte{0xff};
  EXPECT_EQ(decodeBody<ReadAnswer>(bodyOf(answer))->code, ErrorCode::kInternal);
  EXPECT_EQ(decodeBody<ReadAnswer>(bodyOf(answer))->sentence, "new");
}

TEST(Frame, RefusesMemoryThatMakesNoSense) {
  const auto refused = [](const MemoryDescriptor& memory) {
    return !decodeBody<ReadRequest>(bodyOf(encodeFrame(ReadRequest{.length = 1, .target = memory})))
                .ok();
  };
  EXPECT_FALSE(refused({MemoryKind::kHost, 1, 0, 0, 0, 1, {}}));
  EXPECT_TRUE(refused({MemoryKind::kUnknown, 1, 0, 0, 0, 1, {}}));
  EXPECT_TRUE(refused({MemoryKind::kHost, 0, 0, 0, 0, 1, {}}));
  EXPECT_TRUE(refused({MemoryKind::kHost, 1, 0, 0, 0, 0, {}}));
  EXPECT_TRUE(refused({MemoryKind::kHost, 1, 0, 0, 2, ~0ull - 1, {}}));
  EXPECT_TRUE(
      refused({MemoryKind::kHost, 1, 0, 0, 0, 1, std::vector<RemoteKey>(kMaxRemoteKeys + 1)}));
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

}  // namespace
}  // namespace hearth
