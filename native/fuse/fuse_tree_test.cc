#include "fuse/fuse_tree.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "fuse/testing/test_source.h"

namespace hearth::fuse_testing {
namespace {

std::shared_ptr<const Manifest> twoFiles() {
  std::vector<ManifestRow> rows(2);
  rows[0].path = "sub/a";
  rows[1].path = "b";
  for (ManifestRow& row : rows) row.size = 10;
  return manifestOf(std::move(rows));
}

TEST(FuseTree, ANameHasOneNodeForEver) {
  TestSource source(twoFiles(), std::filesystem::temp_directory_path().string());
  const std::atomic<bool> passthrough{true};
  const FuseTree tree(source, passthrough);
  fuse_entry_out incomplete{};
  fuse_entry_out complete{};
  ASSERT_EQ(tree.lookUp(kRootNode, "b", incomplete), 0);
  source.setComplete("b", true);
  ASSERT_EQ(tree.lookUp(kRootNode, "b", complete), 0);
  EXPECT_EQ(incomplete.nodeid, complete.nodeid);
  EXPECT_EQ(incomplete.entry_valid, complete.entry_valid);
  EXPECT_GE(incomplete.entry_valid, 86400U);
}

TEST(FuseTree, AHandleLeadsToTheNodeThatItNames) {
  TestSource source(twoFiles(), std::filesystem::temp_directory_path().string());
  const std::atomic<bool> passthrough{true};
  const FuseTree tree(source, passthrough);
  const std::uint32_t file = *source.manifest().lookUp("sub/a");
  const std::uint32_t folder = *source.manifest().lookUp("sub");
  // The second is one that an earlier release gave out: by passthrough, in epoch 4.
  for (const std::uint64_t node :
       {encodeNodeId({file, NodeKind::kFile}),
        std::uint64_t{file} | std::uint64_t{3} << 32 | std::uint64_t{4} << 34,
        encodeNodeId({folder, NodeKind::kTree})}) {
    fuse_entry_out out{};
    ASSERT_EQ(tree.lookUp(node, ".", out), 0);
    EXPECT_EQ(out.nodeid, node);
    fuse_attr_out attributes{};
    ASSERT_EQ(tree.attributes(node, attributes), 0);
    EXPECT_EQ(attributes.attr.ino, out.attr.ino);
  }
  fuse_attr_out out{};
  EXPECT_EQ(tree.attributes(encodeNodeId({file, NodeKind::kTree}), out), ESTALE);
  EXPECT_EQ(tree.attributes(encodeNodeId({folder, NodeKind::kFile}), out), ESTALE);
  EXPECT_EQ(tree.attributes(encodeNodeId({77, NodeKind::kFile}), out), ESTALE);
}

}  // namespace
}  // namespace hearth::fuse_testing
