#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "origin/origin_fixture.h"
#include "origin/scripted_server.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;

const std::string kObject = patternedObject(3'000'000);
const std::string kTag = "ETag: \"v1\"\r\n";

class HttpOriginTest : public OriginFixture {
 protected:
  static OriginExpectation whole(std::string validator = {}) {
    return {kObject.size(), std::move(validator)};
  }
  // Every request of a fetch of one million bytes from the middle gets the script's answer.
  Answer middle(const ScriptedServer& server, OriginExpectation expectation = {}) {
    return fetch(at(server.url()), std::move(expectation), 1'000'000, {400'000, 600'000});
  }
  static void expectMiddle(const Answer& answer) {
    ASSERT_TRUE(answer.status.ok()) << answer.status.error().message;
    EXPECT_TRUE(answer.bytes == kObject.substr(1'000'000, 1'000'000));
    EXPECT_EQ(answer.filled, (std::vector<std::size_t>{0, 1}));
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, HttpOriginTest,
                         testing::Values(Reactor::Backend::kIoUring, Reactor::Backend::kEpoll),
                         &OriginFixture::backendName);

TEST_P(HttpOriginTest, ReadsARangeIntoItsPieces) {
  ScriptedServer server(
      [](const auto& request, auto& to) { return serveObject(kObject, request, to, kTag); });
  expectMiddle(middle(server, whole("etag:\"v1\"")));
  const auto request = server.requests().at(0);
  EXPECT_EQ(request.headers.at("range"), "bytes=1000000-1999999");
  EXPECT_EQ(request.headers.at("if-match"), "\"v1\"");
  EXPECT_EQ(request.headers.at("accept-encoding"), "identity");
  EXPECT_EQ(client().statistics().bytes, 1'000'000u);
  EXPECT_EQ(client().statistics().requests, 1u);
}

TEST_P(HttpOriginTest, KeepsTheConnection) {
  ScriptedServer server([](const auto& request, auto& to) {
    if (request.target == "/absent") return answer(to, "404 Not Found", {}, "no such object");
    return serveObject(kObject, request, to);
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(fetch(at(server.url("/absent")), {}, 0, {10}).status.code(), ErrorCode::kNotFound);
    expectMiddle(middle(server));
  }
  EXPECT_EQ(server.connections(), 1);
}

TEST_P(HttpOriginTest, NeedsNoRequestForNothing) {
  const auto nothing = fetch(at("http://127.0.0.1:1/x"), {}, 0, {0, 0});
  EXPECT_TRUE(nothing.status.ok());
  EXPECT_EQ(nothing.filled, (std::vector<std::size_t>{0, 1}));
}

TEST_P(HttpOriginTest, ContinuesATruncatedBodyWhereItStopped) {
  // Each answer ends after 300,000 bytes, by FIN or RST.
  ScriptedServer server([](const auto& request, auto& to) {
    const auto [first, last] = *request.range();
    to.send("HTTP/1.1 206 Partial Content\r\nContent-Length: " + std::to_string(last - first + 1) +
            "\r\nContent-Range: bytes " + std::to_string(first) + "-" + std::to_string(last) +
            "/3000000\r\n\r\n");
    to.send(
        std::string_view(kObject).substr(first, std::min<std::size_t>(300'000, last - first + 1)));
    if (request.number == 2) to.resetOnClose();
    return false;
  });
  expectMiddle(middle(server));
  EXPECT_EQ(server.requests().at(1).headers.at("range"), "bytes=1300000-1999999");
  EXPECT_GE(client().statistics().retries, 3u);
}

TEST_P(HttpOriginTest, GivesUpOnAServerThatAlwaysTruncates) {
  options.attempts = 3;
  ScriptedServer server([](const auto&, auto& to) {
    to.send(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1000000-1999999/*\r\nContent-Length: "
        "1000000\r\n\r\n");
    return false;
  });
  const auto result = middle(server);
  EXPECT_EQ(result.status.code(), ErrorCode::kUnavailable);
  EXPECT_NE(result.status.error().message.find("gave up after 3 attempts"), std::string::npos);
  EXPECT_EQ(server.requests().size(), 3u);
  EXPECT_EQ(client().statistics().failures, 1u);
}

TEST_P(HttpOriginTest, RetriesWhatMayPass) {
  for (const char* const status :
       {"500 Internal", "502 Bad Gateway", "503 Unavailable", "429 Too Many", "408 Timeout"}) {
    ScriptedServer server([status](const auto& request, auto& to) {
      if (request.number < 4) return answer(to, status, "Retry-After: 0\r\n", "wait");
      return serveObject(kObject, request, to);
    });
    expectMiddle(middle(server));
    EXPECT_EQ(server.requests().size(), 4u) << status;
  }
}

TEST_P(HttpOriginTest, WaitsAsLongAsTheServerAsks) {
  ScriptedServer server([](const auto& request, auto& to) {
    if (request.number == 1) return answer(to, "429 Too Many Requests", "Retry-After: 1\r\n");
    return serveObject(kObject, request, to);
  });
  const auto begin = Clock::now();
  expectMiddle(middle(server));
  EXPECT_GE(Clock::now() - begin, 1s);
}

TEST_P(HttpOriginTest, MapsStatusesToErrors) {
  struct Case {
    const char* status;
    bool expires;
    ErrorCode code;
  };
  for (const Case& expected : {Case{"404 Not Found", false, ErrorCode::kNotFound},
                               Case{"410 Gone", false, ErrorCode::kNotFound},
                               Case{"401 Unauthorized", false, ErrorCode::kUnauthenticated},
                               Case{"401 Unauthorized", true, ErrorCode::kLocationExpired},
                               Case{"403 Forbidden", false, ErrorCode::kPermissionDenied},
                               Case{"403 Forbidden", true, ErrorCode::kLocationExpired},
                               Case{"412 Precondition Failed", false, ErrorCode::kOriginChanged},
                               Case{"416 Range Not Satisfiable", false, ErrorCode::kOriginChanged},
                               Case{"400 Bad Request", false, ErrorCode::kProtocolError},
                               Case{"204 No Content", false, ErrorCode::kProtocolError},
                               Case{"501 Not Implemented", false, ErrorCode::kProtocolError},
                               Case{"505 Version Not Supported", false, ErrorCode::kProtocolError},
                               Case{"302 Found", false, ErrorCode::kProtocolError}}) {
    ScriptedServer server([&expected](const auto&, auto& to) {
      const bool bodiless = std::string_view(expected.status).starts_with("204");
      return answer(to, expected.status, {}, bodiless ? "" : "<Code>SomeCode</Code>");
    });
    Location location = at(server.url("/object?X-Amz-Signature=secret"));
    if (expected.expires) location.expiresAtMs = 4'000'000'000'000;
    const auto result = fetch(location, {}, 0, {10});
    EXPECT_EQ(result.status.code(), expected.code) << expected.status;
    EXPECT_EQ(server.requests().size(), 1u);
    const std::string& message = result.status.error().message;
    EXPECT_EQ(message.find("secret"), std::string::npos) << message;
    EXPECT_NE(message.find("/object"), std::string::npos) << message;
  }
}

TEST_P(HttpOriginTest, BlamesTheClocksForASignatureOfAnotherTime) {
  ScriptedServer server([](const auto&, auto& to) {
    return answer(to, "403 Forbidden", {},
                  "<Error><Code>RequestTimeTooSkewed</Code><Message>Too large.</Message></Error>");
  });
  options.attempts = 1;
  Location location = at(server.url());
  const auto refused = fetch(location, {}, 0, {10});
  EXPECT_EQ(refused.status.code(), ErrorCode::kUnavailable);
  EXPECT_NE(refused.status.error().message.find("set them (NTP)"), std::string::npos);
  EXPECT_EQ(refused.status.error().message.find("credentials"), std::string::npos);
  location.expiresAtMs = 4'000'000'000'000;
  EXPECT_EQ(fetch(location, {}, 0, {10}).status.code(), ErrorCode::kLocationExpired);
}

TEST_P(HttpOriginTest, KnowsExpiredTokensAndExpiredLocations) {
  ScriptedServer server([](const auto&, auto& to) {
    return answer(to, "400 Bad Request", {}, "<?xml?><Error><Code>ExpiredToken</Code></Error>");
  });
  Location location = at(server.url());
  location.expiresAtMs = 4'000'000'000'000;
  EXPECT_EQ(fetch(location, {}, 0, {10}).status.code(), ErrorCode::kLocationExpired);
  location.expiresAtMs = 1;
  EXPECT_EQ(fetch(location, {}, 0, {10}).status.code(), ErrorCode::kLocationExpired);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_P(HttpOriginTest, NoticesThatTheObjectHasChanged) {
  const std::string date = "Sat, 21 Nov 2026 10:00:00 GMT";
  struct Case {
    std::string validator, headers;
    std::uint64_t size;
    ErrorCode code;
  };
  const std::uint64_t size = kObject.size();
  for (const Case& expected : {
           Case{"etag:\"v1\"", "ETag: \"v1\"\r\n", size, ErrorCode::kOk},
           Case{"etag:\"v1\"", "ETag: \"v2\"\r\n", size, ErrorCode::kOriginChanged},
           Case{"etag:\"v1\"", "", size, ErrorCode::kOriginChanged},
           Case{"modified:" + date, "last-modified:" + date + "\r\n", size, ErrorCode::kOk},
           Case{"modified:" + date, "Last-Modified: Sat, 21 Nov 2026 10:00:01 GMT\r\n", size,
                ErrorCode::kOriginChanged},
           Case{"", "", size + 1, ErrorCode::kOriginChanged},
           Case{"stat:1:2", "", size, ErrorCode::kInvalidArgument},
       }) {
    ScriptedServer server([&expected](const auto& request, auto& to) {
      return serveObject(kObject, request, to, expected.headers);
    });
    const auto result = middle(server, {expected.size, expected.validator});
    EXPECT_EQ(result.status.code(), expected.code) << expected.validator << " " << expected.headers;
    EXPECT_EQ(result.filled.empty(), expected.code != ErrorCode::kOk);
    if (expected.code == ErrorCode::kOk) expectMiddle(result);
    if (expected.validator.starts_with("modified:")) {
      EXPECT_EQ(server.requests().at(0).headers.at("if-unmodified-since"), date);
    }
  }
  ScriptedServer server(
      [](const auto& request, auto& to) { return serveObject(kObject, request, to); });
  EXPECT_EQ(fetch(at(server.url()), {}, size, {10}).status.code(), ErrorCode::kOriginChanged);
}

TEST_P(HttpOriginTest, NeverMixesVersionsWhenTheObjectChangesBetweenTwoAttempts) {
  ScriptedServer server([](const auto& request, auto& to) {
    if (request.number > 1) return serveObject(kObject, request, to, "ETag: \"v2\"\r\n");
    to.send(
        "HTTP/1.1 206 Partial Content\r\nETag: \"v1\"\r\nContent-Range: bytes "
        "1000000-1999999/3000000\r\n\r\n");
    to.send(std::string_view(kObject).substr(1'000'000, 450'000));
    return false;
  });
  const auto result = middle(server, whole("etag:\"v1\""));
  EXPECT_EQ(result.status.code(), ErrorCode::kOriginChanged);
  EXPECT_EQ(result.filled, (std::vector<std::size_t>{0}));
}

TEST_P(HttpOriginTest, TakesAWholeObjectFromAServerThatIgnoresRanges) {
  // The first answer is cut, the second repeats everything: what is already there is skipped.
  ScriptedServer server([](const auto& request, auto& to) {
    to.send("HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n");
    to.send(std::string_view(kObject).substr(0, request.number == 1 ? 1'234'567 : kObject.size()));
    return request.number != 1;
  });
  const auto result = fetch(at(server.url()), whole(), 0, {1'000'000, 2'000'000});
  ASSERT_TRUE(result.status.ok()) << result.status.error().message;
  EXPECT_TRUE(result.bytes == kObject);
  EXPECT_EQ(result.filled, (std::vector<std::size_t>{0, 1}));
  EXPECT_TRUE(fetch(at(server.url()), {}, 0, {3'000'000}).status.ok());
  EXPECT_EQ(middle(server, whole()).status.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(fetch(at(server.url()), {}, 0, {100}).status.code(), ErrorCode::kUnsupported);
}

TEST_P(HttpOriginTest, RefusesWrongRangesAndEncodings) {
  const std::string cases[] = {
      "HTTP/1.1 206 P\r\nContent-Range: bytes 999999-1999998/3000000\r\nContent-Length: "
      "1000000\r\n\r\n",
      "HTTP/1.1 206 P\r\nContent-Range: bytes 1000000-1500000/3000000\r\nContent-Length: "
      "500001\r\n\r\n",
      "HTTP/1.1 206 P\r\nContent-Range: bytes 1000000-18446744073709551615/*\r\n\r\n",
      "HTTP/1.1 206 P\r\nContent-Range: lines 1-2/3\r\nContent-Length: 1000000\r\n\r\n",
      "HTTP/1.1 206 P\r\nContent-Type: multipart/byteranges\r\nContent-Length: 1000000\r\n\r\n",
      "HTTP/1.1 206 P\r\nContent-Range: bytes 1000000-1999999/3000000\r\nContent-Length: "
      "1000001\r\n\r\n",
      // Without a length: more bytes than the range has.
      "HTTP/1.1 206 P\r\nContent-Range: bytes 1000000-1999999/3000000\r\n\r\n" +
          std::string(1'000'001, 'x')};
  for (const std::string& head : cases) {
    ScriptedServer server([&head](const auto&, auto& to) {
      to.send(head);
      to.send(std::string(1000, 'x'));
      return false;
    });
    const auto result = middle(server, whole());
    EXPECT_EQ(result.status.code(), ErrorCode::kProtocolError) << head.substr(0, 80);
    std::vector<std::string> asked;
    for (const ScriptedRequest& request : server.requests()) asked.push_back(request.target);
    EXPECT_EQ(asked, std::vector<std::string>{"/object"}) << head.substr(0, 80);
  }
  ScriptedServer server([](const auto& request, auto& to) {
    return serveObject(kObject, request, to, "Content-Encoding: gzip\r\n");
  });
  EXPECT_EQ(middle(server).status.code(), ErrorCode::kUnsupported);
}

TEST_P(HttpOriginTest, RefusesNonsense) {
  options.attempts = 2;
  ScriptedServer other([](const auto&, auto& to) {
    to.send("SSH-2.0-OpenSSH_9.2\r\n");
    return false;
  });
  EXPECT_EQ(middle(other).status.code(), ErrorCode::kProtocolError);
  ScriptedServer endless([](const auto&, auto& to) {
    to.send("HTTP/1.1 206 Partial Content\r\n");
    while (to.send("X-Padding: " + std::string(1000, 'x') + "\r\n")) {
    }
    return false;
  });
  EXPECT_EQ(middle(endless).status.code(), ErrorCode::kProtocolError);
  ScriptedServer silent([](const auto&, auto&) { return false; });
  EXPECT_EQ(middle(silent).status.code(), ErrorCode::kUnavailable);
}

TEST_P(HttpOriginTest, BreaksOffStalledTransfers) {
  options.stallTimeout = 4s;
  ScriptedServer server([](const auto& request, auto& to) {
    if (request.number > 2) return serveObject(kObject, request, to);
    if (request.number == 2) {
      to.send("HTTP/1.1 206 P\r\nContent-Range: bytes 1000000-1999999/3000000\r\n\r\n");
      to.send(std::string_view(kObject).substr(1'000'000, 100'000));
    }
    to.sleep(120s);
    return false;
  });
  const auto begin = Clock::now();
  expectMiddle(middle(server));
  EXPECT_LT(Clock::now() - begin, 60s);
  EXPECT_EQ(server.requests().size(), 3u);
  EXPECT_EQ(server.requests().at(2).headers.at("range"), "bytes=1100000-1999999");
}

TEST_P(HttpOriginTest, FollowsRedirectsAndKeepsCredentialsFromOtherHosts) {
  ScriptedServer cdn(
      [](const auto& request, auto& to) { return serveObject(kObject, request, to); });
  ScriptedServer hub([&cdn](const auto& request, auto& to) {
    if (request.target == "/object")
      return answer(to, "307 Temporary Redirect", "Location: /moved?x=1\r\n");
    return answer(to, "302 Found", "Location: " + cdn.url("/blob?signature=secret") + "\r\n",
                  "moved");
  });
  Location location = at(hub.url());
  location.headers = {{"Authorization", "Bearer secret"}, {"X-Api-Key", "secret"}};
  const auto result = fetch(location, {}, 1'000'000, {400'000, 600'000});
  expectMiddle(result);
  ASSERT_EQ(hub.requests().size(), 2u);
  EXPECT_EQ(hub.requests()[1].target, "/moved?x=1");
  EXPECT_EQ(hub.requests()[1].headers.at("x-api-key"), "secret");
  ASSERT_EQ(cdn.requests().size(), 1u);
  EXPECT_EQ(cdn.requests()[0].headers.count("authorization"), 0u);
  EXPECT_EQ(cdn.requests()[0].headers.count("x-api-key"), 0u);
  EXPECT_TRUE(cdn.requests()[0].range());
}

TEST_P(HttpOriginTest, RefusesEndlessRedirectsAndOtherSchemes) {
  ScriptedServer loop(
      [](const auto&, auto& to) { return answer(to, "301 Moved", "Location: /again\r\n"); });
  EXPECT_EQ(middle(loop).status.code(), ErrorCode::kProtocolError);
  EXPECT_EQ(loop.requests().size(), 6u);
  ScriptedServer file([](const auto&, auto& to) {
    return answer(to, "302 Found", "Location: file:///etc/passwd\r\n");
  });
  EXPECT_EQ(middle(file).status.code(), ErrorCode::kProtocolError);
}

TEST_P(HttpOriginTest, NamesConnectionsThatCannotBeMade) {
  options.attempts = 2;
  // A port that was free a moment ago.
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  const auto refused =
      fetch(at("http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/x"), {}, 0, {1});
  EXPECT_EQ(refused.status.code(), ErrorCode::kUnavailable);
  EXPECT_NE(refused.status.error().message.find("refused"), std::string::npos);
  const auto unknown = fetch(at("http://no-such-host.invalid/x"), {}, 0, {1});
  EXPECT_EQ(unknown.status.code(), ErrorCode::kUnavailable);
  EXPECT_NE(unknown.status.error().message.find("DNS"), std::string::npos);
}

TEST_P(HttpOriginTest, RefusesMalformedLocations) {
  for (const char* const url :
       {"not a url?secret", "ftp://host/x?secret", "http://", "/etc/passwd"}) {
    const auto result = fetch(at(url), {}, 0, {1});
    EXPECT_EQ(result.status.code(), ErrorCode::kInvalidArgument) << url;
    EXPECT_EQ(result.status.error().message.find("secret"), std::string::npos);
  }
  EXPECT_EQ(fetch({}, {}, 0, {1}).status.code(), ErrorCode::kInvalidArgument);
  Location injected = at("http://127.0.0.1:1/");
  injected.headers = {{"X", "a\r\nY: b"}};
  EXPECT_EQ(fetch(injected, {}, 0, {1}).status.code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(fetch(at("http://127.0.0.1:1/"), {10, ""}, 5, {6}).status.code(),
            ErrorCode::kInvalidArgument);
}

TEST_P(HttpOriginTest, RefusesPrivateAddressesAlsoBehindRedirects) {
  options.forbidPrivateAddresses = true;
  options.allowedNetworks = {"127.0.0.1"};
  ScriptedServer server([](const auto& request, auto& to) {
    if (request.target == "/object") return serveObject(kObject, request, to);
    const std::string port =
        request.headers.at("host").substr(request.headers.at("host").find(':'));
    return answer(to, "302 Found", "Location: http://127.0.0.2" + port + "/object\r\n");
  });
  expectMiddle(middle(server));
  const auto redirected = fetch(at(server.url("/moved")), {}, 0, {10});
  EXPECT_EQ(redirected.status.code(), ErrorCode::kPermissionDenied);
  EXPECT_EQ(
      fetch(at("http://localhost6.invalid@169.254.169.254/latest"), {}, 0, {10}).status.code(),
      ErrorCode::kPermissionDenied);
  EXPECT_EQ(fetch(at("http://[::1]:1/"), {}, 0, {10}).status.code(), ErrorCode::kPermissionDenied);
  EXPECT_EQ(server.requests().size(), 2u);
}

}  // namespace
}  // namespace hearth
