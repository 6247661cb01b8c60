#include "origin/git_blob.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "origin/origin_fixture.h"
#include "origin/scripted_server.h"

namespace hearth {
namespace {

// `printf 'hello, world\n' | git hash-object --stdin`, and the same in a repository of SHA-256
// objects.
const std::string kHello = "hello, world\n";
constexpr const char* kHelloId = "git:4b5fa63702dd96796042e92787f464e28f09f17d";
constexpr const char* kHelloLongId =
    "git:d46ad19399bc9eb8da547cb37b48cc45486de87f823b98047eafc6c44ba858d8";

TEST(GitBlob, IsTheDigestOfTheSizeAndTheBytes) {
  std::string text = kHello;
  const auto bytes = std::as_writable_bytes(std::span(text));
  const std::vector<std::span<std::byte>> pieces{bytes.first(3), bytes.subspan(3)};
  for (const char* const id : {kHelloId, kHelloLongId}) {
    ASSERT_TRUE(GitBlob::of(id)) << id;
    EXPECT_TRUE(GitBlob::of(id)->names(pieces)) << id;
    EXPECT_FALSE(GitBlob::of(id)->names(std::span(pieces).first(1))) << id;
  }
}

TEST(GitBlob, IsNothingElse) {
  for (const char* const validator :
       {"", "git:", "git:4b5fa6", "etag:\"1\"", "git:4B5FA63702DD96796042E92787F464E28F09F17D"})
    EXPECT_FALSE(GitBlob::of(validator)) << validator;
}

class GitBlobReaderTest : public OriginFixture {
 protected:
  static OriginExpectation hello() { return {kHello.size(), kHelloId}; }
};

INSTANTIATE_TEST_SUITE_P(Backends, GitBlobReaderTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         &OriginFixture::backendName);

TEST_P(GitBlobReaderTest, ReadsAFileWithoutAnETag) {
  ScriptedServer server([](const auto& request, auto& to) {
    return serveObject(kHello, request, to, "ETag: W/\"weak\"\r\n");
  });
  const Answer answer = fetch(at(server.url()), hello(), 0, {5, 8});
  ASSERT_TRUE(answer.status.ok()) << answer.status.error().message;
  EXPECT_EQ(answer.bytes, kHello);
  EXPECT_EQ(answer.filled, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(server.requests().at(0).headers.at("range"), "bytes=0-12");
  EXPECT_FALSE(server.requests().at(0).headers.contains("if-match"));
}

TEST_P(GitBlobReaderTest, ReadsAllOfAFileForAPart) {
  ScriptedServer server(
      [](const auto& request, auto& to) { return serveObject(kHello, request, to); });
  const Answer answer = fetch(at(server.url()), hello(), 7, {2, 3});
  ASSERT_TRUE(answer.status.ok()) << answer.status.error().message;
  EXPECT_EQ(answer.bytes, "world");
  EXPECT_EQ(server.requests().at(0).headers.at("range"), "bytes=0-12");
}

TEST_P(GitBlobReaderTest, ReadsAFileOfADirectory) {
  options.attempts = 1;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "hearth_git_blob_XXXXXX";
  std::string made = folder.string();
  ASSERT_NE(mkdtemp(made.data()), nullptr);
  std::ofstream(made + "/hello") << kHello;
  Location location;
  location.path = made + "/hello";
  location.below = made;
  EXPECT_EQ(fetch(location, hello(), 0, {13}).bytes, kHello);
  std::ofstream(made + "/hello") << "Hello, world\n";
  EXPECT_FALSE(fetch(location, hello(), 0, {13}).status.ok());
  std::filesystem::remove_all(made);
}

TEST_P(GitBlobReaderTest, GivesNothingOfOtherBytes) {
  options.attempts = 2;
  ScriptedServer server(
      [](const auto& request, auto& to) { return serveObject("Hello, world\n", request, to); });
  for (const std::uint64_t offset : {0, 7}) {
    const Answer answer =
        fetch(at(server.url()), hello(), offset, {static_cast<std::size_t>(13 - offset)});
    EXPECT_EQ(answer.status.code(), ErrorCode::kCorrupt);
    EXPECT_TRUE(answer.filled.empty());
  }
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST_P(GitBlobReaderTest, AsksAgainAfterOtherBytes) {
  ScriptedServer server([](const auto& request, auto& to) {
    return serveObject(request.number == 1 ? "Hello, world\n" : kHello, request, to);
  });
  EXPECT_EQ(fetch(at(server.url()), hello(), 0, {13}).bytes, kHello);
}

TEST_P(GitBlobReaderTest, RefusesWhatItCannotProve) {
  const Location nowhere = at("http://127.0.0.1:1/x");
  const OriginExpectation malformed{13, "git:xyz"};
  EXPECT_EQ(fetch(nowhere, malformed, 0, {13}).status.code(), ErrorCode::kInvalidArgument);
  const OriginExpectation large{GitBlob::kMaxBytes + 1, kHelloId};
  EXPECT_EQ(fetch(nowhere, large, 0, {13}).status.code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace hearth
