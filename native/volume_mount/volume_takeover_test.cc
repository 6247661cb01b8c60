#include <set>
#include <thread>

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

// Each of them fails when it is made twice.
TEST_F(VolumeTakeover, AChangeThatWasMadeAndNotAnsweredIsMadeOnce) {
  const auto there = [this](const std::string& name) {
    bool found = false;
    onReactor(
        [&] { found = volume_->led.tree.lookUp(tree::kRootInode, name).inode != tree::kNoInode; });
    return found;
  };
  struct Change {
    std::function<int()> make;
    std::function<bool()> isMade;
  };
  const std::string folder = at(a_, "folder"), file = at(a_, "file"), moved = at(a_, "moved");
  const std::vector<Change> changes{
      {[&] { return mkdir(folder.c_str(), 0755); }, [&] { return there("folder"); }},
      {[&] { return close(open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)); },
       [&] { return there("file"); }},
      {[&] { return rename(file.c_str(), moved.c_str()); }, [&] { return there("moved"); }},
      {[&] { return unlink(moved.c_str()); }, [&] { return !there("moved"); }},
      {[&] { return rmdir(folder.c_str()); }, [&] { return !there("folder"); }}};
  for (const Change& change : changes) {
    a_.files->keepsAnswers = true;
    int result = -1, error = 0;
    std::thread program([&] {
      result = change.make();
      error = errno;
    });
    EXPECT_TRUE(eventually(change.isMade));
    std::thread killed([&] { a_.session->close(std::chrono::milliseconds(0), true); });
    EXPECT_TRUE(eventually([&] { return a_.service->left(); }));
    a_.files->keepsAnswers = false;
    killed.join();
    replaceAgent(a_);
    program.join();
    EXPECT_EQ(result, 0) << &change - changes.data() << ": " << strerror(error);
    EXPECT_TRUE(change.isMade());
  }
}

}  // namespace
}  // namespace hearth::volume_testing
