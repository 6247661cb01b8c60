#include "wire/object_message.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

const ObjectName kName{{"kv", {1, 2, 3}}, {4, 5, 6}};

InlineValue valueOf(std::size_t size) {
  return {std::vector<std::byte>(size, std::byte{7}), 0x12345678};
}

// Equal when decoded, and refused when cut off anywhere.
template <class Body, class Decode>
void expectCodec(const Body& body, Decode decode) {
  const std::vector<std::byte> bytes = encode(body);
  const auto decoded = decode(bytes);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(*decoded, body);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(decode(std::span(bytes).first(size)).code(), ErrorCode::kProtocolError) << size;
}

TEST(ObjectMessage, IsTheSameWhenDecodedAndCutOffIsRefused) {
  expectCodec(PutRequest{kName, 5u << 20, std::nullopt}, decodePutRequest);
  expectCodec(PutRequest{kName, 3, valueOf(3)}, decodePutRequest);
  expectCodec(PutReply{}, decodePutReply);
  expectCodec(PutReply{ContentKey{{9}}}, decodePutReply);
  expectCodec(GetRequest{kName, 100}, decodeGetRequest);
  expectCodec(GetReply{1ull << 40, ContentKey{{8}}, std::nullopt}, decodeGetReply);
  expectCodec(GetReply{2, ContentKey{{8}}, valueOf(2)}, decodeGetReply);
  expectCodec(KeysRequest{kName.space, {{1}, {2}, {3}}}, decodeKeysRequest);
  expectCodec(KeysReply{{true, false, true}}, decodeKeysReply);
}

TEST(ObjectMessage, AcceptsTheLargestAndRefusesWhatIsLarger) {
  EXPECT_TRUE(
      decodePutRequest(encode(PutRequest{kName, kMaxInlineBytes, valueOf(kMaxInlineBytes)})).ok());
  EXPECT_TRUE(
      decodeKeysRequest(encode(KeysRequest{kName.space, std::vector<Sha256Digest>(kMaxKeys)}))
          .ok());
  const auto refused = [](const auto& decoded) {
    return decoded.code() == ErrorCode::kProtocolError;
  };
  constexpr std::size_t kMore = kMaxInlineBytes + 1;
  EXPECT_TRUE(refused(decodePutRequest(encode(PutRequest{kName, kMore, valueOf(kMore)}))));
  EXPECT_TRUE(refused(decodeGetReply(encode(GetReply{kMore, {}, valueOf(kMore)}))));
  EXPECT_TRUE(refused(decodeGetRequest(encode(GetRequest{kName, kMore}))));
  EXPECT_TRUE(refused(decodeKeysRequest(
      encode(KeysRequest{kName.space, std::vector<Sha256Digest>(kMaxKeys + 1)}))));
  EXPECT_TRUE(refused(decodeKeysReply(encode(KeysReply{std::vector<bool>(kMaxKeys + 1)}))));
}

TEST(ObjectMessage, RefusesLengthsThatNoObjectHas) {
  for (const std::uint64_t length : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    EXPECT_FALSE(decodePutRequest(encode(PutRequest{kName, length, std::nullopt})).ok());
    EXPECT_FALSE(decodeGetReply(encode(GetReply{length, {}, std::nullopt})).ok());
  }
  EXPECT_FALSE(decodePutRequest(encode(PutRequest{kName, 5, valueOf(4)})).ok());
  EXPECT_FALSE(decodeKeysRequest(encode(KeysRequest{kName.space, {}})).ok());
  EXPECT_FALSE(decodeKeysReply(encode(KeysReply{})).ok());
}

}  // namespace
}  // namespace hearth
