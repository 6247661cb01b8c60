#include "fuse/node_id.h"

#include <gtest/gtest.h>

#include <set>

namespace hearth {
namespace {

TEST(NodeId, ComesBackAsItWas) {
  for (const std::uint32_t entry : {1U, 2U, 77U, 0x7fffffffU, 0xffffffffU}) {
    for (const std::uint32_t epoch : {1U, 2U, kNodeEpochMask}) {
      for (const NodeMode mode : {NodeMode::kDaemon, NodeMode::kPassthrough}) {
        const NodeId id{entry, mode, epoch};
        EXPECT_EQ(decodeNodeId(encodeNodeId(id)), id);
      }
    }
    const NodeId tree{entry, NodeMode::kTree, 0};
    EXPECT_EQ(decodeNodeId(encodeNodeId(tree)), tree);
  }
}

TEST(NodeId, RootIsWhatTheKernelCallsIt) {
  EXPECT_EQ(encodeNodeId(NodeId{}), 1U);
  EXPECT_EQ(encodeNodeId(NodeId{kRootEntry, NodeMode::kTree, 5}), 1U);
  EXPECT_EQ(decodeNodeId(1), NodeId{});
}

TEST(NodeId, NothingIsTheRootOrNoNodeByAccident) {
  std::set<std::uint64_t> seen;
  for (std::uint32_t entry = 1; entry < 50; ++entry) {
    seen.insert(encodeNodeId({entry, NodeMode::kTree, 0}));
    for (std::uint32_t epoch = 0; epoch < 4; ++epoch) {
      seen.insert(encodeNodeId({entry, NodeMode::kDaemon, epoch}));
      seen.insert(encodeNodeId({entry, NodeMode::kPassthrough, epoch}));
    }
  }
  EXPECT_EQ(seen.size(), 49U * 9U);
  EXPECT_FALSE(seen.contains(0));
  EXPECT_FALSE(seen.contains(kRootNode));
}

TEST(NodeId, RefusesWhatItNeverMakes) {
  EXPECT_FALSE(decodeNodeId(0));
  EXPECT_FALSE(decodeNodeId(2));                       // no mode
  EXPECT_FALSE(decodeNodeId(std::uint64_t{2} << 32));  // entry 0 is the root
  EXPECT_FALSE(
      decodeNodeId((std::uint64_t{1} << 32 | 7) | std::uint64_t{3} << 34));  // folder, epoch
}

TEST(NodeId, InodeNumbersStartAtOne) {
  EXPECT_EQ(inodeNumber(0), 1U);
  EXPECT_EQ(inodeNumber(0xffffffffU), 0x100000000ULL);
}

}  // namespace
}  // namespace hearth
