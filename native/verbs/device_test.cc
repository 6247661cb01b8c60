// Ports that are used, and ports that are refused with a reason.
#include "verbs/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "verbs/completion_queue.h"
#include "verbs/endpoint.h"
#include "verbs/loaded_verbs.h"
#include "verbs/testing/in_process_verbs.h"
#include "verbs/window.h"

namespace hearth {
namespace {

using ::testing::HasSubstr;
using testing_verbs::Fabric;
using testing_verbs::InProcessVerbs;
using testing_verbs::PortOptions;

Devices devicesOf(Fabric& fabric, std::vector<PortOptions> ports) {
  return openDevices(std::make_shared<InProcessVerbs>(fabric, std::move(ports)));
}

TEST(DeviceTest, DescribesItsPort) {
  Fabric fabric;
  const Devices found = devicesOf(fabric, {{.name = "mlx5_3", .address = 7, .mtu = IBV_MTU_1024}});
  ASSERT_EQ(found.usable.size(), 1u);
  const RdmaDevice& device = *found.usable.front();
  EXPECT_EQ(device.name(), "mlx5_3/1");
  EXPECT_EQ(device.port().mtuBytes, 1024u);
  EXPECT_EQ(device.port().bitsPerSecond, 200'000'000'000u);
  EXPECT_EQ(textOf(device.gid().gid), "10.0.0.7");
  EXPECT_EQ(device.gid().index, 1);
  EXPECT_TRUE(device.limits().hasWindows);
}

TEST(DeviceTest, SaysWhyPortsCannotBeUsed) {
  Fabric fabric;
  const Devices found = devicesOf(fabric, {{.name = "down", .active = false},
                                           {.name = "forbidden", .openError = EACCES},
                                           {.name = "good", .address = 3}});
  ASSERT_EQ(found.usable.size(), 1u);
  EXPECT_EQ(found.usable.front()->name(), "good/1");
  ASSERT_GE(found.refused.size(), 2u);
  EXPECT_EQ(found.refused.front().port, "down/1");
  EXPECT_EQ(found.refused.front().reason.code, ErrorCode::kUnavailable);
  EXPECT_TRUE(std::ranges::any_of(found.refused, [](const Devices::Refusal& refusal) {
    return refusal.port == "forbidden/1" && refusal.reason.code == ErrorCode::kPermissionDenied;
  }));
}

TEST(DeviceTest, KnowsARegionOnce) {
  Fabric fabric;
  const Devices found = devicesOf(fabric, {{}});
  const auto region = *MemoryRegion::allocate(1 << 20);
  EXPECT_EQ(found.usable.front()->registeredAs(*region), nullptr);
  ASSERT_TRUE(region->registrationWith(found.usable.front()).ok());
  const ibv_mr* const known = found.usable.front()->registeredAs(*region);
  ASSERT_TRUE(region->registrationWith(found.usable.front()).ok());
  EXPECT_NE(known, nullptr);
  EXPECT_EQ(found.usable.front()->registeredAs(*region), known);
}

TEST(DeviceTest, SaysThatMemoryMayNotBePinned) {
  Fabric fabric;
  const Devices found = devicesOf(fabric, {{.lockableBytes = 1 << 16}});
  const auto region = *MemoryRegion::allocate(1 << 20);
  const auto known = region->registrationWith(found.usable.front());
  ASSERT_FALSE(known.ok());
  EXPECT_EQ(known.code(), ErrorCode::kOutOfSpace);
  EXPECT_THAT(known.error().message, HasSubstr("RLIMIT_MEMLOCK"));
}

TEST(DeviceTest, MemoryOfGpusIsOutOfReach) {
  Fabric fabric;
  const Devices found = devicesOf(fabric, {{}});
  const auto region = MemoryRegion::gpu(1 << 20, 4096, nullptr);
  EXPECT_EQ(region->registrationWith(found.usable.front()).code(), ErrorCode::kUnsupported);
}

TEST(DeviceTest, SomeHaveNoWindows) {
  Fabric fabric;
  const Devices found = devicesOf(fabric, {{.hasWindows = false}});
  auto queue = CompletionQueue::create(found.usable.front(), 256);
  ASSERT_TRUE(queue.ok());
  auto endpoint = Endpoint::create(found.usable.front(), **queue, {}, [](const auto&) {});
  ASSERT_TRUE(endpoint.ok()) << endpoint.error().message;
  EXPECT_EQ(Window::create(**endpoint).code(), ErrorCode::kUnsupported);
}

TEST(DeviceTest, AFullCompletionQueueTakesNoEndpoint) {
  Fabric fabric;
  const Devices found = devicesOf(fabric, {{}});
  auto queue = CompletionQueue::create(found.usable.front(), 16);
  ASSERT_TRUE(queue.ok());
  EXPECT_EQ(Endpoint::create(found.usable.front(), **queue, {}, [](const auto&) {}).code(),
            ErrorCode::kOutOfSpace);
}

TEST(LoadedVerbsTest, ALibraryThatIsMissingIsAReason) {
  const auto verbs = loadVerbs("libibverbs-that-is-not-there.so.1");
  ASSERT_FALSE(verbs.ok());
  EXPECT_EQ(verbs.code(), ErrorCode::kNotFound);
  EXPECT_THAT(verbs.error().message, HasSubstr("install libibverbs1"));
}

TEST(LoadedVerbsTest, AnotherLibraryIsAReason) {
  const auto verbs = loadVerbs("libm.so.6");
  ASSERT_FALSE(verbs.ok());
  EXPECT_EQ(verbs.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(verbs.error().message, HasSubstr("ibv_get_device_list@IBVERBS_1.1"));
}

TEST(LoadedVerbsTest, TheInstalledLibraryLoadsAndListsWhatThereIs) {
  const auto verbs = loadVerbs();
  if (!verbs.ok()) GTEST_SKIP() << verbs.error().message;
  const Devices found = openDevices(*verbs);
  for (const Devices::Refusal& refusal : found.refused)
    EXPECT_FALSE(refusal.reason.message.empty());
}

}  // namespace
}  // namespace hearth
