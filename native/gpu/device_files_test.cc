#include <algorithm>

#include "gpu/path_choice.h"
#include "gpu/testing/gpu_fixture.h"

namespace hearth::testing_gpu {
namespace {

using testing::HasSubstr;
using Choice = DeviceFiles::Choice;

class DeviceFilesTest : public GpuFixture {
 protected:
  static constexpr std::size_t kBytes = 200 * 1024 + 321;
  const std::vector<std::byte> bytes_ = randomBytes(kBytes, 7);
  const std::string path_ = makeFile("a", bytes_);

  void expectContents(const MemoryRegion& memory, std::uint64_t offset, std::uint64_t from,
                      std::size_t size) {
    EXPECT_TRUE(std::ranges::equal(gpu().peek(memory.address() + offset, size),
                                   std::span(bytes_).subspan(from, size)));
  }
};

TEST_F(DeviceFilesTest, bouncesThroughPinnedMemory) {
  const auto device = open();
  const auto memory = allocate(*device, kBytes);
  const auto moved = files(device, Choice::kBounced)->read({{{path_, 0, {memory, 0, kBytes}}}});
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  expectContents(*memory, 0, 0, kBytes);
  EXPECT_EQ(moved->bouncedBytes, kBytes);
  EXPECT_EQ(moved->path(), TransferPath::kBounced);
  EXPECT_EQ(moved->whyNotDirect, "the direct path is switched off");
  EXPECT_EQ(gpu().calls("cuFileRead"), 0U);
}

TEST_F(DeviceFilesTest, goesDirectToTheLastByte) {
  const auto device = open();
  const auto memory = allocate(*device, kBytes);
  const auto moved = files(device, Choice::kDirect)->read({{{path_, 0, {memory, 0, kBytes}}}});
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  expectContents(*memory, 0, 0, kBytes);
  EXPECT_EQ(moved->directBytes, kBytes);
  EXPECT_EQ(moved->path(), TransferPath::kDirect);
  EXPECT_EQ(moved->whyNotDirect, "");
  EXPECT_EQ(gpu().calls("cuMemcpyHtoDAsync"), 0U);
  EXPECT_EQ(gpu().calls("cuFileBufRegister"), 1U);
}

TEST_F(DeviceFilesTest, measuresBothPaths) {
  const auto device = open();
  const auto big = randomBytes(2 << 20, 3);
  const std::string path = makeFile("big", big);
  const auto memory = allocate(*device, big.size());
  const auto moved = files(device, Choice::kMeasured)->read({{{path, 0, {memory, 0, big.size()}}}});
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  EXPECT_GE(moved->directBytes, PathChoice::kTrials * 16384);
  EXPECT_GE(moved->bouncedBytes, PathChoice::kTrials * 16384);
  EXPECT_NE(moved->whyNotDirect, "");
  EXPECT_EQ(gpu().peek(memory->address(), big.size()), big);
}

TEST_F(DeviceFilesTest, bouncesWhatIsMisaligned) {
  const auto device = open();
  const auto memory = allocate(*device, kBytes);
  const auto opened = files(device, Choice::kMeasured);
  const auto moved = opened->read({{{path_, 8, {memory, 100, 50000}}}});
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  expectContents(*memory, 100, 8, 50000);
  EXPECT_EQ(moved->bouncedBytes, 50000U);
  EXPECT_THAT(moved->whyNotDirect, HasSubstr("do not lie at multiples of 4096"));
}

TEST_F(DeviceFilesTest, refusesMisalignmentWhereOnlyTheDirectPathIsAllowed) {
  const auto device = open();
  const auto memory = allocate(*device, kBytes);
  const auto moved = files(device, Choice::kDirect)->read({{{path_, 8, {memory, 0, 50000}}}});
  EXPECT_EQ(moved.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(moved.error().message, HasSubstr("do not lie at multiples of 4096"));
}

TEST_F(DeviceFilesTest, readsManyPiecesOfManyFiles) {
  const auto device = open();
  const auto memory = allocate(*device, 1 << 20);
  const std::string other = makeFile("b", bytes_);
  std::vector<FilePiece> pieces;
  for (std::uint64_t index = 0; index < 100; ++index) {
    pieces.push_back({index % 2 == 0 ? path_ : other, index * 1000, {memory, index * 3000, 2999}});
  }
  const auto moved = files(device, Choice::kMeasured, 4)->read(pieces);
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  EXPECT_EQ(moved->bytes(), 100U * 2999);
  for (const FilePiece& piece : pieces) {
    expectContents(*memory, piece.memory.offset, piece.offset, piece.memory.size);
  }
}

TEST_F(DeviceFilesTest, writesIntoExistingFiles) {
  const auto device = open();
  const auto memory = allocate(*device, kBytes);
  for (const Choice choice : {Choice::kBounced, Choice::kMeasured}) {
    const auto content = randomBytes(kBytes, static_cast<std::uint64_t>(choice) + 10);
    gpu().poke(memory->address(), content);
    const auto moved = files(device, choice)->write({{{path_, 0, {memory, 0, kBytes}}}});
    ASSERT_TRUE(moved.ok()) << moved.error().message;
    EXPECT_EQ(moved->bytes(), kBytes);
    EXPECT_EQ(contents(path_), content);
  }
  EXPECT_GT(gpu().calls("cuFileWrite"), 0U);
}

TEST_F(DeviceFilesTest, readsIntoTheHost) {
  const auto device = open("cpu");
  std::vector<std::byte> memory(kBytes + 8);
  const auto region =
      device->adopt(reinterpret_cast<std::uint64_t>(memory.data() + 8), kBytes, nullptr);
  ASSERT_TRUE(region.ok());
  const auto moved = files(device, Choice::kMeasured)->read({{{path_, 0, {*region, 0, kBytes}}}});
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  EXPECT_TRUE(std::ranges::equal(std::span(memory).subspan(8), bytes_));
  EXPECT_EQ(moved->path(), TransferPath::kHost);
  EXPECT_EQ(moved->hostBytes, kBytes);
}

TEST_F(DeviceFilesTest, saysWhatIsWrongWithThePieces) {
  const auto device = open();
  const auto other = open("cuda:1");
  const auto memory = allocate(*device, kBytes);
  const auto foreign = allocate(*other, kBytes);
  const auto opened = files(device, Choice::kMeasured);
  const auto error = [&](FilePiece piece) { return opened->read({{std::move(piece)}}).error(); };
  EXPECT_EQ(error({path_ + "x", 0, {memory, 0, 1}}).code, ErrorCode::kNotFound);
  EXPECT_THAT(error({path_, 1, {memory, 0, kBytes}}).message, HasSubstr("has 205121 bytes, not"));
  EXPECT_THAT(error({path_, 0, {memory, 1, kBytes}}).message, HasSubstr("does not lie in its"));
  EXPECT_THAT(error({path_, 0, {nullptr, 0, 1}}).message, HasSubstr("does not lie in its region"));
  EXPECT_THAT(error({path_, 0, {foreign, 0, 1}}).message, HasSubstr("belongs to cuda:1"));
  EXPECT_THAT(error({folder_, 0, {memory, 0, 1}}).message, HasSubstr("is not a regular file"));
  const auto host = MemoryRegion::allocate(4096);
  EXPECT_THAT(error({path_, 0, {*host, 0, 1}}).message, HasSubstr("the memory is the host's"));
}

TEST_F(DeviceFilesTest, noticesThatTheMemoryIsFreed) {
  const auto device = open();
  auto memory = allocate(*device, kBytes);
  const auto adopted = device->adopt(memory->address(), kBytes, nullptr);
  ASSERT_TRUE(adopted.ok());
  memory.reset();
  const auto moved = files(device, Choice::kBounced)->read({{{path_, 0, {*adopted, 0, kBytes}}}});
  EXPECT_EQ(moved.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(moved.error().message, HasSubstr("it may have been freed"));
}

TEST_F(DeviceFilesTest, bouncesWhenTheDirectPathFailsAndSaysSo) {
  gpu().fail("cuFileRead", 5030);
  const auto device = open();
  const auto memory = allocate(*device, kBytes);
  const auto moved = files(device, Choice::kMeasured)->read({{{path_, 0, {memory, 0, kBytes}}}});
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  expectContents(*memory, 0, 0, kBytes);
  EXPECT_EQ(moved->bouncedBytes, kBytes);
  EXPECT_THAT(moved->whyNotDirect, HasSubstr("cuFileRead failed: internal error (5030)"));
}

TEST_F(DeviceFilesTest, takesFewerLanesWhenLittleMemoryCanBePinned) {
  FakeOptions options;
  options.pinnedLimit = 3 * 2 * 16384;
  gpu().reset(options);
  const auto device = open();
  const auto memory = allocate(*device, kBytes);
  const auto moved = files(device, Choice::kBounced, 8)->read({{{path_, 0, {memory, 0, kBytes}}}});
  ASSERT_TRUE(moved.ok()) << moved.error().message;
  expectContents(*memory, 0, 0, kBytes);
}

TEST_F(DeviceFilesTest, refusesWithoutAnyPinnedMemory) {
  gpu().fail("cuMemHostAlloc", kCudaOutOfMemory);
  const auto opened = DeviceFiles::open(open(), {});
  EXPECT_EQ(opened.code(), ErrorCode::kOutOfSpace);
  EXPECT_THAT(opened.error().message, HasSubstr("free memory of the GPU or, for pinned memory"));
}

TEST_F(DeviceFilesTest, registersAFileOnceHoweverOftenItIsRead) {
  const auto device = open();
  const auto memory = allocate(*device, kBytes);
  const auto opened = files(device, Choice::kDirect);
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(opened->read({{{path_, 0, {memory, 0, kBytes}}}}).ok());
  }
  EXPECT_EQ(gpu().calls("cuFileHandleRegister"), 1U);
  EXPECT_EQ(gpu().calls("cuFileBufRegister"), 1U);
}

TEST_F(DeviceFilesTest, readsTheFileThatThePathLeadsToNow) {
  const auto device = open();
  const auto memory = allocate(*device, kBytes);
  const auto opened = files(device, Choice::kBounced);
  ASSERT_TRUE(opened->read({{{path_, 0, {memory, 0, kBytes}}}}).ok());
  const auto newer = randomBytes(kBytes, 8);
  std::filesystem::rename(makeFile("newer", newer), path_);
  ASSERT_TRUE(opened->read({{{path_, 0, {memory, 0, kBytes}}}}).ok());
  EXPECT_EQ(gpu().peek(memory->address(), kBytes), newer);
}

}  // namespace
}  // namespace hearth::testing_gpu
