#include "loader/model_loader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "loader/loaded_check.h"
#include "loader/testing/safetensors_writer.h"

namespace hearth {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kSmallChunk = kDirectReadAlignment;

std::string textOf(const LoadedTensor& tensor) {
  const std::span<std::byte> bytes = tensor.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A header, padded with spaces to `bytes`.
std::string padded(std::string header, std::size_t bytes) {
  EXPECT_LE(header.size(), bytes);
  header.resize(bytes, ' ');
  return header;
}

class ModelLoaderTest : public testing::Test {
 protected:
  // Three tensors, of which the second crosses many chunks.
  std::string writeModel(const std::string& name, const std::string& prefix, std::uint32_t seed) {
    const std::size_t a = 100, b = 50'000, c = 9'000;
    data_ = patternBytes(a + b + c, seed);
    return folder_.write(
        name,
        padded("{" + byteTensor(prefix + "a", 0, a) + "," + byteTensor(prefix + "b", a, a + b) +
                   "," + byteTensor(prefix + "c", a + b, a + b + c) + "}",
               504),
        data_);
  }
  Result<LoadedModel> load(const std::vector<std::string>& paths, LoadOptions options = {}) {
    options.read.chunkBytes = kSmallChunk;
    return loadModel(paths, options);
  }

  SafetensorsFolder folder_;
  std::string data_;  // of the file that was written last
};

TEST_F(ModelLoaderTest, LoadsAllTensorsOfSeveralFiles) {
  const std::string first = writeModel("1", "x", 1), firstData = data_;
  const std::string second = writeModel("2", "y", 2), secondData = data_;
  const auto model = load({first, second});
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->tensors.size(), 6U);
  EXPECT_EQ(model->tensors[4].entry->name, "yb");
  for (const LoadedTensor& tensor : model->tensors) {
    const std::string& data = tensor.entry->name[0] == 'x' ? firstData : secondData;
    EXPECT_EQ(textOf(tensor), data.substr(tensor.entry->begin, tensor.entry->bytes()))
        << tensor.entry->name;
  }
}

TEST_F(ModelLoaderTest, LoadsTensorsByNameAndReadsNoPageTwice) {
  const std::string path = writeModel("1", "", 3);
  const auto model = load({path}, {.names = std::vector<std::string>{"a", "c"}});
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->tensors.size(), 2U);
  EXPECT_EQ(textOf(model->tensors[0]), data_.substr(0, 100));
  EXPECT_EQ(textOf(model->tensors[1]), data_.substr(50'100));
  const std::vector<PlannedRead>& reads = model->plan.files[0].reads;
  ASSERT_EQ(reads.size(), 2U);
  EXPECT_GE(reads[1].offset, (reads[0].offset + reads[0].size + 4095) / 4096 * 4096);
  EXPECT_LT(model->plan.readBytes(), 100U + 9'000 + 2 * 4096);
}

TEST_F(ModelLoaderTest, AlignsTensorsThatTheirFileDoesNot) {
  const std::string data = patternBytes(24, 4);
  const std::string header = R"({"n":{"dtype":"F64","shape":[2],"data_offsets":[1,17]},)" +
                             byteTensor("b", 0, 1) + "," + byteTensor("e", 17, 24) + "}";
  const auto model = load({folder_.write("odd", header, data)});
  ASSERT_TRUE(model.ok()) << model.error().message;
  for (const LoadedTensor& tensor : model->tensors) {
    EXPECT_EQ(textOf(tensor), data.substr(tensor.entry->begin, tensor.entry->bytes()));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) %
                  tensorTypeAlignment(tensor.entry->type),
              0U);
  }
}

TEST_F(ModelLoaderTest, ReadsThroughThePageCacheOnlyWhatIsAskedFor) {
  const std::string path =
      folder_.write("model", "{" + byteTensor("t", 0, 9'000) + "}", patternBytes(9'000, 1));
  const OwnedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto model = ModelFile::open(path);
  ASSERT_TRUE(model.ok());
  ASSERT_EQ(fsync(file.get()), 0);
  ASSERT_EQ(posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  const auto memory = MemoryRegion::allocate(2 * kDirectReadAlignment);
  ASSERT_TRUE(memory.ok());
  const std::span<std::byte> bytes = (*memory)->bytes();
  ASSERT_TRUE((*model)->readThrough(bytes.data(), 0, 8).ok());
  EXPECT_NE(bytes[0], std::byte{0});
  EXPECT_TRUE(
      std::ranges::all_of(bytes.subspan(8), [](std::byte each) { return each == std::byte{0}; }));
}

TEST_F(ModelLoaderTest, MapsFilesOfThePageCache) {
  const std::string path = writeModel("1", "", 15);
  const auto model = load({path}, {.mapsCachedFiles = true});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_EQ(model->plan.readBytes(), 0U);
  for (const LoadedTensor& tensor : model->tensors) {
    EXPECT_EQ(textOf(tensor), data_.substr(tensor.entry->begin, tensor.entry->bytes()));
  }
  // The file begins where the kernel can map huge pages of it as such.
  constexpr std::uintptr_t kHugePage = 2 << 20, kDataOffset = 512;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(model->tensors[0].bytes().data()) % kHugePage,
            kDataOffset);
  // Writes go to the process's own pages.
  model->tensors[0].bytes()[0] ^= std::byte{0xFF};
  EXPECT_EQ(textOf((*load({path})).tensors[0]), data_.substr(0, 100));
}

TEST_F(ModelLoaderTest, CopiesWhereAMappingWouldMisalign) {
  const std::string data = patternBytes(17, 4);
  const std::string header =
      R"({"n":{"dtype":"F64","shape":[2],"data_offsets":[1,17]},)" + byteTensor("b", 0, 1) + "}";
  const auto model = load({folder_.write("odd", header, data)}, {.mapsCachedFiles = true});
  ASSERT_TRUE(model.ok()) << model.error().message;
  EXPECT_GT(model->plan.readBytes(), 0U);
  for (const LoadedTensor& tensor : model->tensors) {
    EXPECT_EQ(textOf(tensor), data.substr(tensor.entry->begin, tensor.entry->bytes()));
  }
}

TEST_F(ModelLoaderTest, RefusesMoreThanTheMachineHas) {
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 43;
  const std::string path = folder_.write("sparse", "{" + byteTensor("t", 0, kBytes) + "}", "");
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + kBytes);
  const auto model = load({path});
  EXPECT_EQ(model.code(), ErrorCode::kOutOfSpace);
  EXPECT_THAT(model.error().message, HasSubstr("load fewer by name"));
}

TEST_F(ModelLoaderTest, LoadsEmptyTensorsAndEmptyFiles) {
  const auto model = load({folder_.write("none", "{}", ""),
                           folder_.write("empty", "{" + byteTensor("e", 0, 0) + "}", "")});
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->tensors.size(), 1U);
  EXPECT_TRUE(model->tensors[0].bytes().empty());
}

TEST_F(ModelLoaderTest, ReportsProgressUpToAllBytes) {
  std::uint64_t last = 0, total = 0;
  LoadOptions options;
  options.read.progress = [&](std::uint64_t done, std::uint64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
    return true;
  };
  const auto model = load({writeModel("1", "", 5)}, options);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, model->plan.readBytes());
}

TEST_F(ModelLoaderTest, EndsWhenProgressSaysSo) {
  LoadOptions options;
  options.read.progress = [](std::uint64_t, std::uint64_t) { return false; };
  EXPECT_EQ(load({writeModel("1", "", 6)}, options).code(), ErrorCode::kCancelled);
}

TEST_F(ModelLoaderTest, RefusesAFileThatIsWrittenMeanwhile) {
  const std::string path = writeModel("1", "", 7);
  LoadOptions options;
  options.read.progress = [&](std::uint64_t, std::uint64_t) {
    std::ofstream(path, std::ios::app) << "more";
    return true;
  };
  const auto model = load({path}, options);
  EXPECT_EQ(model.code(), ErrorCode::kOriginChanged);
  EXPECT_THAT(model.error().message, HasSubstr("was written"));
}

// Writes a byte and puts the time of modification back, until the time of change is another: a
// clock of the file system that ticks slowly gives two changes the same time.
void writeByStealth(const std::string& path, char byte) {
  struct stat before {
  }, now{};
  ASSERT_EQ(stat(path.c_str(), &before), 0);
  do {
    std::fstream(path, std::ios::in | std::ios::out).seekp(1000).put(byte);
    const timespec times[] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
    ASSERT_EQ(stat(path.c_str(), &now), 0);
  } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
}

// Loads the file while `meanwhile` runs once, after some of the bytes came.
Result<LoadedModel> loadWhile(const std::string& path, std::function<void()> meanwhile) {
  LoadOptions options;
  options.read.chunkBytes = kSmallChunk;
  options.read.progress = [&](std::uint64_t, std::uint64_t) {
    if (meanwhile) std::exchange(meanwhile, nullptr)();
    return true;
  };
  return loadModel({{path}}, options);
}

TEST_F(ModelLoaderTest, RefusesAWrittenFileWhoseTimeIsPutBack) {
  const std::string path = writeModel("1", "", 16);
  const auto file = ModelFile::open(path);
  ASSERT_TRUE(file.ok());
  writeByStealth(path, 'x');
  FilePlan plan{.file = *file, .memoryBytes = data_.size()};
  plan.reads.push_back({(*file)->dataOffset(), 0, data_.size()});
  const auto address = reinterpret_cast<std::uintptr_t>(data_.data());
  EXPECT_EQ(checkLoaded(plan, address, nullptr).code(), ErrorCode::kOriginChanged);
  data_[1000 - (*file)->dataOffset()] = 'x';
  EXPECT_TRUE(checkLoaded(plan, address, nullptr).ok());
}

TEST_F(ModelLoaderTest, RefusesAHeaderThatWasWrittenByStealth) {
  const std::string path =
      folder_.write("1", padded("{" + byteTensor("t", 0, 9) + "}", 1200), "123456789");
  const auto file = ModelFile::open(path);
  ASSERT_TRUE(file.ok());
  writeByStealth(path, '\t');
  EXPECT_EQ((*file)->checkUnchanged([] { return true; }).code(), ErrorCode::kOriginChanged);
}

// As views of the same bytes do when they come and go.
TEST_F(ModelLoaderTest, LoadsAFileThatIsLinkedAndUnlinkedMeanwhile) {
  const std::string path = writeModel("1", "", 17), other = folder_.path() + "/view";
  const auto linked = loadWhile(path, [&] { std::filesystem::create_hard_link(path, other); });
  EXPECT_TRUE(linked.ok()) << linked.error().message;
  const auto both = loadWhile(path, [&] {
    std::filesystem::remove(other);
    std::filesystem::create_hard_link(path, other);
  });
  EXPECT_TRUE(both.ok()) << both.error().message;
  const auto unlinked = loadWhile(path, [&] { std::filesystem::remove(other); });
  EXPECT_TRUE(unlinked.ok()) << unlinked.error().message;
}

TEST_F(ModelLoaderTest, LoadsAFileWhoseModeOrOwnerIsSetMeanwhile) {
  const std::string path = writeModel("1", "", 18);
  for (const mode_t mode : {0400, 0400}) {
    const auto model = loadWhile(path, [&] { ASSERT_EQ(chmod(path.c_str(), mode), 0); });
    EXPECT_TRUE(model.ok()) << model.error().message;
  }
}

TEST_F(ModelLoaderTest, RefusesAFileThatIsReplacedMeanwhile) {
  const std::string path = writeModel("1", "", 8);
  LoadOptions options;
  options.read.progress = [&](std::uint64_t, std::uint64_t) {
    const std::string other = folder_.write("2", "{}", "");
    std::filesystem::rename(other, path);
    return true;
  };
  // The progress function runs again after the rename and finds nothing to rename but a new file.
  const auto model = load({path}, options);
  EXPECT_EQ(model.code(), ErrorCode::kOriginChanged);
  EXPECT_THAT(model.error().message, HasSubstr("was replaced"));
}

TEST_F(ModelLoaderTest, RefusesAFileThatIsCutMeanwhile) {
  const std::string path = writeModel("1", "", 9);
  const auto file = ModelFile::open(path);
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(path, 5'000);
  alignas(kDirectReadAlignment) std::byte into[2 * kDirectReadAlignment];
  EXPECT_EQ((*file)->read(into, kDirectReadAlignment, sizeof into).code(),
            ErrorCode::kOriginChanged);
  EXPECT_EQ((*file)->checkUnchanged([] { return true; }).code(), ErrorCode::kOriginChanged);
}

TEST_F(ModelLoaderTest, NamesTheTensorThatNoFileHas) {
  const auto model =
      load({writeModel("1", "", 10)}, {.names = std::vector<std::string>{"a", "zz", "nope"}});
  EXPECT_EQ(model.code(), ErrorCode::kNotFound);
  EXPECT_THAT(model.error().message, HasSubstr("'nope' and 1 other"));
}

TEST_F(ModelLoaderTest, RefusesOneNameInTwoFiles) {
  const auto model = load({writeModel("1", "", 11), writeModel("2", "", 12)});
  EXPECT_EQ(model.code(), ErrorCode::kAlreadyExists);
}

TEST_F(ModelLoaderTest, RefusesFilesThatAreNone) {
  EXPECT_EQ(load({folder_.path() + "/absent"}).code(), ErrorCode::kNotFound);
  EXPECT_EQ(load({folder_.path()}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(load({folder_.writeBytes("short", "1234567")}).code(), ErrorCode::kCorrupt);
  EXPECT_EQ(load({folder_.writeBytes("long", "\xff\xff\xff\xff\xff\xff\xff\xff{}")}).code(),
            ErrorCode::kCorrupt);
  const std::string path = writeModel("cut", "", 13);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const auto cut = load({path});
  EXPECT_EQ(cut.code(), ErrorCode::kCorrupt);
  EXPECT_THAT(cut.error().message, HasSubstr("truncated"));
}

TEST_F(ModelLoaderTest, RefusesAFileWithAnotherHeaderThanItsReaderKnows) {
  const std::string path = writeModel("1", "", 14);
  const auto file = ModelFile::open(path);
  ASSERT_TRUE(file.ok());
  const ModelLayout known{(*file)->dataOffset(), (*file)->bytes(), (*file)->header().tensors};
  EXPECT_TRUE((*file)->checkLayout(known).ok());
  ModelLayout other = known;
  std::ranges::reverse(other.tensors);
  EXPECT_TRUE((*file)->checkLayout(other).ok());
  other.tensors[0].type = TensorType::kI8;
  EXPECT_EQ((*file)->checkLayout(other).code(), ErrorCode::kOriginChanged);
  other = known;
  other.tensors[1].name = "d";
  EXPECT_EQ((*file)->checkLayout(other).code(), ErrorCode::kOriginChanged);
  other = known;
  other.tensors.pop_back();
  EXPECT_EQ((*file)->checkLayout(other).code(), ErrorCode::kOriginChanged);
  other = known;
  other.dataOffset += 8;
  EXPECT_EQ(readModelFile(path, other, {}, 0, 0, {}).code(), ErrorCode::kOriginChanged);
}

TEST_F(ModelLoaderTest, ReadsPartsIntoMemoryOfTheCaller) {
  const std::string path = writeModel("1", "", 5);
  constexpr std::uint64_t kMemory = 6 * kDirectReadAlignment;
  const auto memory = MemoryRegion::allocate(kMemory);
  ASSERT_TRUE(memory.ok());
  const std::uint64_t begin = kHeaderLengthBytes + 504;
  const auto read = [&](std::vector<PlannedRead> reads) {
    return readModelFile(path, std::nullopt, std::move(reads), (*memory)->address(), kMemory, {});
  };
  // The first is at the same place of its page in file and memory, the second is not.
  ASSERT_TRUE(read({{begin, begin, 3000}, {begin + 40'000, 8192, 5000}}).ok());
  const std::string got(reinterpret_cast<const char*>((*memory)->bytes().data()), kMemory);
  EXPECT_EQ(got.substr(begin, 3000), data_.substr(0, 3000));
  EXPECT_EQ(got.substr(8192, 5000), data_.substr(40'000, 5000));
  EXPECT_EQ(read({{begin, kMemory - 10, 10}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(read({{begin, ~std::uint64_t{0}, 10}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(read({{begin, 0, ~std::uint64_t{0}}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(read({{begin + data_.size(), 0, 1}}).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace hearth
