#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "loader/model_loader.h"
#include "loader/testing/safetensors_writer.h"

namespace hearth {
namespace {

using testing::HasSubstr;

constexpr unsigned kRanks = 3;

class SharedLoadTest : public testing::Test {
 protected:
  using Answers = std::vector<Result<LoadedModel>>;

  std::string writeModel(const std::string& name, std::size_t bytes, std::uint32_t seed) {
    data_[name] = patternBytes(bytes, seed);
    return folder_.write(
        name, "{" + byteTensor(name + "a", 0, 100) + "," + byteTensor(name + "b", 100, bytes) + "}",
        data_[name]);
  }
  Answers loadByAll(const std::vector<std::string>& paths,
                    const std::function<void(unsigned, LoadOptions&)>& adjust = {}) {
    std::vector<std::future<Result<LoadedModel>>> loading;
    for (unsigned rank = 0; rank < kRanks; ++rank) {
      LoadOptions options;
      options.place = RankPlace{rank, kRanks, group_, std::chrono::minutes(1)};
      options.read.chunkBytes = kDirectReadAlignment;
      if (adjust) adjust(rank, options);
      loading.push_back(std::async(std::launch::async, [=] { return loadModel(paths, options); }));
    }
    Answers answers;
    for (auto& load : loading) answers.push_back(load.get());
    return answers;
  }

  SafetensorsFolder folder_;
  std::map<std::string, std::string> data_;
  const std::string group_ = std::to_string(getpid()) + "-" +
                             testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(SharedLoadTest, GivesAllTensorsToEachRank) {
  const Answers models = loadByAll({writeModel("x", 70'000, 1), writeModel("y", 9'000, 2)});
  for (const auto& model : models) {
    ASSERT_TRUE(model.ok()) << model.error().message;
    ASSERT_EQ(model->tensors.size(), 4U);
    for (const LoadedTensor& tensor : model->tensors) {
      const std::span<std::byte> bytes = tensor.bytes();
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                data_[tensor.entry->name.substr(0, 1)].substr(tensor.entry->begin, bytes.size()));
    }
  }
  // A rank's writes are its own.
  const std::byte before = models[1]->tensors[1].bytes()[0];
  models[0]->tensors[1].bytes()[0] ^= std::byte{0xFF};
  EXPECT_EQ(models[1]->tensors[1].bytes()[0], before);
}

TEST_F(SharedLoadTest, LoadsFilesWithoutBytes) {
  for (const auto& model : loadByAll({folder_.write("none", "{}", "")})) EXPECT_TRUE(model.ok());
}

TEST_F(SharedLoadTest, FailsForAllWhenOneFails) {
  const Answers models = loadByAll({writeModel("x", 50'000, 3)}, [](unsigned rank, auto& options) {
    if (rank == 2) options.read.progress = [](std::uint64_t, std::uint64_t) { return false; };
  });
  for (const auto& model : models) {
    EXPECT_EQ(model.code(), ErrorCode::kCancelled);
    EXPECT_THAT(model.error().message, HasSubstr("rank 2"));
  }
}

TEST_F(SharedLoadTest, RefusesRanksThatWantOtherTensors) {
  const Answers models = loadByAll({writeModel("x", 50'000, 4)}, [](unsigned rank, auto& options) {
    if (rank == 1) options.names = std::vector<std::string>{"xa"};
  });
  for (const auto& model : models) EXPECT_EQ(model.code(), ErrorCode::kInvalidArgument);
}

TEST_F(SharedLoadTest, DividesThePlanAmongTheRanks) {
  std::vector<std::shared_ptr<const ModelFile>> files;
  for (const std::string& path : {writeModel("x", 70'001, 5), writeModel("y", 4'097, 6)}) {
    files.push_back(*ModelFile::open(path));
  }
  const auto plan = planLoad(files, std::nullopt);
  ASSERT_TRUE(plan.ok());
  for (const unsigned ranks : {1U, 2U, 3U, 7U, 100U}) {
    std::vector<std::vector<unsigned>> readers;
    for (const FilePlan& file : plan->files) readers.emplace_back(file.memoryBytes);
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const LoadPlan share = shareOf(*plan, rank, ranks);
      EXPECT_LE(share.readBytes(), plan->readBytes() / ranks + 3 * kDirectReadAlignment);
      for (std::size_t i = 0; i < share.files.size(); ++i) {
        for (const PlannedRead& read : share.files[i].reads) {
          EXPECT_EQ(read.offset - read.inMemory,
                    plan->files[i].reads[0].offset - plan->files[i].reads[0].inMemory);
          for (std::uint64_t at = 0; at < read.size; ++at) ++readers[i][read.inMemory + at];
        }
      }
    }
    for (std::size_t i = 0; i < readers.size(); ++i) {
      std::uint64_t once = 0;
      for (const unsigned count : readers[i]) {
        EXPECT_LE(count, 1U);
        once += count;
      }
      EXPECT_EQ(once, plan->files[i].reads[0].size) << ranks << " ranks, file " << i;
    }
  }
}

}  // namespace
}  // namespace hearth
