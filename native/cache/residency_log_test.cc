#include "cache/residency_log.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cache/residency_log_version1.h"
#include "cache/residency_testing.h"
#include "files/crash_file_system.h"

namespace hearth {
namespace {

using namespace testing_support;

class ResidencyLogTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(run(files.makeDirectory("/c", 0755)).ok()); }
  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  std::unique_ptr<ResidencyLog> open(CrashFileSystem& from) {
    replayed.clear();
    auto opened = run(ResidencyLog::open(
        from, "/c", [this](const ResidencyRecord& record) { replayed.push_back(record); }));
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return std::move(*opened);
  }
  // Replaces the bytes on the disk.
  void put(const std::vector<std::byte>& bytes) {
    auto file = run(files.open("/c/residency.log", {.write = true, .create = true}));
    ASSERT_TRUE(run((*file)->truncate(bytes.size())).ok());
    ASSERT_TRUE(run((*file)->writeAt(bytes, 0)).ok());
    ASSERT_TRUE(run((*file)->syncData()).ok());
  }
  Error refusal() {
    auto opened = run(ResidencyLog::open(files, "/c", [](const ResidencyRecord&) {}));
    EXPECT_FALSE(opened.ok());
    return opened.ok() ? Error{} : opened.error();
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  CrashFileSystem files;
  std::vector<ResidencyRecord> replayed;
};

TEST_F(ResidencyLogTest, BeginsWithTheDocumentedHeader) {
  open(files);
  const auto file = files.openForReading("/c/residency.log");
  ASSERT_TRUE(file.ok());
  const std::string hex = hexOf({*(*file)->map(64), 64});
  EXPECT_EQ(hex.substr(0, 24), "484541525448524c02000000");
  EXPECT_EQ(hex.substr(32, 88), "4000000000000000" + std::string(72, '0'));
}

TEST_F(ResidencyLogTest, ReplaysWhatWasAppendedAcrossReads) {
  std::vector<ResidencyRecord> records;
  for (std::uint64_t n = 0; n < 3000; ++n) records.push_back(claim(n, kChunkBytes, 0));
  records.push_back({.type = RecordType::kDrop, .key = keyOf(7)});
  const auto bytes = encode(records);
  ASSERT_GT(bytes.size(), 900'000u);
  ASSERT_TRUE(run(open(files)->append(bytes)).ok());
  EXPECT_EQ(open(files)->bytes(), kLogHeaderBytes + kAppendBytes + bytes.size());
  EXPECT_EQ(replayed, records);
}

TEST_F(ResidencyLogTest, CutsOffWhatACrashTore) {
  const std::vector<ResidencyRecord> records{claim(1, 9000, 0), claim(2, 9000, 0),
                                             claim(3, 9000, 0)};
  auto log = open(files);
  ASSERT_TRUE(run(log->append(encode({records[0]}))).ok());
  const std::uint64_t sound = log->bytes();
  ASSERT_TRUE(run(log->append(encode({records[1], records[2]}))).ok());
  auto file = run(files.open("/c/residency.log", {.write = true}));
  const std::uint64_t whole = log->bytes();
  ASSERT_TRUE(run((*file)->truncate(whole - 5)).ok());
  log = open(files);
  EXPECT_EQ(replayed, (std::vector<ResidencyRecord>{records[0], records[1]}));
  ASSERT_EQ(log->report().losses.size(), 1u);
  const ReplayReport::Loss& loss = log->report().losses[0];
  EXPECT_TRUE(loss.torn);
  EXPECT_EQ(loss.offset, sound + kAppendBytes + recordBytes(1));
  EXPECT_EQ(loss.bytes, recordBytes(1) - 5);
  EXPECT_EQ(loss.recordsBefore, 2u);
  EXPECT_FALSE(log->mustBeRewritten());
  // Records behind the bad one do not come back behind a new one of the same length.
  ASSERT_TRUE(run(log->append(encode({claim(4, 9000, 0)}))).ok());
  log = open(files);
  EXPECT_EQ(replayed, (std::vector<ResidencyRecord>{records[0], records[1], claim(4, 9000, 0)}));
  EXPECT_TRUE(log->report().losses.empty());
}

TEST_F(ResidencyLogTest, DoubtsWhatStandsBeforeRottenBytesAndGoesOnBehindThem) {
  auto log = open(files);
  ASSERT_TRUE(run(log->append(encode({claim(1, 9000, 0)}))).ok());
  const std::uint64_t second = log->bytes();
  ASSERT_TRUE(
      run(log->append(encode({{.type = RecordType::kDrop, .key = keyOf(1)}, claim(2, 9000, 0)})))
          .ok());
  const std::uint64_t third = log->bytes();
  ASSERT_TRUE(run(log->append(encode({claim(3, 9000, 0)}))).ok());
  files.corrupt("/c/residency.log", second + kAppendBytes + 20);
  log = open(files);
  const std::vector<ResidencyRecord> expected{
      claim(1, 9000, 0), {.type = RecordType::kDoubt}, claim(3, 9000, 0)};
  EXPECT_EQ(replayed, expected);
  ASSERT_EQ(log->report().losses.size(), 1u);
  EXPECT_FALSE(log->report().losses[0].torn);
  EXPECT_EQ(log->report().losses[0].offset, second + kAppendBytes);
  EXPECT_EQ(log->report().losses[0].bytes, third - second - kAppendBytes);
  EXPECT_TRUE(log->mustBeRewritten());
}

TEST_F(ResidencyLogTest, DoubtsWhatStandsBeforeRottenBytesInTheLastAppend) {
  auto log = open(files);
  ASSERT_TRUE(run(log->append(encode({claim(1, 9000, 0)}))).ok());
  const std::uint64_t last = log->bytes();
  ASSERT_TRUE(run(log->append(encode({{.type = RecordType::kDrop, .key = keyOf(1)}}))).ok());
  for (const std::uint64_t at :
       {std::uint64_t{0}, std::uint64_t{5}, kAppendBytes + 5ul, kAppendBytes + 30ul}) {
    files.corrupt("/c/residency.log", last + at);
    log = open(files);
    EXPECT_TRUE(log->report().rotten) << at;
    EXPECT_EQ(replayed.at(1).type, RecordType::kDoubt) << at;
    files.corrupt("/c/residency.log", last + at);
  }
}

TEST_F(ResidencyLogTest, AnAppendThatFailsLeavesNothingBehind) {
  auto log = open(files);
  files.inject(FileCall::kSync, 1, EIO);
  EXPECT_FALSE(run(log->append(encode({claim(1, 9000, 0), claim(2, 9000, 0)}))).ok());
  ASSERT_TRUE(run(log->append(encode({claim(3, 9000, 0)}))).ok());
  open(files);
  EXPECT_EQ(replayed, (std::vector<ResidencyRecord>{claim(3, 9000, 0)}));
}

TEST_F(ResidencyLogTest, ARewriteIsTheOldLogOrTheNewOneAfterACrash) {
  auto log = open(files);
  const std::vector<ResidencyRecord> before{claim(1, 9000, 0), claim(2, 9000, 0)};
  const std::vector<ResidencyRecord> after{claim(2, 9000, 0)};
  ASSERT_TRUE(run(log->append(encode(before))).ok());
  ASSERT_TRUE(run(files.syncDirectory("/")).ok());
  const auto start = files.killCopy();
  for (std::uint64_t at = 0; at < 8; ++at) {
    const auto copy = start->killCopy();
    auto opened = open(*copy);
    copy->crashAfter(at);
    const bool done = run(opened->rewrite(encode(after))).ok();
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const auto survivor = copy->crashCopy(seed);
      open(*survivor);
      EXPECT_TRUE(replayed == after || (!done && replayed == before)) << at << " " << seed;
    }
  }
}

TEST_F(ResidencyLogTest, ReadsALogOfVersion1AndRewritesIt) {
  put(bytesOfHex(kVersion1Log));
  const auto sound = [](std::uint64_t n, std::uint64_t size, std::uint32_t chunk) {
    ResidencyRecord record = claim(n, size, chunk);
    record.blockChecksums = checksumsOf(chunkData(record.key, size, chunk));
    return record;
  };
  const std::uint64_t large = kChunkBytes + 70000;
  const std::vector<ResidencyRecord> kept{
      sound(1, 9000, 0),
      sound(2, 200000, 0),
      sound(3, large, 1),
      sound(3, large, 0),
      {.type = RecordType::kDrop, .key = keyOf(1)},
      {.type = RecordType::kRetract, .key = keyOf(3), .chunk = 0},
      sound(4, 1, 0)};
  auto log = open(files);
  EXPECT_EQ(replayed, kept);
  EXPECT_EQ(log->report().version, 1u);
  EXPECT_EQ(log->report().lostBytes, 0u);
  EXPECT_TRUE(log->mustBeRewritten());
  EXPECT_EQ(run(log->append(encode({claim(5, 1, 0)}))).code(), ErrorCode::kInternal);
  ASSERT_TRUE(run(log->rewrite(encode(kept))).ok());
  ASSERT_TRUE(run(log->append(encode({verification(4, 1)}))).ok());
  log = open(files);
  EXPECT_EQ(log->report().version, kLogVersion);
  EXPECT_FALSE(log->mustBeRewritten());
  ASSERT_EQ(replayed.size(), kept.size() + 1);
  EXPECT_EQ(replayed.back(), verification(4, 1));
}

TEST_F(ResidencyLogTest, SkipsOptionalRecordsThatItDoesNotKnow) {
  auto log = open(files);
  std::vector<std::byte> bytes = encode({claim(1, 9000, 0)});
  const auto other = unknown(true);
  bytes.insert(bytes.end(), other.begin(), other.end());
  appendRecord(bytes, claim(2, 9000, 0));
  ASSERT_TRUE(run(log->append(bytes)).ok());
  log = open(files);
  EXPECT_EQ(replayed, (std::vector<ResidencyRecord>{claim(1, 9000, 0), claim(2, 9000, 0)}));
  EXPECT_EQ(log->report().skipped, 1u);
  EXPECT_EQ(log->report().lostBytes, 0u);
}

TEST_F(ResidencyLogTest, RefusesWhatItMustKnowAndLeavesTheFileAsItIs) {
  auto log = open(files);
  std::vector<std::byte> bytes = encode({claim(1, 9000, 0)});
  const auto other = unknown(false);
  bytes.insert(bytes.end(), other.begin(), other.end());
  ASSERT_TRUE(run(log->append(bytes)).ok());
  const auto file = files.openForReading("/c/residency.log");
  const std::vector<std::byte> before(*(*file)->map(log->bytes()),
                                      *(*file)->map(log->bytes()) + log->bytes());
  const Error refused = refusal();
  EXPECT_EQ(refused.code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.message.find("later version"), std::string::npos) << refused.message;
  const auto after = files.openForReading("/c/residency.log");
  EXPECT_TRUE(std::equal(before.begin(), before.end(), *(*after)->map(before.size())));
}

// The header of a later version, with these features.
std::vector<std::byte> headerWith(std::uint32_t version, std::uint32_t minor,
                                  std::uint64_t required, std::uint64_t optional,
                                  std::size_t length) {
  std::vector<std::byte> header = logHeader();
  header.resize(length);
  const auto put = [&header](std::size_t offset, auto value) {
    std::memcpy(header.data() + offset, &value, sizeof value);
  };
  put(8, version);
  put(12, crc32c({header.data(), 12}));
  put(16, static_cast<std::uint32_t>(length));
  put(20, minor);
  put(24, required);
  put(32, optional);
  put(length - 4, crc32c({header.data(), length - 4}));
  return header;
}

TEST_F(ResidencyLogTest, KnowsTheVersionThatALogNeeds) {
  put(headerWith(3, 0, 0, 0, 64));
  EXPECT_EQ(refusal().code, ErrorCode::kUnsupported);
  EXPECT_NE(refusal().message.find("needs version 3 "), std::string::npos) << refusal().message;
  put(headerWith(2, 9, 4, 0, 64));
  EXPECT_EQ(refusal().code, ErrorCode::kUnsupported);
  EXPECT_NE(refusal().message.find("needs version 2.9 "), std::string::npos) << refusal().message;
}

TEST_F(ResidencyLogTest, ReadsALongerHeaderAndIgnoresOptionalFeatures) {
  std::vector<std::byte> bytes = headerWith(2, 9, 0, ~std::uint64_t{0}, 96);
  appendRecord(bytes,
               {.type = RecordType::kAppend, .size = kAppendBytes + recordBytes(1), .offset = 96});
  appendRecord(bytes, claim(1, 9000, 0));
  put(bytes);
  auto log = open(files);
  EXPECT_EQ(replayed, (std::vector<ResidencyRecord>{claim(1, 9000, 0)}));
  ASSERT_TRUE(run(log->append(encode({claim(2, 9000, 0)}))).ok());
  open(files);
  EXPECT_EQ(replayed, (std::vector<ResidencyRecord>{claim(1, 9000, 0), claim(2, 9000, 0)}));
}

TEST_F(ResidencyLogTest, BeginsAgainAfterABadHeader) {
  ASSERT_TRUE(run(open(files)->append(encode({claim(1, 9000, 0)}))).ok());
  for (const std::uint64_t offset : {0, 20, 63}) {
    files.corrupt("/c/residency.log", offset);
    EXPECT_EQ(open(files)->bytes(), kLogHeaderBytes);
    EXPECT_TRUE(replayed.empty());
    ASSERT_TRUE(run(open(files)->append(encode({claim(1, 9000, 0)}))).ok());
  }
}

}  // namespace
}  // namespace hearth
