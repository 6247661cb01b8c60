#include "directory/cluster_view.h"

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

TEST(ClusterView, KnowsHowFarAgentsAreFromOneAnother) {
  const auto at = [](const std::string& node, const std::string& zone, const std::string& rack) {
    return ClusterMember{{node, "1", {}}, zone, rack, true};
  };
  const ClusterView view("a", {at("a", "z1", "r1"), at("b", "z1", "r1"), at("c", "z1", "r2"),
                               at("d", "z2", "r1"), at("e", "z1", ""), at("f", "", "")});
  EXPECT_EQ(view.distance("a", "b"), 0u);
  EXPECT_EQ(view.distance("a", "c"), 1u);
  EXPECT_EQ(view.distance("a", "e"), 1u);
  EXPECT_EQ(view.distance("e", "e"), 1u) << "no rack is no common rack";
  EXPECT_EQ(view.distance("a", "d"), 2u) << "a rack belongs to its zone";
  EXPECT_EQ(view.distance("a", "f"), 2u);
  EXPECT_EQ(view.distance("f", "unknown"), 1u);
}

}  // namespace
}  // namespace hearth
