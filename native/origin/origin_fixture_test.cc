#include "origin/origin_fixture.h"

#include "base/testing/eventually.h"

namespace hearth {

void OriginFixture::SetUp() {
  auto created = Reactor::create(GetParam());
  ASSERT_TRUE(created.ok()) << created.error().message;
  reactor_ = std::move(*created);
  options.firstBackOff = std::chrono::milliseconds(1);
  options.longestBackOff = std::chrono::milliseconds(20);
  options.stallTimeout = options.connectTimeout = kHang;
  // Nothing is a straggler for the machine being busy.
  options.hedging.firstByteFloor = options.hedging.slowFor = kHang;
}

void OriginFixture::TearDown() {
  if (client_) run(client_->close());
}

OriginClient& OriginFixture::client() {
  if (!client_) {
    auto created = OriginClient::create(*reactor_, options);
    EXPECT_TRUE(created.ok()) << created.error().message;
    client_ = std::move(*created);
  }
  return *client_;
}

Location OriginFixture::at(std::string url) {
  Location location;
  location.url = std::move(url);
  return location;
}

OriginFixture::Answer OriginFixture::fetch(Location location, OriginExpectation expectation,
                                           std::uint64_t offset, std::vector<std::size_t> pieces) {
  Answer result;
  std::size_t total = 0;
  for (const std::size_t piece : pieces) total += piece;
  result.bytes.resize(total);
  std::vector<std::span<std::byte>> into;
  auto* next = reinterpret_cast<std::byte*>(result.bytes.data());
  for (const std::size_t piece : pieces) {
    into.emplace_back(next, piece);
    next += piece;
  }
  result.status =
      run(client().fetch(std::move(location), std::move(expectation), offset, std::move(into),
                         [&result](std::size_t i) { result.filled.push_back(i); }));
  return result;
}

}  // namespace hearth
