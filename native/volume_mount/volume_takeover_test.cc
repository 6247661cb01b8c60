#include <set>

#include "volume_mount/testing/volume_fixture.h"

namespace hearth::volume_testing {
namespace {

class VolumeTakeover : public VolumeMountTest {
 protected:
  std::uint32_t writersOf(const Node& node, ino_t inode) {
    std::uint32_t writers = 0;
    onReactor([&] { writers = node.files->writersOf(tree::InodeId{inode}); });
    return writers;
  }
};

TEST_F(VolumeTakeover, TheNextAgentGoesOnWithFilesThatAreOpenForWriting) {
  OwnedFd file(open(at(a_, "file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  OwnedFd second(open(at(a_, "file").c_str(), O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(file && second);
  ASSERT_EQ(write(file.get(), "before", 6), 6);
  const ino_t inode = statOf(at(a_, "file")).st_ino;
  replaceAgent(a_);
  ASSERT_EQ(a_.files->inherited.size(), 1U);
  EXPECT_EQ(a_.files->inherited[0].handles, 2U);
  ASSERT_EQ(write(file.get(), " after", 6), 6);
  const OwnedFd third(open(at(a_, "file").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(readAt(third, 20), "before after");
  second.reset();
  EXPECT_TRUE(eventually([&] { return writersOf(a_, inode) == 1; }));
  file.reset();
  EXPECT_EQ(bytesOf(at(b_, "file")), "before after");
  EXPECT_TRUE(eventually([&] { return writersOf(a_, inode) == 0; }));
}

TEST_F(VolumeTakeover, ReadersGoOnAfterTheirAgentHasEnded) {
  writeFile(at(a_, "file"), "published");
  const OwnedFd whole(open(at(a_, "file").c_str(), O_RDONLY | O_CLOEXEC));
  const OwnedFd remote(open(at(b_, "file").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(whole && remote);
  replaceAgent(a_);
  replaceAgent(b_);
  EXPECT_EQ(readAt(whole, 20), "published");
  EXPECT_EQ(readAt(remote, 20), "published");
  writeFile(at(b_, "file"), "again");
  EXPECT_EQ(readAt(whole, 20), "published");
  EXPECT_EQ(bytesOf(at(a_, "file")), "again");
}

TEST_F(VolumeTakeover, AReaderWhoseVersionTheNextAgentCannotGetSeesAnError) {
  writeFile(at(a_, "file"), "first");
  const OwnedFd remote(open(at(b_, "file").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(remote);
  b_.session->close(std::chrono::milliseconds(0), true);
  writeFile(at(a_, "file"), "other");
  replaceAgent(b_);
  char byte = 0;
  EXPECT_EQ(pread(remote.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(bytesOf(at(b_, "file")), "other");
}

TEST_F(VolumeTakeover, FilesOfAConnectionThatHasEndedAreClosed) {
  const OwnedFd writer(open(at(a_, "file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  ASSERT_TRUE(writer);
  ASSERT_EQ(write(writer.get(), "bytes", 5), 5);
  const ino_t inode = statOf(at(a_, "file")).st_ino;
  EXPECT_EQ(writersOf(a_, inode), 1U);
  a_.session->close(std::chrono::milliseconds(0), false);
  EXPECT_EQ(writersOf(a_, inode), 0U);
  EXPECT_EQ(bytesOf(at(b_, "file")), "bytes");
  a_.session.reset();
  a_.service.reset();
  a_.client.reset();
  serve(a_);  // for the last close, which asks an agent
}

TEST_F(VolumeTakeover, AlternativeNodesKeepTheirInode) {
  writeFile(at(a_, "file"), "first");
  const OwnedFd reader(open(at(a_, "file").c_str(), O_RDONLY | O_CLOEXEC));
  OwnedFd writer(open(at(a_, "file").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(reader && writer) << strerror(errno);
  ASSERT_EQ(pwrite(writer.get(), "F", 1, 0), 1);
  replaceAgent(a_);
  struct stat info {};
  ASSERT_EQ(fstat(writer.get(), &info), 0);
  EXPECT_EQ(info.st_ino, statOf(at(a_, "file")).st_ino);
  writer.reset();
  EXPECT_EQ(bytesOf(at(b_, "file")), "First");
  EXPECT_EQ(readAt(reader, 10), "first");
}

}  // namespace
}  // namespace hearth::volume_testing
