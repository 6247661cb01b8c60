#include "engine/cluster_view.h"

#include <gtest/gtest.h>

#include <set>

namespace hearth {
namespace {

ClusterMember member(const std::string& node, bool ready) {
  return {{node, "1", {}}, "", "", ready};
}

ContentKey key(std::uint8_t first) {
  ContentKey key;
  key.bytes.fill(first);
  return key;
}

TEST(ClusterView, AllAgentsNameTheSameDirectories) {
  const std::vector<ClusterMember> members{member("a", true), member("b", true), member("c", true),
                                           member("d", true)};
  std::set<std::string> firsts;
  for (std::uint8_t i = 0; i < 100; ++i) {
    const auto names = ClusterView("a", members).directoriesOf(key(i));
    EXPECT_EQ(names.size(), 3u);
    EXPECT_EQ(ClusterView("c", members).directoriesOf(key(i)), names);
    firsts.insert(names.front());
  }
  EXPECT_EQ(firsts.size(), 4u) << "the directories are spread over all agents";
}

TEST(ClusterView, LeavesOutAgentsThatAreNotReadyButNeverItself) {
  const ClusterView view("a", {member("a", false), member("b", false), member("c", true)});
  const auto names = view.directoriesOf(key(1));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), (std::set<std::string>{"a", "c"}));
  EXPECT_EQ(view.others().size(), 2u);
  EXPECT_EQ(view.readyOthers(), std::vector<std::string>{"c"});
}

}  // namespace
}  // namespace hearth
