// A session in a spare file, whose agent is killed before it has renamed the file.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/testing_volume_node.h"

namespace hearth {
namespace {

using testing_cluster::connect;
using testing_cluster::pattern;
using testing_volume::contentOf;
using testing_volume::Node;
using testing_volume::write;
using testing_volume::writer;

class VolumeSparesTest : public testing_volume::VolumeNodesTest {
 protected:
  [[nodiscard]] std::string volume() const { return folder_.path("a/volumes/02"); }
  [[nodiscard]] std::string sessionPath(const OpenedVolumeFile& made) const {
    return volume() + "/" + textOf(SessionName{made.attributes.id, made.version.session, {}});
  }
  // Makes a file whose session has a spare file, and waits until that is renamed.
  OpenedVolumeFile createInSpare(const std::string& name) {
    EXPECT_EQ(create(*a_, "first").error, 0);
    EXPECT_TRUE(eventually([&] { return !spareFilesIn(volume()).empty(); }));
    OpenedVolumeFile made = create(*a_, name);
    EXPECT_EQ(made.error, 0);
    EXPECT_TRUE(eventually([&] { return std::filesystem::exists(sessionPath(made)); }));
    return made;
  }
  void nextAgent() {
    a_ = std::make_unique<Node>(tree_, "a", folder_.path("a"), std::uint8_t{2});
    a_->start();
    connect({&a_->agent(), &b_->agent()});
  }
};

TEST_F(VolumeSparesTest, TheNextAgentFindsTheFileByItsInode) {
  const std::vector<char> bytes = pattern(300000, 21);
  OpenedVolumeFile made = createInSpare("open");
  const OwnedFd file = writer(made.session);
  write(file, bytes);
  const std::string path = sessionPath(made);
  a_.reset();
  struct stat about {};
  ASSERT_EQ(::fstat(file.get(), &about), 0);
  std::stringstream number;
  number << std::hex << about.st_ino;
  const std::string spare = volume() + "/spare-" + number.str();
  // As it was before the session named it.
  std::filesystem::rename(path, spare);
  const std::string other = volume() + "/spare-0";
  std::ofstream(other).close();

  nextAgent();
  a_->run(a_->files().resume({{.inode = made.attributes.id,
                               .handles = 1,
                               .session = made.version.session,
                               .device = about.st_dev,
                               .file = about.st_ino}}));
  EXPECT_TRUE(eventually([&] { return !std::filesystem::exists(spare); }));
  EXPECT_FALSE(std::filesystem::exists(other));
  write(file, {'l', 'a', 't', 'e'}, 300000);
  ASSERT_EQ(a_->await(a_->files().publish(made.attributes.id)), 0);
  OpenedVolumeFile there = open(*b_, made.attributes.id);
  std::vector<char> whole = bytes;
  whole.insert(whole.end(), {'l', 'a', 't', 'e'});
  EXPECT_EQ(contentOf(there), whole);
}

TEST_F(VolumeSparesTest, AnUntouchedFileHasTheTimesOfItsName) {
  ASSERT_EQ(create(*a_, "first").error, 0);
  ASSERT_TRUE(eventually([&] { return !spareFilesIn(volume()).empty(); }));
  const OpenedVolumeFile made = create(*a_, "empty");
  const auto attributes = [&] {
    return a_->await(a_->files().query(AttributesQuery{made.attributes.id})).attributes;
  };
  EXPECT_EQ(attributes()->inode.modifiedNs, made.attributes.inode.modifiedNs);
  EXPECT_EQ(attributes()->inode.modifiedNs, attributes()->inode.changedNs);
  a_->run(a_->files().nameSession(made.attributes.id));
  EXPECT_EQ(attributes()->inode.modifiedNs, made.attributes.inode.modifiedNs);
  write(writer(made.session), {'x'});
  EXPECT_GT(attributes()->inode.modifiedNs, made.attributes.inode.modifiedNs);
}

TEST_F(VolumeSparesTest, AnAgentThatEndsLeavesNoSpareFiles) {
  (void)createInSpare("open");
  a_.reset();
  EXPECT_TRUE(spareFilesIn(volume()).empty());
}

}  // namespace
}  // namespace hearth
