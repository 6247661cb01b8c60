#include "fuse/fuse_request.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace hearth {
namespace {

std::vector<std::byte> message(std::uint32_t opcode, const std::string& body) {
  fuse_in_header header{};
  header.len = static_cast<std::uint32_t>(sizeof header + body.size());
  header.opcode = opcode;
  header.unique = 42;
  header.nodeid = 7;
  std::vector<std::byte> bytes(header.len);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, body.data(), body.size());
  return bytes;
}

template <class T>
std::string raw(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

TEST(FuseRequest, ReadsNames) {
  const auto bytes = message(FUSE_LOOKUP, std::string("model.bin\0", 10));
  const auto request = decodeFuseRequest(bytes);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->unique, 42U);
  EXPECT_EQ(request->node, 7U);
  EXPECT_EQ(std::get<FuseNameArgument>(request->arguments).name, "model.bin");
}

TEST(FuseRequest, RefusesNamesWithoutAnEnd) {
  EXPECT_EQ(decodeFuseRequest(message(FUSE_LOOKUP, "model")).code(), ErrorCode::kProtocolError);
  EXPECT_FALSE(decodeFuseRequest(message(FUSE_LOOKUP, "")).ok());
  EXPECT_FALSE(decodeFuseRequest(message(FUSE_LOOKUP, std::string(1, '\0'))).ok());
  EXPECT_FALSE(decodeFuseRequest(message(FUSE_GETXATTR, raw(fuse_getxattr_in{}) + "user.x")).ok());
}

TEST(FuseRequest, ReadsStructuresOfNewerKernels) {
  fuse_read_in in{};
  in.offset = 1ULL << 40;
  in.size = 4096;
  const auto request = decodeFuseRequest(message(FUSE_READ, raw(in) + "more"));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(std::get<fuse_read_in>(request->arguments).offset, 1ULL << 40);
}

TEST(FuseRequest, ReadsTheShortInitOfOldKernels) {
  fuse_init_in in{};
  in.major = 7;
  in.minor = 31;
  const auto request =
      decodeFuseRequest(message(FUSE_INIT, raw(in).substr(0, offsetof(fuse_init_in, flags2))));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(std::get<fuse_init_in>(request->arguments).minor, 31U);
}

TEST(FuseRequest, RefusesShortBodies) {
  for (const std::uint32_t opcode :
       {std::uint32_t{FUSE_INIT}, std::uint32_t{FUSE_GETATTR}, kFuseStatx,
        std::uint32_t{FUSE_ACCESS}, std::uint32_t{FUSE_OPEN}, std::uint32_t{FUSE_OPENDIR},
        std::uint32_t{FUSE_READ}, std::uint32_t{FUSE_READDIR}, std::uint32_t{FUSE_READDIRPLUS},
        std::uint32_t{FUSE_RELEASE}, std::uint32_t{FUSE_RELEASEDIR}, std::uint32_t{FUSE_GETXATTR},
        std::uint32_t{FUSE_LISTXATTR}, std::uint32_t{FUSE_IOCTL}, std::uint32_t{FUSE_INTERRUPT}}) {
    EXPECT_EQ(decodeFuseRequest(message(opcode, "abc")).code(), ErrorCode::kProtocolError)
        << opcode;
  }
}

TEST(FuseRequest, RefusesLengthsThatLie) {
  auto bytes = message(FUSE_READLINK, "");
  EXPECT_TRUE(decodeFuseRequest(bytes).ok());
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decodeFuseRequest(bytes).ok());
  for (std::size_t size = 0; size < sizeof(fuse_in_header); ++size) {
    EXPECT_FALSE(decodeFuseRequest(std::span(bytes).first(size)).ok());
  }
}

TEST(FuseRequest, KnowsResentRequests) {
  auto bytes = message(FUSE_READLINK, "");
  const std::uint64_t unique = 42 | kFuseUniqueResend;
  std::memcpy(bytes.data() + offsetof(fuse_in_header, unique), &unique, sizeof unique);
  const auto request = decodeFuseRequest(bytes);
  ASSERT_TRUE(request.ok());
  EXPECT_TRUE(request->resent);
  EXPECT_EQ(request->unique, unique);  // answered with the bit
}

TEST(FuseRequest, LetsUnknownOperationsThrough) {
  const auto request = decodeFuseRequest(message(4711, "anything"));
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->opcode, 4711U);
}

TEST(FuseRequest, SurvivesGarbage) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string body(random() % 80, '\0');
    for (char& c : body) c = static_cast<char>(random());
    (void)decodeFuseRequest(message(random() % 60, body)).ok();
  }
}

}  // namespace
}  // namespace hearth
