#include "volume/volume_eviction.h"

#include <gtest/gtest.h>

#include <vector>

#include "namespace/testing/led_namespace.h"

namespace hearth {
namespace {

using tree::Answer;
using tree::ClientId;
using tree::InodeId;
using tree::inRoot;
using tree::LedNamespace;

class VolumeEvictionTest : public testing::Test {
 protected:
  void limit(std::uint64_t chunks, std::uint64_t inodes = 0) {
    changed(volume.decide(tree::SetLimits{chunks << 22, inodes}));
  }
  void changed(const Answer& answer) { eviction.changed(answer); }
  Answer ask(tree::ClientChange change) {
    const Answer answer = volume.ask(client, std::move(change));
    changed(answer);
    return answer;
  }
  InodeId file(const std::string& name, std::uint32_t chunks = 1) {
    const Answer made = ask(tree::Create{.place = inRoot(name), .opens = true});
    EXPECT_EQ(ask(LedNamespace::publishOf(client, made, chunks)).error, 0);
    return made.inode;
  }
  // The first publish of a new file.
  tree::Publish publish(const std::string& name, std::uint32_t chunks) {
    const Answer made = ask(tree::Create{.place = inRoot(name), .opens = true});
    return LedNamespace::publishOf(client, made, chunks);
  }
  // Evicts until the change fits or nothing may go.
  std::vector<InodeId> evictFor(const tree::ClientChange& change) {
    std::vector<InodeId> gone;
    while (eviction.isFullFor(change)) {
      const auto next = eviction.victim();
      if (!next) break;
      changed(volume.decide(tree::Evict{*next}));
      gone.push_back(*next);
    }
    return gone;
  }

  LedNamespace volume;
  ClientId client = volume.join("a");
  VolumeEviction eviction{volume.tree};
};

TEST_F(VolumeEvictionTest, TheLeastUsedFilesMakeRoomForAPublish) {
  limit(4);
  const InodeId read = file("read"), first = file("first"), second = file("second");
  eviction.used(read);
  const tree::Publish publish = this->publish("new", 3);
  EXPECT_EQ(evictFor(publish), (std::vector<InodeId>{first, second}));
  EXPECT_EQ(ask(publish).error, 0);
  EXPECT_EQ(volume.tree.lookUp(tree::kRootInode, "read").error, 0);
}

TEST_F(VolumeEvictionTest, APublishThatCannotFitOrWillBeRefusedEvictsNothing) {
  limit(2);
  file("old", 2);
  EXPECT_TRUE(evictFor(publish("large", 3)).empty());
  tree::Publish late = publish("late", 1);
  late.base = {late.session, 7};
  EXPECT_TRUE(evictFor(late).empty());
  EXPECT_EQ(volume.tree.lookUp(tree::kRootInode, "old").error, 0);
}

TEST_F(VolumeEvictionTest, FilesThatAreWrittenStay) {
  limit(2);
  const InodeId written = file("written"), closed = file("closed");
  const Answer granted = ask(tree::OpenForWriting{.inode = written});
  const tree::Publish publish = this->publish("new", 2);
  EXPECT_EQ(evictFor(publish), (std::vector<InodeId>{closed}));
  EXPECT_TRUE(eviction.isFullFor(publish));
  EXPECT_EQ(ask(tree::EndSession{written, granted.session, 0}).error, 0);
  EXPECT_EQ(evictFor(publish), (std::vector<InodeId>{written}));
}

TEST_F(VolumeEvictionTest, AFullTableOfInodesIsMadeRoomInForNewNamesOnly) {
  limit(0, 4);  // with the root
  const InodeId oldest = file("a");
  file("b");
  file("c");
  EXPECT_FALSE(eviction.isFullFor(tree::Create{.place = inRoot("a")}));
  EXPECT_EQ(evictFor(tree::MakeFolder{.place = inRoot("d")}), (std::vector<InodeId>{oldest}));
}

TEST_F(VolumeEvictionTest, TheNextTermKnowsTheFilesOfTheLast) {
  limit(3);
  const InodeId first = file("first");
  file("second");
  VolumeEviction next(volume.tree);
  while (next.learn(1)) {
  }
  EXPECT_EQ(next.victim(), first);
}

TEST_F(VolumeEvictionTest, FilesThatAreRemovedByProgramsAreForgotten) {
  limit(3);
  file("a");
  EXPECT_FALSE(eviction.isEmpty());
  ask(tree::Unlink{inRoot("a")});
  EXPECT_TRUE(eviction.isEmpty());
}

TEST_F(VolumeEvictionTest, AVolumeWithoutLimitsKeepsNoOrderUntilItHasSome) {
  const InodeId old = file("old", 3);
  EXPECT_TRUE(eviction.isEmpty());
  limit(4);
  EXPECT_EQ(evictFor(publish("new", 2)), (std::vector<InodeId>{old}));
}

}  // namespace
}  // namespace hearth
