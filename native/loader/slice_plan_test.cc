#include "loader/slice_plan.h"

#include <gtest/gtest.h>

#include "loader/model_loader.h"
#include "loader/testing/safetensors_writer.h"

namespace hearth {
namespace {

class SlicePlanTest : public testing::Test {
 protected:
  // Of U8 [2, 6, 4], F4 [2, 3] and U8 [5], in this order.
  SlicePlanTest()
      : data_(patternBytes(2 * 6 * 4 + 3 + 5, 1)),
        path_(folder_.write("model",
                            R"({"cube":{"dtype":"U8","shape":[2,6,4],"data_offsets":[0,48]},)"
                            R"("packed":{"dtype":"F4","shape":[2,3],"data_offsets":[48,51]},)"
                            R"("line":{"dtype":"U8","shape":[5],"data_offsets":[51,56]}})",
                            data_)) {}

  Result<LoadedModel> load(TensorSlices slices, std::vector<std::string> names = {}) const {
    LoadOptions options;
    options.names = std::move(names);
    options.slices = std::move(slices);
    options.read.chunkBytes = kDirectReadAlignment;
    return loadModel(std::span(&path_, 1), options);
  }
  static std::string bytesOf(const LoadedTensor& tensor) {
    const std::span<std::byte> bytes = tensor.bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  SafetensorsFolder folder_;
  const std::string data_;
  const std::string path_;
};

TEST_F(SlicePlanTest, GivesRangesOfAnyDimension) {
  const std::vector<std::uint64_t> shape{2, 6, 4};
  for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
    for (std::uint64_t begin = 0; begin <= shape[dimension]; ++begin) {
      for (std::uint64_t end = begin; end <= shape[dimension]; ++end) {
        const auto model = load({{"cube", {dimension, begin, end}}});
        ASSERT_TRUE(model.ok()) << model.error().message;
        std::string expected;
        for (std::uint64_t at = 0; at < 48; ++at) {
          const std::uint64_t index[] = {at / 24, at / 4 % 6, at % 4};
          if (index[dimension] >= begin && index[dimension] < end) expected += data_[at];
        }
        ASSERT_EQ(model->tensors.size(), 1U);
        EXPECT_EQ(bytesOf(model->tensors[0]), expected);
        EXPECT_EQ(model->tensors[0].entry->shape[dimension], end - begin);
        EXPECT_EQ(model->plan.readBytes(), expected.size());
      }
    }
  }
}

TEST_F(SlicePlanTest, GivesOtherTensorsWhole) {
  const auto model = load({{"cube", {1, 2, 4}}}, {"line"});
  ASSERT_TRUE(model.ok()) << model.error().message;
  ASSERT_EQ(model->tensors.size(), 2U);
  EXPECT_EQ(bytesOf(model->tensors[0]), data_.substr(8, 8) + data_.substr(32, 8));
  EXPECT_EQ(bytesOf(model->tensors[1]), data_.substr(51));
}

TEST_F(SlicePlanTest, RefusesWhatNoTensorHas) {
  EXPECT_EQ(load({{"none", {0, 0, 1}}}).code(), ErrorCode::kNotFound);
  for (const TensorSlice& slice :
       {TensorSlice{3, 0, 1}, TensorSlice{0, 0, 3}, TensorSlice{0, 2, 1}}) {
    EXPECT_EQ(load({{"cube", slice}}).code(), ErrorCode::kInvalidArgument);
  }
  // A row has 12 bits.
  EXPECT_EQ(load({{"packed", {0, 0, 1}}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_TRUE(load({{"packed", {0, 0, 2}}}).ok());
  LoadOptions options{.slices = TensorSlices{}, .mapsCachedFiles = true};
  EXPECT_EQ(loadModel(std::span(&path_, 1), options).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace hearth
