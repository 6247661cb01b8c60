#include "loader/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string tensorWith(std::string_view type, std::string_view shape, std::string_view offsets) {
  return R"({"t":{"dtype":")" + std::string(type) + R"(","shape":)" + std::string(shape) +
         R"(,"data_offsets":)" + std::string(offsets) + "}}";
}

struct Refusal {
  std::string name;
  std::string json;
  std::uint64_t dataBytes;
  std::string reason;
  ErrorCode code = ErrorCode::kCorrupt;
};

class RefusedHeader : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedHeader, SaysWhy) {
  const auto header = parseSafetensorsHeader(GetParam().json, GetParam().dataBytes);
  ASSERT_FALSE(header.ok());
  EXPECT_EQ(header.code(), GetParam().code);
  EXPECT_THAT(header.error().message, HasSubstr(GetParam().reason));
}

INSTANTIATE_TEST_SUITE_P(
    SafetensorsHeader, RefusedHeader,
    testing::Values(
        Refusal{"Empty", "", 0, "'{' is missing"}, Refusal{"NoObject", "[]", 0, "'{' is missing"},
        Refusal{"Unfinished", R"({"t":{"dtype":"U8")", 0, "'}' is missing"},
        Refusal{"BytesBehind", "{} x", 0, "bytes follow"},
        Refusal{"CommaBeforeEnd", R"({"t":{"dtype":"U8","shape":[0,],"data_offsets":[0,0]}})", 0,
                "an unsigned integer is missing"},
        Refusal{"UnknownType", tensorWith("F128", "[1]", "[0,16]"), 16, "unknown dtype 'F128'",
                ErrorCode::kUnsupported},
        Refusal{"MemberTwice", R"({"t":{"dtype":"U8","dtype":"U8"}})", 0, "stands twice"},
        Refusal{"UnknownMemberUnfinished", R"({"t":{"quant":[1,)", 0, "a value is missing"},
        Refusal{"UnknownMemberNoNumber", R"({"t":{"quant":1.}})", 0, "ends too early"},
        Refusal{"UnknownMemberTooDeep", R"({"t":{"quant":)" + std::string(126, '[') + "}}", 0,
                "too deeply"},
        Refusal{"TensorNull", R"({"t":null})", 0, "'{' is missing"},
        Refusal{"MemberMissing", R"({"t":{"dtype":"U8","shape":[0]}})", 0, "lacks dtype"},
        Refusal{"ShapeOverflows", tensorWith("U8", "[4294967296,4294967296]", "[0,0]"), 0,
                "overflows"},
        Refusal{"BitsOverflow", tensorWith("F64", "[1152921504606846976]", "[0,0]"), 0,
                "overflows"},
        Refusal{"EmptyShapeOverflows", tensorWith("U8", "[0,1099511627776,1099511627776]", "[0,0]"),
                0, "overflows"},
        Refusal{"DimensionOverflows", tensorWith("U8", "[0,9223372036854775808]", "[0,0]"), 0,
                "overflows"},
        Refusal{"OffsetOverflows", tensorWith("U8", "[1]", "[0,18446744073709551616]"), 1,
                "above 2^64"},
        Refusal{"NegativeOffset", tensorWith("U8", "[1]", "[-1,0]"), 1, "unsigned integer"},
        Refusal{"Fraction", tensorWith("U8", "[1.5]", "[0,1]"), 1, "not an integer"},
        Refusal{"LeadingZero", tensorWith("U8", "[01]", "[0,1]"), 1, "leading zero"},
        Refusal{"Reversed", tensorWith("U8", "[1]", "[1,0]"), 1, "ends before it begins"},
        Refusal{"ThreeOffsets", tensorWith("U8", "[1]", "[0,1,2]"), 1, "are not two"},
        Refusal{"SizeOfShape", tensorWith("F32", "[2]", "[0,4]"), 4, "need 8"},
        Refusal{"HalfByte", tensorWith("F4", "[3]", "[0,1]"), 1, "whole byte"},
        Refusal{"Overlap",
                R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                6, "overlaps"},
        Refusal{"Hole",
                R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                3, "hole"},
        Refusal{"Truncated", tensorWith("U8", "[9]", "[0,9]"), 8, "truncated"},
        Refusal{"BytesUnused", tensorWith("U8", "[9]", "[0,9]"), 10,
                "1 bytes follow the last tensor"},
        Refusal{"NotUtf8", "{\"\xff\":1}", 0, "not UTF-8"},
        Refusal{"OverlongUtf8", "{\"\xc0\xaf\":1}", 0, "not UTF-8"},
        Refusal{"SurrogateInUtf8", "{\"\xed\xa0\x80\":1}", 0, "not UTF-8"},
        Refusal{"ControlCharacter", "{\"a\nb\":1}", 0, "control character"},
        Refusal{"HalfSurrogate", R"({"\ud800":1})", 0, "surrogate"},
        Refusal{"UnknownEscape", R"({"\x":1})", 0, "escape"},
        Refusal{"MetadataNumber", R"({"__metadata__":{"a":1}})", 0, "'\"' is missing"},
        Refusal{"MetadataTwice", R"({"__metadata__":{},"__metadata__":{}})", 0, "twice"}),
    [](const auto& info) { return info.param.name; });

TEST(SafetensorsHeader, GivesTensorsInTheOrderOfTheirBytes) {
  const auto header = parseSafetensorsHeader(
      " {\"b\" : {\"shape\":[2, 1],\"dtype\":\"BF16\",\"data_offsets\":[8,12]},\n"
      "\"__metadata__\":{\"format\":\"pt\",\"k\\u00e9\":\"\\ud83d\\ude00\"},"
      R"("a":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
      R"("empty":{"dtype":"I16","shape":[3,0],"data_offsets":[8,8]}}  )",
      12);
  ASSERT_TRUE(header.ok()) << header.error().message;
  ASSERT_EQ(header->tensors.size(), 3U);
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_TRUE(header->tensors[0].shape.empty());
  EXPECT_EQ(header->tensors[1].name, "empty");
  EXPECT_EQ(header->tensors[2].name, "b");
  EXPECT_EQ(header->tensors[2].type, TensorType::kBF16);
  EXPECT_THAT(header->tensors[2].shape, ElementsAre(2, 1));
  EXPECT_THAT(header->metadata, ElementsAre(Pair("format", "pt"), Pair("k\u00e9", "\U0001F600")));
}

TEST(SafetensorsHeader, RefusesMoreThanTheFormatAllows) {
  const auto header = parseSafetensorsHeader(std::string(kMaxHeaderBytes + 1, ' '), 0);
  EXPECT_EQ(header.code(), ErrorCode::kCorrupt);
}

// The cases of these tests were tried with version 0.8.0 of the format's library.
TEST(SafetensorsHeader, TakesFilesAsUsersMetThem) {
  struct Taken {
    const char* json;
    std::uint64_t dataBytes;
    std::size_t tensors;
  };
  constexpr Taken kTaken[] = {
      {R"({})", 0, 0},
      {R"({"__metadata__":{"key":"value"}})", 0, 0},
      {R"({"__metadata__":{},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, 1},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"__metadata__":{"format":"pt"}})", 1,
       1},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}                    )", 1, 1},
      {R"( {"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, 1},
      {R"({"a":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
       R"("b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
       4, 2},
      {R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})",
       4, 2},
      {R"({"ключ":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a/b\\c\"\u0001":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},)"
       R"("":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
       1, 3},
      {R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
       R"("b":{"dtype":"F32","shape":[1],"data_offsets":[3,7]}})",
       7, 2},
      {R"({"a":{"dtype":"F4","shape":[2,16],"data_offsets":[0,16]}})", 16, 1},
  };
  for (const Taken& taken : kTaken) {
    const auto header = parseSafetensorsHeader(taken.json, taken.dataBytes);
    ASSERT_TRUE(header.ok()) << taken.json << ": " << header.error().message;
    EXPECT_EQ(header->tensors.size(), taken.tensors) << taken.json;
  }
}

TEST(SafetensorsHeader, TakesNullForNoMetadata) {
  const auto header = parseSafetensorsHeader(R"({"__metadata__": null})", 0);
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_TRUE(header->metadata.empty());
}

TEST(SafetensorsHeader, IgnoresMembersThatItDoesNotKnow) {
  const auto header = parseSafetensorsHeader(
      R"({"t":{"quant":{"kind":"mx","\u00e9":[1.5e-3,-0,true,false,null,{}],"q":[]},)"
      R"("dtype":"U8","shape":[1],"q":1,"q":2,"data_offsets":[0,1],"deep":)" +
          std::string(125, '[') + std::string(125, ']') + "}}",
      1);
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(1));
}

TEST(SafetensorsHeader, TakesTheLastOfEachName) {
  const auto header =
      parseSafetensorsHeader(R"({"__metadata__":{"k":"1","k":"2"},)"
                             R"("a":{"dtype":"U8","shape":[9],"data_offsets":[0,3]},)"
                             R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},)"
                             R"("a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]}})",
                             3);
  ASSERT_TRUE(header.ok()) << header.error().message;
  ASSERT_EQ(header->tensors.size(), 2U);
  EXPECT_EQ(header->tensors[0].type, TensorType::kI8);
  EXPECT_EQ(header->tensors[1].name, "b");
  EXPECT_THAT(header->metadata, ElementsAre(Pair("k", "2")));
}

TEST(SafetensorsHeader, HasNoLimitButItsSize) {
  constexpr std::size_t kMany = 300'000;
  std::string json = "{", dimensions = "1";
  for (std::size_t i = 0; i < kMany; ++i) {
    json += "\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
            std::to_string(i) + "," + std::to_string(i + 1) + "]},";
  }
  for (int i = 1; i < 100; ++i) dimensions += ",1";
  json += R"("deep":{"dtype":"F8_E4M3FNUZ","shape":[)" + dimensions + R"(],"data_offsets":[)" +
          std::to_string(kMany) + "," + std::to_string(kMany + 1) + "]}}";
  const auto header = parseSafetensorsHeader(json, kMany + 1);
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_EQ(header->tensors.size(), kMany + 1);
  EXPECT_EQ(header->tensors.back().shape.size(), 100U);
}

TEST(TensorTypes, AreFoundByTheirNames) {
  for (int i = 0; i <= static_cast<int>(TensorType::kU64); ++i) {
    const auto type = static_cast<TensorType>(i);
    EXPECT_EQ(tensorTypeOf(tensorTypeName(type)), type);
  }
  EXPECT_EQ(tensorTypeOf("F31"), std::nullopt);
}

}  // namespace
}  // namespace hearth
