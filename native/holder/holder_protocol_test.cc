#include "holder/holder_protocol.h"

#include <gtest/gtest.h>

#include <random>

namespace hearth {
namespace {

HolderRequest sample(HolderRequestKind kind) {
  HolderRequest request;
  request.kind = kind;
  request.sequence = 77;
  request.owner = "node-a";
  request.target = "/mnt/models";
  request.source = "llama";
  request.selinuxContext = "system_u:object_r:container_file_t:s0";
  request.readAheadKiB = 4096;
  request.blob = std::string("\0digest", 7);
  request.state = "state";
  request.force = true;
  return request;
}

const HolderRequestKind kKinds[] = {HolderRequestKind::kAttach,  HolderRequestKind::kTake,
                                    HolderRequestKind::kMount,   HolderRequestKind::kSaveState,
                                    HolderRequestKind::kUnmount, HolderRequestKind::kList};

TEST(HolderProtocol, RequestsComeBackAsTheyWere) {
  for (const HolderRequestKind kind : kKinds) {
    const auto bytes = encode(sample(kind));
    const auto decoded = decodeHolderRequest(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(decoded->kind, kind);
    EXPECT_EQ(encode(*decoded), bytes);
  }
  const auto mount = decodeHolderRequest(encode(sample(HolderRequestKind::kMount)));
  EXPECT_EQ(mount->blob.size(), 7U);
  EXPECT_EQ(mount->readAheadKiB, 4096U);
}

TEST(HolderProtocol, RepliesComeBackAsTheyWere) {
  HolderReply reply;
  reply.sequence = 5;
  reply.count = 3;
  reply.record = HolderRecord{"/mnt", "s", "o", 4, 45, true, true, 12, "blob", "state"};
  const auto decoded = decodeHolderReply(encode(reply));
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->record->epoch, 4U);
  EXPECT_TRUE(decoded->record->aborted);
  EXPECT_EQ(decoded->record->state, "state");
  EXPECT_EQ(encode(*decoded), encode(reply));
}

TEST(HolderProtocol, RefusesEveryTruncationAndExtension) {
  for (const HolderRequestKind kind : kKinds) {
    auto bytes = encode(sample(kind));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(decodeHolderRequest(std::span(bytes).first(size)).code(),
                ErrorCode::kProtocolError);
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decodeHolderRequest(bytes).ok());
    bytes[8] = static_cast<std::byte>(bytes.size());  // the length field agrees, the fields do not
    EXPECT_FALSE(decodeHolderRequest(bytes).ok());
  }
}

TEST(HolderProtocol, RefusesFieldsThatAreTooLong) {
  HolderRequest request = sample(HolderRequestKind::kMount);
  request.target = "/" + std::string(kMaxHolderPath, 'x');
  EXPECT_FALSE(decodeHolderRequest(encode(request)).ok());
  request = sample(HolderRequestKind::kMount);
  request.target = std::string("/a\0b", 4);
  EXPECT_FALSE(decodeHolderRequest(encode(request)).ok());
}

TEST(HolderProtocol, SurvivesGarbage) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    auto bytes = encode(sample(kKinds[random() % std::size(kKinds)]));
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    if (const auto decoded = decodeHolderRequest(bytes); decoded.ok()) {
      EXPECT_TRUE(decodeHolderRequest(encode(*decoded)).ok());
    }
    (void)decodeHolderReply(bytes).ok();
  }
}

}  // namespace
}  // namespace hearth
