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
        Refusal{"UnknownMember", R"({"t":{"dtyp":"U8"}})", 0, "unknown or stands twice"},
        Refusal{"MemberTwice", R"({"t":{"dtype":"U8","dtype":"U8"}})", 0, "stands twice"},
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
        Refusal{"ThreeOffsets", tensorWith("U8", "[1]", "[0,1,2]"), 1, "too long"},
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
        Refusal{"BytesUnused", tensorWith("U8", "[9]", "[0,9]"), 10, "the file has 10"},
        Refusal{"NameTwice",
                R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                0, "stands twice"},
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

TEST(SafetensorsHeader, RefusesMoreTensorsThanAnyModelHas) {
  std::string json = "{";
  for (std::size_t i = 0; i <= kMaxTensors; ++i) {
    json += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
            R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  EXPECT_EQ(parseSafetensorsHeader(json + "}", 0).code(), ErrorCode::kUnsupported);
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
