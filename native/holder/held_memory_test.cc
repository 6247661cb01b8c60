// Memory that outlives its agent.
#include "holder/held_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "holder/testing/holder_fixture.h"

namespace hearth {
namespace {

class HeldMemoryTest : public holder_testing::HolderTest {};

TEST_F(HeldMemoryTest, KeepsMemoryForTheNextAgent) {
  auto client = connect("a");
  const OwnedFd first = memory(8192);
  const OwnedFd second = memory(4096);
  ASSERT_EQ(pwrite(second.get(), "bytes", 5, 0), 5);
  EXPECT_TRUE(client->keepMemory({.name = "arena", .bytes = 8192, .generation = 1}, first).ok());
  EXPECT_EQ(client->keepMemory({.name = "arena", .bytes = 4096, .generation = 1}, second).code(),
            ErrorCode::kConflict);
  EXPECT_EQ(client->keepMemory({.name = "arena", .bytes = 1, .generation = 2}, second).code(),
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(client->keepMemory({.name = "arena", .bytes = 4096, .generation = 2}, second).ok());
  EXPECT_TRUE(client->keepMemory({.name = "other", .bytes = 8192, .generation = 1}, first).ok());
  client = connect("b");
  EXPECT_EQ(client->takeMemory("arena").code(), ErrorCode::kNotFound) << "of another owner";
  client = connect("a");
  const auto list = client->listMemory();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 2U);
  const auto kept = client->takeMemory("arena");
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_EQ(kept->record.generation, 2U);
  char bytes[5];
  ASSERT_EQ(pread(kept->descriptor.get(), bytes, 5, 0), 5);
  EXPECT_EQ(std::string(bytes, 5), "bytes");
  EXPECT_TRUE(client->dropMemory("arena").ok());
  EXPECT_EQ(client->takeMemory("arena").code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace hearth
