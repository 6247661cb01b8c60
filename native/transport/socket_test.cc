#include "transport/socket.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

// A connection to a listening socket at `address`, as the listening side sees it.
std::string sourceOfConnectionTo(const std::string& address) {
  const SocketAddress any = *socketAddress({address, 0});
  const int family = any.storage.ss_family;
  const Socket listening(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(listening.fd(), any.get(), any.size) != 0) return "no such address";
  EXPECT_EQ(listen(listening.fd(), 1), 0);
  const SocketAddress there = *socketAddress(localAddress(listening.fd()));
  const Socket dialling(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(dialling.fd(), there.get(), there.size), 0);
  const Socket accepted(accept(listening.fd(), nullptr, nullptr));
  return sourceOf(accepted.fd());
}

TEST(SourceOf, IsTheHostOfAnAddress) {
  EXPECT_EQ(sourceOfConnectionTo("127.0.0.1"), "127.0.0.1");
  const std::string six = sourceOfConnectionTo("::1");
  EXPECT_TRUE(six == "::/64" || six == "no such address") << six;
}

TEST(PlainHost, IsTheSameForEverySpelling) {
  EXPECT_EQ(plainHost("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(plainHost("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(plainHost("FD00:0:0::1"), "fd00::1");
  EXPECT_EQ(plainHost("agent.example"), "agent.example");
}

}  // namespace
}  // namespace hearth
