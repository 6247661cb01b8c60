#include "origin/url.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(Url, ShowsNoSecrets) {
  EXPECT_EQ(shownUrl("https://user:pass@host:8443/a/b%20c?X-Amz-Signature=s#f"),
            "https://host:8443/a/b%20c");
  EXPECT_EQ(shownUrl("http://host"), "http://host/");
  EXPECT_EQ(shownUrl("nonsense with secret"), "(malformed URL)");
}

TEST(Url, AllowsHttpOnly) {
  EXPECT_TRUE(checkUrl("http://h/x").ok());
  EXPECT_TRUE(checkUrl("HTTPS://h/x").ok());
  EXPECT_FALSE(checkUrl("file:///x").ok());
  EXPECT_FALSE(checkUrl("h/x").ok());
  EXPECT_FALSE(checkUrl("").ok());
}

TEST(Url, ComparesSites) {
  EXPECT_TRUE(sameSite("https://h/x", "https://H:443/y?z"));
  EXPECT_FALSE(sameSite("https://h/x", "http://h/x"));
  EXPECT_FALSE(sameSite("https://h/x", "https://h:8443/x"));
  EXPECT_FALSE(sameSite("https://h/x", "https://h.example/x"));
  EXPECT_FALSE(sameSite("https://h/x", "nonsense"));
}

}  // namespace
}  // namespace hearth
