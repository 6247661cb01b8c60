#include "arena/arena_index.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "arena/testing/filled_arena.h"
#include "memory/testing/table_device.h"

namespace hearth {
namespace {

using testing_arena::FilledArena;

constexpr std::size_t kTwoBlocks = 2 * kBlockBytes;

// The index as the next process sees it, for tests that damage it.
std::span<std::byte> bytesOf(const ArenaIndex& index, std::size_t slots) {
  const std::size_t size = kArenaIndexHeaderBytes + slots * sizeof(ArenaRecord);
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, index.file().get(), 0);
  EXPECT_NE(memory, MAP_FAILED);
  return {static_cast<std::byte*>(memory), size};
}

ArenaIndex::Adopted adopt(const FilledArena& before, const Arena& arena) {
  auto adopted = ArenaIndex::adopt(arena, before.indexFile());
  EXPECT_TRUE(adopted.ok()) << adopted.error().message;
  return std::move(*adopted);
}

TEST(ArenaIndex, GivesWhatWasPublishedToTheNextProcess) {
  const FilledArena before = FilledArena::create(4);
  const ContentKey key = FilledArena::keyOf(1);
  const SlotContents first = before.fill(1, key, 0, kTwoBlocks + 100);
  before.fill(2, key, 1, kTwoBlocks);
  before.index->free(2);
  const SlotContents third = before.fill(3, key, 2, kChunkBytes);
  const auto arena = before.adoptedArena();
  const auto [index, findings] = adopt(before, *arena);
  EXPECT_EQ(findings.refused, "");
  EXPECT_EQ(index->bytes(), before.index->bytes());
  EXPECT_EQ(findings.quarantined, 0u);
  ASSERT_EQ(findings.valid.size(), 2u);
  EXPECT_EQ(findings.valid[0].slot, 1u);
  EXPECT_EQ(findings.valid[0].contents, first);
  EXPECT_EQ(findings.valid[0].generation, before.index->generation(1));
  EXPECT_EQ(findings.valid[1].slot, 3u);
  EXPECT_EQ(findings.valid[1].contents, third);
  EXPECT_TRUE(index->verify(1, arena->bytes(1)));
  EXPECT_TRUE(index->verify(3, arena->bytes(3)));
  EXPECT_EQ(index->state(0), SlotState::kFree);
  EXPECT_EQ(index->state(2), SlotState::kFree);
}

TEST(ArenaIndex, KnowsBytesThatAreNotWhatItSays) {
  const FilledArena filled = FilledArena::create(1);
  filled.fill(0, FilledArena::keyOf(1), 0, kTwoBlocks);
  EXPECT_TRUE(filled.index->verify(0, filled.arena->bytes(0)));
  filled.arena->bytes(0)[kBlockBytes + 5] ^= std::byte{1};
  EXPECT_FALSE(filled.index->verify(0, filled.arena->bytes(0)));
  filled.index->free(0);
  EXPECT_FALSE(filled.index->verify(0, filled.arena->bytes(0)));
}

TEST(ArenaIndex, QuarantinesWhatMayBeInFlight) {
  const FilledArena before = FilledArena::create(4);
  const ContentKey key = FilledArena::keyOf(1);
  before.index->beginFill(0);
  before.fill(1, key, 1, kTwoBlocks);
  before.index->noteBusy(1);
  before.index->noteBusy(1);
  before.index->noteIdle(1);
  before.fill(2, key, 2, kTwoBlocks);
  before.index->noteBusy(2);
  before.index->noteIdle(2);
  const auto arena = before.adoptedArena();
  auto [index, findings] = adopt(before, *arena);
  ASSERT_EQ(findings.valid.size(), 1u);
  EXPECT_EQ(findings.valid.front().slot, 2u);
  EXPECT_EQ(findings.quarantined, 2u);
  EXPECT_EQ(index->state(0), SlotState::kQuarantined);
  EXPECT_EQ(index->state(1), SlotState::kQuarantined);

  // A process after that one: until it is released.
  index = adopt(before, *arena).index;
  EXPECT_EQ(index->state(1), SlotState::kQuarantined);
  EXPECT_EQ(index->releaseQuarantine(*arena), 0u);
  EXPECT_EQ(index->state(0), SlotState::kFree);
  EXPECT_EQ(index->state(1), SlotState::kFree);
  EXPECT_EQ(arena->bytes(1).front(), std::byte{0}) << "other pages";
  EXPECT_TRUE(index->verify(2, arena->bytes(2))) << "not of these";
  EXPECT_EQ(adopt(before, *arena).findings.valid.size(), 1u);
}

TEST(ArenaIndex, KeepsInQuarantineWhatADeviceKnows) {
  const FilledArena before = FilledArena::create(2);
  before.index->beginFill(0);
  const auto arena = before.adoptedArena();
  const auto index = adopt(before, *arena).index;
  const auto device = std::make_shared<testing_memory::TableDevice>("nic0");
  ASSERT_TRUE(arena->regions().front().memory->registrationWith(device).ok());
  EXPECT_EQ(index->releaseQuarantine(*arena), 1u);
  EXPECT_EQ(index->state(0), SlotState::kQuarantined);
}

TEST(ArenaIndex, NeverGivesAGenerationAgain) {
  const FilledArena before = FilledArena::create(1);
  const std::uint64_t first = before.index->beginFill(0);
  before.index->free(0);
  const std::uint64_t second = before.index->beginFill(0);
  EXPECT_GT(second, first);
  const auto arena = before.adoptedArena();
  const auto index = adopt(before, *arena).index;
  EXPECT_EQ(index->releaseQuarantine(*arena), 0u);
  const std::uint64_t third = index->beginFill(0);
  EXPECT_GT(third, second);
  EXPECT_GT(FilledArena::create(1).index->generation(0), third) << "also of another index";
}

struct Damage {
  const char* what;
  std::size_t offset;
  const char* reason;
  bool repaired;  // with a checksum that is right
};

class DamagedIndex : public testing::TestWithParam<Damage> {};

TEST_P(DamagedIndex, IsNotBelieved) {
  const FilledArena before = FilledArena::create(3);
  before.fill(0, FilledArena::keyOf(1), 0, kTwoBlocks);
  const auto bytes = bytesOf(*before.index, 3);
  bytes[GetParam().offset] ^= std::byte{1};
  if (GetParam().repaired) {
    auto* const header = reinterpret_cast<ArenaIndexHeader*>(bytes.data());
    header->crc = checksumOf(*header);
  }
  const auto arena = before.adoptedArena();
  auto [index, findings] = adopt(before, *arena);
  EXPECT_NE(findings.refused.find(GetParam().reason), std::string::npos) << findings.refused;
  EXPECT_TRUE(findings.valid.empty());
  EXPECT_EQ(findings.quarantined, 3u) << "nothing is known of what is in flight";
  EXPECT_EQ(index->releaseQuarantine(*arena), 0u);
  EXPECT_EQ(adopt(before, *arena).findings.refused, "") << "it is an index again";
  ::munmap(bytes.data(), bytes.size());
}

INSTANTIATE_TEST_SUITE_P(
    ArenaIndex, DamagedIndex,
    testing::Values(Damage{"Magic", offsetof(ArenaIndexHeader, magic), "no index", true},
                    Damage{"Version", offsetof(ArenaIndexHeader, version), "of version 0", true},
                    Damage{"Checksum", offsetof(ArenaIndexHeader, crc), "not whole", false},
                    Damage{"Feature", offsetof(ArenaIndexHeader, required), "features", true},
                    Damage{"HeaderBytes", offsetof(ArenaIndexHeader, headerBytes), "sizes", true},
                    Damage{"RecordBytes", offsetof(ArenaIndexHeader, recordBytes), "sizes", true},
                    Damage{"SlotBytes", offsetof(ArenaIndexHeader, slotBytes), "sizes", true},
                    Damage{"Slots", offsetof(ArenaIndexHeader, slots), "another arena", true},
                    Damage{"Arena", offsetof(ArenaIndexHeader, arenaInode), "another arena", true},
                    Damage{"Boot", offsetof(ArenaIndexHeader, bootId), "booted", true}),
    [](const auto& instance) { return instance.param.what; });

TEST(ArenaIndex, MayHaveFeaturesThatAreLeftAlone) {
  const FilledArena before = FilledArena::create(1);
  before.fill(0, FilledArena::keyOf(1), 0, kTwoBlocks);
  const auto bytes = bytesOf(*before.index, 1);
  auto* const header = reinterpret_cast<ArenaIndexHeader*>(bytes.data());
  header->optional = 4;
  header->crc = checksumOf(*header);
  EXPECT_EQ(adopt(before, *before.adoptedArena()).findings.valid.size(), 1u);
  ::munmap(bytes.data(), bytes.size());
}

TEST(ArenaIndex, BelievesNoRecordThatIsNotWhole) {
  for (const std::size_t offset :
       {offsetof(ArenaRecord, generation), offsetof(ArenaRecord, key), offsetof(ArenaRecord, chunk),
        offsetof(ArenaRecord, bytes), offsetof(ArenaRecord, crc), offsetof(ArenaRecord, crcs)}) {
    const FilledArena before = FilledArena::create(2);
    before.fill(0, FilledArena::keyOf(1), 0, kTwoBlocks);
    before.fill(1, FilledArena::keyOf(1), 1, kTwoBlocks);
    const auto bytes = bytesOf(*before.index, 2);
    bytes[kArenaIndexHeaderBytes + offset + 1] ^= std::byte{1};
    const auto arena = before.adoptedArena();
    const auto [index, findings] = adopt(before, *arena);
    EXPECT_EQ(findings.valid.size(), 1u) << offset;
    EXPECT_EQ(findings.refusedRecords, 1u);
    EXPECT_EQ(index->state(0), SlotState::kFree);
    ::munmap(bytes.data(), bytes.size());
  }
}

TEST(ArenaIndex, TakesAStateThatItDoesNotKnowForOneInUse) {
  const FilledArena before = FilledArena::create(1);
  const auto bytes = bytesOf(*before.index, 1);
  bytes[kArenaIndexHeaderBytes] = std::byte{77};
  EXPECT_EQ(adopt(before, *before.adoptedArena()).findings.quarantined, 1u);
  ::munmap(bytes.data(), bytes.size());
}

TEST(ArenaIndex, IsMadeAgainWhereItsFileIsNone) {
  const FilledArena before = FilledArena::create(2);
  const auto refuse = [&](OwnedFd file) {
    const int given = file.get();
    auto adopted = ArenaIndex::adopt(*before.arena, std::move(file));
    ASSERT_TRUE(adopted.ok()) << given;
    EXPECT_NE(adopted->findings.refused, "");
    EXPECT_EQ(adopted->findings.quarantined, 2u);
    EXPECT_EQ(adopted->index->releaseQuarantine(*before.arena), 0u);
    adopted->index->beginFill(0);
  };
  refuse(OwnedFd());
  refuse(OwnedFd(::open("/dev/null", O_RDWR | O_CLOEXEC)));
  OwnedFd open(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), 8192), 0);
  refuse(std::move(open));
  OwnedFd tooShort(::memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(tooShort.get(), 100), 0);
  ASSERT_EQ(::fcntl(tooShort.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  refuse(std::move(tooShort));
}

}  // namespace
}  // namespace hearth
