// Transfers over GPUs of which any call may fail at any time: each ends, with the right bytes or
// with a reason, no contract is broken on the way, and nothing is left over.
#include <algorithm>

#include "gpu/testing/gpu_fixture.h"

namespace hearth::testing_gpu {
namespace {

constexpr int kSchedules = 10000;
constexpr std::size_t kFileBytes = 72 * 1024 + 777;
constexpr std::uint64_t kMemoryBytes = 128 * 1024;

class FaultSchedules : public GpuFixture {
 protected:
  // Pieces at random places, most of them at multiples of 4096, that do not overlap in memory.
  std::vector<FilePiece> pieces(std::mt19937_64& random,
                                const std::shared_ptr<MemoryRegion>& memory,
                                const std::string& path, std::uint64_t unit) {
    std::vector<FilePiece> all;
    std::uint64_t inMemory = 0;
    const int count = 1 + static_cast<int>(random() % 4);
    for (int index = 0; index < count; ++index) {
      const std::uint64_t offset = random() % (kFileBytes / unit) * unit;
      const std::uint64_t bytes =
          std::min<std::uint64_t>(1 + random() % (24 * 1024), kFileBytes - offset);
      all.push_back({path, offset, {memory, inMemory, bytes}});
      inMemory += (bytes + unit - 1) / unit * unit;
    }
    return all;
  }
  void expectRead(const std::vector<FilePiece>& all, const Transferred& moved) {
    std::uint64_t sum = 0;
    for (const FilePiece& piece : all) {
      sum += piece.memory.size;
      const std::vector<std::byte> got =
          gpu().peek(piece.memory.region->address() + piece.memory.offset, piece.memory.size);
      EXPECT_TRUE(
          std::ranges::equal(got, std::span(bytes_).subspan(piece.offset, piece.memory.size)));
    }
    EXPECT_EQ(moved.bytes(), sum);
    EXPECT_EQ(moved.whyNotDirect.empty(), moved.directBytes == sum);
  }
  void runSchedule(std::uint64_t seed);

  const std::vector<std::byte> bytes_ = randomBytes(kFileBytes, 1);
  const std::string source_ = makeFile("source", bytes_);
  const std::string target_ = makeFile("target", std::vector<std::byte>(kFileBytes));
  int succeeded_ = 0;
};

void FaultSchedules::runSchedule(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  FakeOptions options;
  options.seed = seed;
  options.failures = static_cast<unsigned>(random() % 4 * random() % 30);
  options.storage = static_cast<FakeOptions::Storage>(random() % 3);
  gpu().reset(options);
  const auto runtime = std::make_shared<GpuRuntime>(seams_);
  const Result<std::shared_ptr<Device>> device = runtime->open("cuda:0");
  if (!device.ok()) {
    EXPECT_NE(device.error().message, "");
    return;
  }
  const Result<std::shared_ptr<MemoryRegion>> memory = (*device)->allocate(kMemoryBytes);
  if (!memory.ok()) return;
  DeviceFiles::Options terms;
  terms.lanes = 1 + static_cast<unsigned>(random() % 2);
  terms.sliceBytes = 4096 << random() % 3;
  terms.choice = static_cast<DeviceFiles::Choice>(random() % 3);
  const Result<std::unique_ptr<DeviceFiles>> files = DeviceFiles::open(*device, terms);
  if (!files.ok()) {
    EXPECT_NE(files.error().message, "");
    return;
  }
  const std::uint64_t unit = terms.choice == DeviceFiles::Choice::kDirect ? 4096
                             : random() % 2 == 0                          ? 4096
                                                                          : 8;
  const std::vector<FilePiece> in = pieces(random, *memory, source_, unit);
  const Result<Transferred> read = (*files)->read(in);
  if (read.ok()) {
    ++succeeded_;
    expectRead(in, *read);
  } else {
    EXPECT_NE(read.error().message, "");
  }
  std::vector<FilePiece> out = pieces(random, *memory, target_, unit);
  out.resize(1);  // so that no two write the same bytes
  const std::vector<std::byte> expected =
      gpu().peek((*memory)->address() + out[0].memory.offset, out[0].memory.size);
  const Result<Transferred> written = (*files)->write(out);
  if (!written.ok()) return;
  ++succeeded_;
  const std::vector<std::byte> after = contents(target_);
  EXPECT_EQ(after.size(), kFileBytes);
  EXPECT_TRUE(
      std::ranges::equal(expected, std::span(after).subspan(out[0].offset, out[0].memory.size)));
}

TEST_F(FaultSchedules, endWithTheBytesOrAReason) {
  for (int seed = 0; seed < kSchedules && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    runSchedule(static_cast<std::uint64_t>(seed));
    EXPECT_THAT(gpu().breaches(), testing::IsEmpty());
    EXPECT_THAT(gpu().live(), testing::IsEmpty());
  }
  // Else the schedules would prove little.
  EXPECT_GT(succeeded_, kSchedules / 10);
}

}  // namespace
}  // namespace hearth::testing_gpu
