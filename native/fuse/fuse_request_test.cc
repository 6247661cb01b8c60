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

std::string text(std::string value) { return std::move(value) + std::string(1, '\0'); }

TEST(FuseRequest, ReadsBothNamesOfARename) {
  const fuse_rename2_in in{.newdir = 9, .flags = 2, .padding = 0};
  const auto bytes = message(FUSE_RENAME2, raw(in) + text("from") + text("to"));
  const auto request = decodeFuseRequest(bytes);
  ASSERT_TRUE(request.ok());
  const auto& rename = std::get<FuseRenameArgument>(request->arguments);
  EXPECT_EQ(rename.newFolder, 9U);
  EXPECT_EQ(rename.flags, 2U);
  EXPECT_EQ(rename.from, "from");
  EXPECT_EQ(rename.to, "to");
  EXPECT_FALSE(decodeFuseRequest(message(FUSE_RENAME2, raw(in) + text("from") + "to")).ok());
  EXPECT_FALSE(decodeFuseRequest(message(FUSE_RENAME2, raw(in) + text("from") + text(""))).ok());
}

TEST(FuseRequest, ReadsWhatIsMade) {
  const fuse_create_in in{.flags = 1, .mode = 0100640, .umask = 022, .open_flags = 0};
  const auto bytes = message(FUSE_CREATE, raw(in) + text("new"));
  const auto created = decodeFuseRequest(bytes);
  ASSERT_TRUE(created.ok());
  const auto& create = std::get<FuseNamed<fuse_create_in>>(created->arguments);
  EXPECT_EQ(create.in.mode, 0100640U);
  EXPECT_EQ(create.name, "new");
  const auto link = message(FUSE_SYMLINK, text("name") + text("to/there"));
  const auto symlink = decodeFuseRequest(link);
  ASSERT_TRUE(symlink.ok());
  EXPECT_EQ(std::get<FuseSymlinkArgument>(symlink->arguments).target, "to/there");
  EXPECT_FALSE(decodeFuseRequest(message(FUSE_MKDIR, raw(fuse_mkdir_in{}) + "new")).ok());
  EXPECT_FALSE(decodeFuseRequest(message(FUSE_SYMLINK, text("name"))).ok());
}

TEST(FuseRequest, ReadsAnAttributesValue) {
  const std::uint32_t head[2] = {3, 1};
  const auto bytes = message(FUSE_SETXATTR, raw(head) + text("user.x") + std::string("a\0b", 3));
  const auto request = decodeFuseRequest(bytes);
  ASSERT_TRUE(request.ok());
  const auto& set = std::get<FuseSetXattrArgument>(request->arguments);
  EXPECT_EQ(set.flags, 1U);
  EXPECT_EQ(set.name, "user.x");
  EXPECT_EQ(set.value, std::string_view("a\0b", 3));
  EXPECT_FALSE(decodeFuseRequest(message(FUSE_SETXATTR, raw(head) + text("user.x") + "ab")).ok());
}

TEST(FuseRequest, ReadsForgottenNodes) {
  const auto one = decodeFuseRequest(message(FUSE_FORGET, raw(fuse_forget_in{.nlookup = 3})));
  ASSERT_TRUE(one.ok());
  ASSERT_EQ(std::get<FuseForgetArgument>(one->arguments).nodes.size(), 1U);
  EXPECT_EQ(std::get<FuseForgetArgument>(one->arguments).nodes[0].nodeid, 7U);
  const fuse_batch_forget_in two{.count = 2, .dummy = 0};
  const std::string nodes = raw(fuse_forget_one{1, 2}) + raw(fuse_forget_one{3, 4});
  const auto many = decodeFuseRequest(message(FUSE_BATCH_FORGET, raw(two) + nodes));
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(std::get<FuseForgetArgument>(many->arguments).nodes[1].nlookup, 4U);
  EXPECT_FALSE(decodeFuseRequest(message(FUSE_BATCH_FORGET, raw(two) + nodes.substr(0, 31))).ok());
}

TEST(FuseRequest, RefusesShortBodies) {
  for (const std::uint32_t opcode : {std::uint32_t{FUSE_INIT},
                                     std::uint32_t{FUSE_GETATTR},
                                     kFuseStatx,
                                     std::uint32_t{FUSE_ACCESS},
                                     std::uint32_t{FUSE_OPEN},
                                     std::uint32_t{FUSE_OPENDIR},
                                     std::uint32_t{FUSE_READ},
                                     std::uint32_t{FUSE_READDIR},
                                     std::uint32_t{FUSE_READDIRPLUS},
                                     std::uint32_t{FUSE_RELEASE},
                                     std::uint32_t{FUSE_RELEASEDIR},
                                     std::uint32_t{FUSE_GETXATTR},
                                     std::uint32_t{FUSE_LISTXATTR},
                                     std::uint32_t{FUSE_IOCTL},
                                     std::uint32_t{FUSE_INTERRUPT},
                                     std::uint32_t{FUSE_SETATTR},
                                     std::uint32_t{FUSE_MKNOD},
                                     std::uint32_t{FUSE_MKDIR},
                                     std::uint32_t{FUSE_LINK},
                                     std::uint32_t{FUSE_CREATE},
                                     std::uint32_t{FUSE_RENAME},
                                     std::uint32_t{FUSE_RENAME2},
                                     std::uint32_t{FUSE_SETXATTR},
                                     std::uint32_t{FUSE_FLUSH},
                                     std::uint32_t{FUSE_FSYNC},
                                     std::uint32_t{FUSE_FALLOCATE},
                                     std::uint32_t{FUSE_FORGET},
                                     std::uint32_t{FUSE_BATCH_FORGET}}) {
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
