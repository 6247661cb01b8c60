#include "loader/slice_load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <future>

#include "loader/model_loader.h"
#include "loader/testing/safetensors_writer.h"

namespace hearth {
namespace {

constexpr unsigned kSliceRanks = 3;
// Of a tensor that fills all windows more than once.
constexpr std::uint64_t kManyRows = 90, kWideRowBytes = std::uint64_t{1} << 20;

Result<LoadedModel> loadColumns(const std::string& path, const std::string& group, unsigned rank) {
  LoadOptions options;
  options.place = RankPlace{rank, kSliceRanks, group, std::chrono::minutes(1)};
  options.slices = TensorSlices{
      {"x", {1, kWideRowBytes * rank / kSliceRanks, kWideRowBytes * (rank + 1) / kSliceRanks}}};
  return loadModel(std::span(&path, 1), options);
}

TEST(SliceLoad, GivesEachRankItsColumnsOfManyWindows) {
  const SafetensorsFolder folder;
  const std::string data = patternBytes(kManyRows * kWideRowBytes, 1);
  const std::string header = R"({"x":{"dtype":"U8","shape":[)" + std::to_string(kManyRows) + "," +
                             std::to_string(kWideRowBytes) + R"(],"data_offsets":[0,)" +
                             std::to_string(data.size()) + "]}}";
  const std::string path = folder.write("x", header, data);
  const std::string group = "slice-load-" + std::to_string(getpid());
  std::vector<std::future<Result<LoadedModel>>> loads;
  for (unsigned rank = 0; rank < kSliceRanks; ++rank) {
    loads.push_back(std::async(std::launch::async, loadColumns, path, group, rank));
  }
  for (unsigned rank = 0; rank < kSliceRanks; ++rank) {
    const Result<LoadedModel> model = loads[rank].get();
    ASSERT_TRUE(model.ok()) << model.error().message;
    const std::uint64_t begin = kWideRowBytes * rank / kSliceRanks;
    const std::uint64_t columns = kWideRowBytes * (rank + 1) / kSliceRanks - begin;
    const std::span<std::byte> got = model->tensors.front().bytes();
    ASSERT_EQ(got.size(), kManyRows * columns);
    for (std::uint64_t row = 0; row < kManyRows; ++row) {
      ASSERT_EQ(std::memcmp(got.data() + row * columns, data.data() + row * kWideRowBytes + begin,
                            columns),
                0)
          << "rank " << rank << ", row " << row;
    }
  }
}

}  // namespace
}  // namespace hearth
