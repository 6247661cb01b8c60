#include "origin/proxy_choice.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

constexpr const char* kHttp = "http://web:3128/";
constexpr const char* kHttps = "http://user:word@tls:3129/";

ProxyChoice choice(const std::string& none = {}) {
  auto made = ProxyChoice::create({.http = kHttp, .https = kHttps, .none = none});
  EXPECT_TRUE(made.ok());
  return *made;
}

TEST(ProxyChoice, HasOneProxyForEachScheme) {
  EXPECT_EQ(choice().of("http://example.com/x"), kHttp);
  EXPECT_EQ(choice().of("https://example.com/x"), kHttps);
  EXPECT_EQ(ProxyChoice().of("https://example.com/x"), "");
  const auto one = ProxyChoice::create({.http = {}, .https = "proxy:3128", .none = {}});
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->of("http://example.com/x"), "");
  EXPECT_EQ(one->of("https://example.com/x"), "http://proxy:3128/");
  const auto bare = ProxyChoice::create({.http = "https://proxy", .https = {}, .none = {}});
  ASSERT_TRUE(bare.ok());
  EXPECT_EQ(bare->of("http://example.com/x"), "https://proxy:443/");
}

TEST(ProxyChoice, AsksThisMachineDirectly) {
  for (const char* const host : {"localhost", "a.localhost", "LOCALHOST.", "127.0.0.1", "127.9.9.9",
                                 "2130706433", "[::1]"}) {
    EXPECT_EQ(choice().of("https://" + std::string(host) + ":8443/x"), "") << host;
  }
  EXPECT_EQ(choice().of("https://notlocalhost/x"), kHttps);
}

TEST(ProxyChoice, AsksListedHostsDirectly) {
  const ProxyChoice some = choice(
      " Example.com, .svc *.corp.local,10.0.0.0/8 fd00::/8,192.0.2.1:9000,web.org:8443,"
      "[2001:db8::1]:443,");
  for (const char* const host : {"example.com", "EXAMPLE.com.", "a.b.example.com", "minio.data.svc",
                                 "s3.corp.local", "10.255.0.1", "[fd00::7]", "192.0.2.1:9000",
                                 "web.org:8443", "a.web.org:8443", "[2001:db8::1]"}) {
    EXPECT_EQ(some.of("https://" + std::string(host) + "/x"), "") << host;
  }
  for (const char* const host :
       {"notexample.com", "example.com.evil.org", "svcx", "11.0.0.1", "[fe80::1]", "192.0.2.1",
        "192.0.2.1:9001", "web.org", "[2001:db8::1]:444", "10.0.0.0.evil.org"}) {
    EXPECT_EQ(some.of("https://" + std::string(host) + "/x"), kHttps) << host;
  }
  EXPECT_EQ(choice("a.org,*").of("http://example.com/x"), "");
}

TEST(ProxyChoice, NamesTheVariableThatIsNoProxyAndNoSecret) {
  for (const char* const proxy :
       {"socks5://u:secret@proxy:1080", "http://", "http://u:secret@ x"}) {
    const auto made = ProxyChoice::create({.http = {}, .https = proxy, .none = {}});
    ASSERT_FALSE(made.ok()) << proxy;
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(made.error().message.find("HTTPS_PROXY"), std::string::npos);
    EXPECT_EQ(made.error().message.find("secret"), std::string::npos);
  }
}

TEST(ProxyChoice, SaysWhatARefusalMeans) {
  EXPECT_EQ(proxyRefusal("https://a/x", kHttps, 407).code, ErrorCode::kUnauthenticated);
  EXPECT_EQ(proxyRefusal("https://a/x", kHttps, 403).code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(proxyRefusal("https://a/x", kHttps, 503).code, ErrorCode::kUnavailable);
  EXPECT_EQ(proxyRefusal("https://a/x", kHttps, 403).message.find("word"), std::string::npos);
}

}  // namespace
}  // namespace hearth
