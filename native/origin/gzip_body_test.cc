#include "origin/gzip_body.h"

#include <gtest/gtest.h>

#include <string>

#include "origin/origin_fixture.h"
#include "origin/scripted_server.h"

namespace hearth {
namespace {

std::string gzipped(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct Decoded {
  std::string bytes;
  GzipBody::State state;
};

// Given in pieces of this size.
Decoded decoded(const std::string& body, std::size_t piece) {
  GzipBody gzip;
  Decoded result;
  for (std::size_t at = 0; at < body.size(); at += piece) {
    const std::string part = body.substr(at, piece);
    EXPECT_TRUE(gzip.add(std::as_bytes(std::span(part)), [&result](auto bytes) {
      result.bytes.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return true;
    }));
  }
  result.state = gzip.state();
  return result;
}

const std::string kText = patternedObject(200'000);

TEST(GzipBody, DecodesWhateverPiecesItComesIn) {
  const std::string body = gzipped(kText);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{1000}, body.size()}) {
    const Decoded whole = decoded(body, piece);
    EXPECT_TRUE(whole.bytes == kText);
    EXPECT_EQ(whole.state, GzipBody::State::kEnded);
  }
  EXPECT_EQ(decoded(body.substr(0, body.size() - 1), 1000).state, GzipBody::State::kMore);
}

TEST(GzipBody, FindsDamage) {
  std::string body = gzipped(kText);
  EXPECT_EQ(decoded(body + "x", body.size()).state, GzipBody::State::kMalformed);
  body[body.size() - 6] ^= 1;  // of the checksum
  EXPECT_EQ(decoded(body, 1000).state, GzipBody::State::kMalformed);
  EXPECT_EQ(decoded("plain text", 4).state, GzipBody::State::kMalformed);
}

class GzipAnswerTest : public OriginFixture {
 protected:
  // Every request gets all of it, gzipped, whatever was asked.
  ScriptedServer::Script always(std::string body, std::string headers = {}) {
    return [body = std::move(body), headers = std::move(headers)](const auto&, auto& to) {
      return answer(to, "200 OK", "Content-Encoding: gzip\r\n" + headers, body);
    };
  }
  static OriginExpectation text() { return {kText.size(), {}}; }
};

INSTANTIATE_TEST_SUITE_P(Backends, GzipAnswerTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         &OriginFixture::backendName);

TEST_P(GzipAnswerTest, IsDecodedWhereAllOfTheFileWasAskedFor) {
  ScriptedServer server(always(gzipped(kText)));
  const Answer all = fetch(at(server.url()), text(), 0, {100'000, 100'000});
  ASSERT_TRUE(all.status.ok()) << all.status.error().message;
  EXPECT_TRUE(all.bytes == kText);
  EXPECT_EQ(fetch(at(server.url()), text(), 5, {10}).status.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(fetch(at(server.url()), {}, 0, {10}).status.code(), ErrorCode::kUnsupported);
}

TEST_P(GzipAnswerTest, ThatGrowsWithoutEndIsBrokenOff) {
  ScriptedServer server(always(gzipped(std::string(64 << 20, '\0'))));
  const Answer bomb = fetch(at(server.url()), text(), 0, {200'000});
  EXPECT_EQ(bomb.status.code(), ErrorCode::kProtocolError);
  EXPECT_LT(client().statistics().bytes, 2 * kText.size());
}

TEST_P(GzipAnswerTest, ThatIsShortOrDamagedIsNoFile) {
  options.attempts = 1;
  ScriptedServer ended(always(gzipped(kText.substr(1))));
  EXPECT_EQ(fetch(at(ended.url()), text(), 0, {200'000}).status.code(), ErrorCode::kUnavailable);
  ScriptedServer damaged(always("no gzip at all"));
  EXPECT_EQ(fetch(at(damaged.url()), text(), 0, {200'000}).status.code(),
            ErrorCode::kProtocolError);
}

TEST_P(GzipAnswerTest, IsTheFileItselfWhereThatIsStoredGzipped) {
  const std::string stored = gzipped(kText);
  ScriptedServer server([&stored](const auto& request, auto& to) {
    return serveObject(stored, request, to, "Content-Encoding: gzip\r\n");
  });
  const OriginExpectation expected{stored.size(), {}};
  const Answer part = fetch(at(server.url()), expected, 10, {100});
  ASSERT_TRUE(part.status.ok()) << part.status.error().message;
  EXPECT_TRUE(part.bytes == stored.substr(10, 100));
}

}  // namespace
}  // namespace hearth
