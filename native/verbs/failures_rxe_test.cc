// Reports of endpoints over a kernel's devices when the path between them, a peer or a device goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "verbs/endpoint.h"
#include "verbs/testing/endpoint_pair.h"
#include "verbs/testing/rxe_pair.h"

namespace hearth {
namespace {

using testing_verbs::changeDevices;
using testing_verbs::fill;
using testing_verbs::RxeDevices;
using testing_verbs::RxePair;
using testing_verbs::RxeSide;

constexpr std::size_t kTransferBytes = std::size_t{1} << 20;

// Writes of one MiB into the window of another side that go on while the test disturbs them.
class Stream {
 public:
  Stream(RxeSide& from, std::uint64_t address, std::uint32_t key)
      : side_(from), source_(from.memory(kTransferBytes)), address_(address), key_(key) {
    fill(*source_, 9);
    for (int at = 0; at < kWrites; ++at)
      from.write(MemorySlice{source_, 0, kTransferBytes}, address_, key_);
  }
  // Some bytes have arrived, and most are under way.
  void awaitFirst() {
    side_.takeUntil([this] { return !side_.outcomes.empty(); });
  }
  // Each write settles once: first those that succeeded, then the others.
  void awaitFailure(const ::testing::Matcher<ErrorCode>& code = ErrorCode::kUnavailable) {
    side_.takeUntil([this] { return side_.outcomes.size() == kWrites; });
    EXPECT_TRUE(side_.outcomes.front().ok()) << side_.outcomes.front().error().message;
    EXPECT_THAT(side_.outcomes.back().code(), code);
    EXPECT_TRUE(
        std::ranges::is_partitioned(side_.outcomes, [](const Status& each) { return each.ok(); }));
    EXPECT_FALSE(side_.endpoint->usable());
  }

 private:
  static constexpr int kWrites = 100;
  RxeSide& side_;
  const std::shared_ptr<MemoryRegion> source_;
  const std::uint64_t address_;
  const std::uint32_t key_;
};

void expectMoves(RxePair& pair) {
  const auto from = pair.left.memory(kTransferBytes);
  const auto into = pair.right.memory(kTransferBytes);
  fill(*from, 11);
  const std::uint32_t key = pair.right.openWindow({into, 0, kTransferBytes});
  pair.left.write(MemorySlice{from, 0, kTransferBytes}, into->address(), key, 1);
  pair.right.takeUntil([&pair] { return !pair.right.immediates.empty(); });
  EXPECT_TRUE(std::ranges::equal(from->bytes(), into->bytes()));
}

// Takes events of the device until `reached` holds.
void takeEventsUntil(RdmaDevice& device, const std::function<bool()>& reached) {
  while (!reached()) {
    pollfd waiting{.fd = device.eventDescriptor(), .events = POLLIN, .revents = 0};
    ASSERT_GT(::poll(&waiting, 1, 60'000), 0) << "the kernel tells nothing of " << device.name();
    static_cast<void>(device.takeEvents());
  }
}

TEST(FailuresRxeTest, EndsWritesWhenTheLinkGoesDownAndComesBackWithIt) {
  RxePair pair;
  const auto into = pair.right.memory(kTransferBytes);
  const std::uint32_t key = pair.right.openWindow({into, 0, kTransferBytes});
  {
    Stream stream(pair.left, into->address(), key);
    stream.awaitFirst();
    ASSERT_TRUE(changeDevices("unplug"));
    stream.awaitFailure();
  }
  for (RxeSide* const side : {&pair.left, &pair.right})
    takeEventsUntil(*side->device, [side] { return !side->device->usable(); });

  ASSERT_TRUE(changeDevices("plug"));
  for (RxeSide* const side : {&pair.left, &pair.right})
    takeEventsUntil(*side->device, [side] { return side->device->usable(); });
  pair.left.outcomes.clear();
  pair.connectAgain();
  expectMoves(pair);
}

TEST(FailuresRxeTest, ReleasesADeviceThatIsRemoved) {
  RxePair pair;
  const auto into = pair.right.memory(kTransferBytes);
  const std::uint32_t key = pair.right.openWindow({into, 0, kTransferBytes});
  Stream stream(pair.left, into->address(), key);
  stream.awaitFirst();
  // The kernel need not tell of it: soft-RoCE's event of the port is often lost with the device.
  pair.devices.remove();
  stream.awaitFailure();
}

// The devices above are gone when the process has closed them, not before.
TEST(FailuresRxeTest, FindsNoDeviceWhereNoneIs) {
  auto verbs = loadVerbs();
  ASSERT_TRUE(verbs.ok()) << verbs.error().message;
  const Devices found = openDevices(*verbs);
  EXPECT_TRUE(found.usable.empty());
}

// The last report of a process that is killed.
struct Told {
  EndpointAddress address;
  std::uint64_t memory;
  std::uint32_t key;
};

// The right side, in a process of its own: opens a window and waits to be killed.
[[noreturn]] void beKilled(int from, int to) {
  RxeSide side("rxe1/1");
  const auto into = side.memory(kTransferBytes);
  EndpointAddress theirs;
  if (::write(to, &side.endpoint->address(), sizeof(EndpointAddress)) < 0 ||
      ::read(from, &theirs, sizeof(theirs)) != sizeof(theirs) ||
      !side.endpoint->connect(theirs).ok())
    ::_exit(1);
  const Told told{side.endpoint->address(), into->address(),
                  side.openWindow({into, 0, kTransferBytes})};
  if (::write(to, &told, sizeof(told)) < 0) ::_exit(1);
  for (;;) ::pause();
}

TEST(FailuresRxeTest, EndsWritesWhenThePeerIsKilled) {
  RxeDevices devices;
  int toChild[2], toTest[2];
  ASSERT_EQ(::pipe(toChild) + ::pipe(toTest), 0);
  const pid_t child = ::fork();  // before this process opens a device
  ASSERT_GE(child, 0);
  if (child == 0) beKilled(toChild[0], toTest[1]);
  RxeSide side("rxe0/1");
  Told told{};
  ASSERT_EQ(::read(toTest[0], &told.address, sizeof(told.address)), ssize_t{sizeof(told.address)});
  ASSERT_TRUE(side.endpoint->connect(told.address).ok());
  ASSERT_EQ(::write(toChild[1], &side.endpoint->address(), sizeof(EndpointAddress)),
            ssize_t{sizeof(EndpointAddress)});
  ASSERT_EQ(::read(toTest[0], &told, sizeof(told)), ssize_t{sizeof(told)});
  Stream stream(side, told.memory, told.key);
  stream.awaitFirst();
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  // The kernel may take the window before the queue pair.
  stream.awaitFailure(::testing::AnyOf(ErrorCode::kUnavailable, ErrorCode::kPermissionDenied));
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  for (const int end : {toChild[0], toChild[1], toTest[0], toTest[1]}) ::close(end);
}

// In a process of its own, which may not pin more than `bytes`: the message of a registration.
std::string registrationWithin(std::uint64_t bytes) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit most{bytes, bytes};
    ::setrlimit(RLIMIT_MEMLOCK, &most);
    // Root may pin whatever the limit says, as long as it has CAP_IPC_LOCK.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2]{};
    ::syscall(SYS_capget, &header, sets);
    sets[0].effective &= ~(1u << CAP_IPC_LOCK);
    ::syscall(SYS_capset, &header, sets);
    std::string said = "registered";
    const auto verbs = loadVerbs();
    const Devices found = openDevices(*verbs);
    const auto region = *MemoryRegion::allocate(kTransferBytes);
    const auto known = region->registrationWith(found.usable.front());
    if (!known.ok()) said = known.error().message;
    ::_exit(::write(ends[1], said.data(), said.size()) < 0 ? 1 : 0);
  }
  ::waitpid(child, nullptr, 0);
  char text[512];
  const ssize_t size = ::read(ends[0], text, sizeof(text));
  ::close(ends[0]);
  ::close(ends[1]);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

TEST(FailuresRxeTest, NamesTheLimitOfLockedMemory) {
  RxeDevices devices;
  EXPECT_THAT(registrationWithin(64 << 10), ::testing::HasSubstr("RLIMIT_MEMLOCK"));
  EXPECT_EQ(registrationWithin(64 << 20), "registered");
}

}  // namespace
}  // namespace hearth
