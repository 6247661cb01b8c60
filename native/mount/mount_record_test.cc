#include "mount/mount_record.h"

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(MountRecord, RoundTrips) {
  MountRecord record{.manifest = {}, .source = "hearth:model", .passthrough = false};
  record.manifest[5] = 9;
  EXPECT_EQ(decodeMountRecord(encodeMountRecord(record)), record);
  EXPECT_EQ(record.dataset(), "model");
  record.source = "model";
  EXPECT_EQ(record.dataset(), "") << "of no dataset";
}

TEST(MountRecord, RefusesWhatItDidNotWrite) {
  const std::string blob = encodeMountRecord({});
  for (std::size_t size = 0; size < blob.size(); ++size)
    EXPECT_FALSE(decodeMountRecord(blob.substr(0, size)));
  EXPECT_FALSE(decodeMountRecord(blob + "x"));
  std::string other = blob;
  other[0] = 9;
  EXPECT_FALSE(decodeMountRecord(other)) << "another version";
}

TEST(MountRecord, AVolumesRecordIsNoDatasets) {
  const VolumeMountRecord record{.volume = {1, 2, 3}, .source = "hearth:volume:kv"};
  const std::string blob = encodeVolumeMountRecord(record);
  EXPECT_EQ(decodeVolumeMountRecord(blob), record);
  EXPECT_FALSE(decodeMountRecord(blob));
  EXPECT_FALSE(decodeVolumeMountRecord(encodeMountRecord(MountRecord{.source = "hearth:x"})));
  EXPECT_FALSE(decodeVolumeMountRecord(blob + "x"));
}

}  // namespace
}  // namespace hearth
