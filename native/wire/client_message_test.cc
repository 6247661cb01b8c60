#include "wire/client_message.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(ClientMessage, IsTheSameWhenDecodedAndCutOffIsRefused) {
  const ResolvedPath resolved{ResolvedKind::kFile, true, 123, -5, ContentKey{{1, 2, 3}}};
  EXPECT_EQ(*decodeResolvedPath(encode(resolved)), resolved);
  ResolvedPath placed = resolved;
  placed.shard = 7;
  EXPECT_EQ(*decodeResolvedPath(encode(placed)), placed);
  const FolderPage page{{{"a", ResolvedKind::kFolder, 3}, {"b", ResolvedKind::kSymlink, 0}}, false};
  EXPECT_EQ(*decodeFolderPage(encode(page)), page);
  const ListRequest list{"/dataset/a", "b"};
  EXPECT_EQ(*decodeListRequest(encode(list)), list);
  const AdviseRequest advise{"/dataset/a", ClientAdvice::kDontNeed, AdviceScope::kCluster};
  EXPECT_EQ(*decodeAdviseRequest(encode(advise)), advise);
  EXPECT_EQ(*decodePath(encodePath("/dataset/a")), "/dataset/a");
  const WriteRange range{"/volume/a/b", 1, 1ull << 40};
  EXPECT_EQ(*decodeWriteRange(encode(range)), range);
  EXPECT_EQ(*decodeTicket(encode(resolved.key)), resolved.key);
  const auto refusesShorter = [](const std::vector<std::byte>& body, auto decode) {
    for (std::size_t size = 0; size < body.size(); ++size)
      EXPECT_FALSE(decode(std::span(body).first(size)).ok()) << size;
  };
  refusesShorter(encode(resolved), decodeResolvedPath);
  std::vector<std::byte> cut = encode(placed);
  cut.pop_back();
  EXPECT_FALSE(decodeResolvedPath(cut).ok());
  refusesShorter(encode(page), decodeFolderPage);
  refusesShorter(encode(list), decodeListRequest);
  refusesShorter(encode(advise), decodeAdviseRequest);
  refusesShorter(encodePath("/dataset/a"), decodePath);
  refusesShorter(encode(range), decodeWriteRange);
  refusesShorter(encode(resolved.key), decodeTicket);
}

TEST(ClientMessage, RefusesRangesThatNoFileHas) {
  constexpr std::uint64_t kMost = ~0ull >> 1;
  EXPECT_TRUE(decodeWriteRange(encode(WriteRange{"/volume/a/b", kMost - 1, 1})).ok());
  for (const auto& [offset, length] :
       std::initializer_list<std::pair<std::uint64_t, std::uint64_t>>{
           {0, 0}, {kMost, 1}, {1, kMost}, {~0ull, 2}, {2, ~0ull}})
    EXPECT_EQ(decodeWriteRange(encode(WriteRange{"/volume/a/b", offset, length})).code(),
              ErrorCode::kProtocolError);
}

TEST(ClientPath, IsAbsoluteUtf8) {
  for (const char* const good : {"/", "/dataset/a/b", "/\xc3\xa4/\xe2\x82\xac/\xf0\x9f\x98\x80"})
    EXPECT_TRUE(checkClientPath(good).ok()) << good;
  for (const char* const bad : {"", "dataset", "/\x80", "/\xc0\x80", "/\xed\xa0\x80",
                                "/\xf4\x90\x80\x80", "/\xe2\x82", "/\xff"})
    EXPECT_FALSE(checkClientPath(bad).ok()) << bad;
  EXPECT_FALSE(checkClientPath(std::string_view("/\0", 2)).ok());
  EXPECT_FALSE(checkClientPath("/" + std::string(kMaxClientPathBytes, 'a')).ok());
}

}  // namespace
}  // namespace hearth
