#include "volume/query_message.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "namespace/testing/led_namespace.h"

namespace hearth {
namespace {

using tree::inRoot;

std::vector<VolumeQuery> allQueries() {
  const tree::InodeId inode{7};
  return {LookUpQuery{inRoot("f")},    AttributesQuery{inode}, OpenQuery{inode, inRoot("f")},
          ListQuery{inode, 8, 9},      TargetQuery{inode},     XattrQuery{inode, "user.x"},
          XattrNamesQuery{inode},      UsageQuery{},           ExistQuery{inode, {"a", "b"}},
          AgentQuery{tree::AgentId{3}}};
}

TEST(QueryMessage, EveryQueryComesBack) {
  const auto queries = allQueries();
  ASSERT_EQ(queries.size(), std::variant_size_v<VolumeQuery>);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    const auto body = encode(QueryMessage{{1}, 2, queries[i]});
    const auto decoded = decodeQuery(body);
    ASSERT_TRUE(decoded) << i;
    EXPECT_EQ(decoded->query.index(), i);
    EXPECT_EQ(decoded->epoch, 2u);
    EXPECT_EQ(encode(*decoded), body) << i;
    for (std::size_t size = 0; size < body.size(); ++size) {
      ASSERT_FALSE(decodeQuery(std::span(body).first(size))) << i << ", " << size;
    }
  }
  ExistQuery many;
  many.names.resize(kMaxAskedNames + 1);
  EXPECT_FALSE(decodeQuery(encode(QueryMessage{{1}, 2, many})));
}

struct QueryAnswers : testing::Test {
  tree::LedNamespace volume;
  tree::ClientId client = volume.join("a");
  tree::InodeId file = volume.file(client, inRoot("f"), 3);

  // As the client gets it.
  QueryReply ask(const VolumeQuery& query) const {
    const auto body = encode(answerQuery(volume.tree, query));
    const auto reply = decodeQueryReply(body);
    EXPECT_TRUE(reply);
    EXPECT_EQ(encode(*reply), body);
    return *reply;
  }
};

TEST_F(QueryAnswers, NamesAndFiles) {
  EXPECT_EQ(ask(LookUpQuery{inRoot("f")}).attributes->id, file);
  EXPECT_EQ(ask(LookUpQuery{inRoot("g")}).error, ENOENT);
  EXPECT_EQ(ask(LookUpQuery{{file, "g"}}).error, ENOTDIR);
  EXPECT_EQ(ask(AttributesQuery{file}).attributes->size, 3u << 22);
  EXPECT_EQ(ask(AttributesQuery{tree::InodeId{99}}).error, ESTALE);
  EXPECT_EQ(*ask(OpenQuery{file, inRoot("f")}).content, *volume.tree.content(file));
  EXPECT_EQ(ask(OpenQuery{file, inRoot("g")}).error, ESTALE);
  EXPECT_EQ(ask(OpenQuery{tree::kRootInode, {}}).error, EISDIR);
  EXPECT_EQ(ask(ExistQuery{tree::kRootInode, {"e", "f"}}).exist, (std::vector{false, true}));
  EXPECT_EQ(ask(ExistQuery{file, {"e"}}).error, ENOTDIR);
  EXPECT_EQ(ask(UsageQuery{}).usage->bytes, 3u << 22);
  EXPECT_EQ(ask(AgentQuery{client.agent}).text, "a");
  EXPECT_EQ(ask(AgentQuery{tree::AgentId{9}}).error, ENOENT);
}

TEST_F(QueryAnswers, TargetsAndAttributes) {
  volume.ask(client, tree::MakeSymlink{.place = inRoot("s"), .target = "to"});
  const tree::InodeId symlink = volume.tree.lookUp(tree::kRootInode, "s").inode;
  EXPECT_EQ(ask(TargetQuery{symlink}).text, "to");
  EXPECT_EQ(ask(TargetQuery{file}).error, EINVAL);
  volume.ask(client, tree::SetXattr{file, "user.x", "v", {}});
  EXPECT_EQ(ask(XattrQuery{file, "user.x"}).text, "v");
  EXPECT_EQ(ask(XattrQuery{file, "user.y"}).error, ENODATA);
  EXPECT_EQ(ask(XattrNamesQuery{file}).names, std::vector<std::string>{"user.x"});
}

TEST_F(QueryAnswers, ListsInPagesThatAMessageHolds) {
  for (std::uint32_t i = 0; i < kMaxListed + 10; ++i) {
    const std::string number = std::to_string(i);
    const tree::Place place =
        inRoot(number + std::string(tree::kMaxNameBytes - number.size(), 'n'));
    tree::Request request = volume.request(client, tree::Create{.place = place});
    request.doneBelow = request.id.number;
    ASSERT_EQ(volume.execute(request).error, 0);
  }
  const QueryReply first = ask(ListQuery{tree::kRootInode, 0, 0xffffffff});
  EXPECT_TRUE(first.more);
  EXPECT_EQ(first.entries.size(), kMaxListed);
  EXPECT_LT(encode(first).size(), std::size_t{1} << 20);
  const QueryReply rest = ask(ListQuery{tree::kRootInode, first.entries.back().cookie, 100});
  EXPECT_FALSE(rest.more);
  EXPECT_EQ(rest.entries.size(), 11u);
  EXPECT_EQ(ask(ListQuery{file, 0, 9}).error, ENOTDIR);
}

}  // namespace
}  // namespace hearth
