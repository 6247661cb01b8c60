// Reads of files through one agent that holds nothing at first.
#include <sys/mman.h>

#include <random>

#include "base/testing/sanitizers.h"
#include "client_tests/testing_client.h"

extern "C" long hearth_read_from_c(const xfer_gd2fs_options* options, const char* path, void* into,
                                   size_t size);

namespace hearth::testing_client {
namespace {

constexpr std::uint64_t kSize = 3 * kChunkBytes + 12'345;

struct ReadsTest : ClientTest {
  ReadsTest() {
    origin.add("folder/model", kSize);
    origin.add("small", 10);
    expected = origin.bytesOf("folder/model");
    agent.engine().nameDatasets({{"llm", agent.add(origin)}});
    useToken(capabilityOf({"llm"}));
    open(addressOf(agent));
  }
  void expectRead(std::uint64_t offset, std::size_t size) {
    const xfer_gd2fs_completion done = read(path, offset, size);
    ASSERT_EQ(done.status, 0u) << XFER_GD2FS_STATUS_CODE(done.status);
    const std::string wanted = expected.substr(std::min<std::size_t>(offset, kSize), size);
    EXPECT_EQ(done.value, wanted.size());
    EXPECT_TRUE(memory.compare(0, wanted.size(), wanted) == 0) << offset << " " << size;
  }

  const std::string path = "/dataset/llm/folder/model";
  Origin origin;
  std::string expected;
  Agent agent{"agent"};
};

TEST_F(ReadsTest, AProgramInCReadsAFile) {
  std::string bytes(kSize, '\0');
  const xfer_gd2fs_options given = options(addressOf(agent));
  EXPECT_EQ(hearth_read_from_c(&given, path.c_str(), bytes.data(), bytes.size()),
            static_cast<long>(kSize));
  EXPECT_TRUE(bytes == expected);
}

TEST_F(ReadsTest, RangesBeginAndEndAnywhere) {
  expectRead(0, kSize);
  std::mt19937_64 random(1);
  for (int i = 0; i < 30; ++i) {
    const std::uint64_t from = random() % kSize;
    expectRead(from, 1 + random() % (kSize - from));
  }
  expectRead(kChunkBytes - 1, 2);
}

TEST_F(ReadsTest, ReadsAtTheEndAreShort) {
  expectRead(kSize - 5, 100);
  expectRead(kSize, 100);
  expectRead(kSize + kChunkBytes, 100);
}

TEST_F(ReadsTest, SgesAreFilledInTheirOrder) {
  std::vector<char> bytes(kSize);
  xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, bytes.data(), bytes.size(), nullptr);
  // From the back to the front of the memory.
  constexpr std::size_t kPieces = 65'535, kPiece = kSize / kPieces;
  std::vector<xfer_gd2fs_sge> sges;
  for (std::size_t i = kPieces; i-- > 0;)
    sges.push_back({bytes.data() + i * kPiece, kPiece, iomem});
  ASSERT_EQ(xfer_gd2fs_preadv(ctx, nullptr, path.c_str(), 7, sges.data(), kPieces, 0), 0);
  const xfer_gd2fs_completion done = next();
  ASSERT_EQ(done.status, 0u);
  EXPECT_EQ(done.value, kPieces * kPiece);
  for (std::size_t i = 0; i < kPieces; ++i) {
    const std::size_t from = 7 + (kPieces - 1 - i) * kPiece;
    ASSERT_TRUE(std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(i * kPiece),
                           bytes.begin() + static_cast<std::ptrdiff_t>((i + 1) * kPiece),
                           expected.begin() + static_cast<std::ptrdiff_t>(from)))
        << i;
  }
}

TEST_F(ReadsTest, ManyRequestsInFlightYieldOneCompletionEach) {
  constexpr std::size_t kRequests = 2000, kEach = 4096;
  std::vector<char> bytes(kRequests * kEach);
  xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, bytes.data(), bytes.size(), nullptr);
  const auto offsetOf = [](std::size_t i) { return i * 6007 % (kSize - kEach); };
  std::vector<std::thread> threads;
  for (std::size_t first = 0; first < 4; ++first) {
    threads.emplace_back([&, first] {
      for (std::size_t i = first; i < kRequests; i += 4) {
        const xfer_gd2fs_sge sge{bytes.data() + i * kEach, kEach, iomem};
        EXPECT_EQ(xfer_gd2fs_preadv(ctx, bytes.data() + i, path.c_str(), offsetOf(i), &sge, 1, 0),
                  0);
      }
    });
  }
  std::vector<int> seen(kRequests);
  for (std::size_t got = 0; got < kRequests;) {
    std::array<xfer_gd2fs_completion, 16> done;
    const int count = xfer_gd2fs_wait(ctx, done.data(), done.size(), -1);
    ASSERT_GT(count, 0);
    got += static_cast<std::size_t>(count);
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(done[static_cast<std::size_t>(i)].status, 0u);
      ++seen[static_cast<std::size_t>(static_cast<char*>(done[static_cast<std::size_t>(i)].id) -
                                      bytes.data())];
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(xfer_gd2fs_wait(ctx, std::array<xfer_gd2fs_completion, 1>{}.data(), 1, 0), 0);
  EXPECT_TRUE(std::ranges::all_of(seen, [](int count) { return count == 1; }));
  for (std::size_t i = 0; i < kRequests; ++i)
    ASSERT_TRUE(std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(i * kEach),
                           bytes.begin() + static_cast<std::ptrdiff_t>((i + 1) * kEach),
                           expected.begin() + static_cast<std::ptrdiff_t>(offsetOf(i))))
        << i;
}

TEST_F(ReadsTest, ManyClientsShareTheAgentsLimit) {
  constexpr std::size_t kClients = 4, kEach = 6;
  const ClientUse before = agent.await(agent.engine().statistics()).clients;
  // Together they ask for several times as much as may be on its way.
  EXPECT_LT(before.limitBytes, kClients * kEach * kSize / 4);
  const std::string address = addressOf(agent);
  std::vector<std::thread> clients;
  for (std::size_t client = 0; client < kClients; ++client) {
    clients.emplace_back([&] {
      const xfer_gd2fs_options given{.cp_address = address.c_str(), .cluster_id = "test"};
      xfer_gd2fs_ctx* const own = xfer_gd2fs_connect(&given);
      ASSERT_NE(own, nullptr);
      std::vector<char> bytes(kEach * kSize);
      xfer_gd2fs_iomem* const iomem =
          xfer_gd2fs_reg_iomem(own, bytes.data(), bytes.size(), nullptr);
      for (std::size_t i = 0; i < kEach; ++i) {
        const xfer_gd2fs_sge sge{bytes.data() + i * kSize, kSize, iomem};
        EXPECT_EQ(xfer_gd2fs_preadv(own, nullptr, path.c_str(), 0, &sge, 1, 0), 0);
      }
      xfer_gd2fs_completion done{};
      for (std::size_t i = 0; i < kEach; ++i) {
        EXPECT_EQ(xfer_gd2fs_wait(own, &done, 1, -1), 1);
        EXPECT_EQ(done.status, 0u);
      }
      for (std::size_t i = 0; i < kEach; ++i)
        EXPECT_TRUE(expected.compare(0, kSize, bytes.data() + i * kSize, kSize) == 0);
      xfer_gd2fs_close(own);
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GT(agent.await(agent.engine().statistics()).clients.waited, before.waited);
  EXPECT_TRUE(eventually([&] {
    const ClientUse now = agent.await(agent.engine().statistics()).clients;
    return now.bytes == 0 && now.waiting == 0;
  }));
}

TEST_F(ReadsTest, StatTellsSizesAndKinds) {
  const auto statOf = [this](const char* of, xfer_gd2fs_stat& st) {
    EXPECT_EQ(xfer_gd2fs_fstat(ctx, nullptr, of, &st), 0);
    return XFER_GD2FS_STATUS_CODE(next().status);
  };
  xfer_gd2fs_stat st{};
  EXPECT_EQ(statOf(path.c_str(), st), 0u);
  EXPECT_EQ(st.size, kSize);
  EXPECT_TRUE(S_ISREG(st.mode));
  EXPECT_EQ(statOf("/dataset/llm/", st), 0u);
  EXPECT_EQ(st.size, 2u);
  EXPECT_TRUE(S_ISDIR(st.mode));
  EXPECT_EQ(statOf("/dataset/llm/none", st), static_cast<unsigned>(ENOENT));
}

TEST_F(ReadsTest, WhatCannotBeReadIsAStatus) {
  EXPECT_EQ(codeOf("/dataset/llm/none"), static_cast<unsigned>(ENOENT));
  EXPECT_EQ(codeOf("/dataset/llm/folder"), static_cast<unsigned>(EISDIR));
  EXPECT_EQ(codeOf("/elsewhere"), static_cast<unsigned>(EINVAL));
  EXPECT_EQ(codeOf("/dataset/other/model"), static_cast<unsigned>(EACCES));
}

TEST_F(ReadsTest, SubmissionsThatCannotBeMadeAreRefusedAndYieldNoCompletion) {
  std::array<char, 64> bytes{};
  xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, bytes.data(), 32, nullptr);
  const auto submit = [&](const char* of, std::uint64_t offset, xfer_gd2fs_sge sge,
                          std::uint16_t count = 1, std::uint16_t flags = 0) {
    return xfer_gd2fs_preadv(ctx, nullptr, of, offset, &sge, count, flags);
  };
  const char* const file = path.c_str();
  const xfer_gd2fs_sge good{bytes.data(), 32, iomem};
  EXPECT_EQ(submit(file, 0, {bytes.data(), 33, iomem}), -EFAULT);
  EXPECT_EQ(submit(file, 0, {bytes.data() + 33, 1, iomem}), -EFAULT);
  EXPECT_EQ(submit(file, 0, {bytes.data() - 1, 1, iomem}), -EFAULT);
  EXPECT_EQ(submit(file, 0, {bytes.data(), SIZE_MAX, iomem}), -EFAULT);
  EXPECT_EQ(submit(file, 0, {bytes.data(), 1, nullptr}), -EFAULT);
  EXPECT_EQ(submit(file, 0, good, 0), -EINVAL);
  EXPECT_EQ(submit(file, 0, good, 1, 1), -EINVAL);
  const std::array apart{xfer_gd2fs_sge{bytes.data() + 8, 8, iomem},
                         xfer_gd2fs_sge{bytes.data() + 7, 0, iomem},
                         xfer_gd2fs_sge{bytes.data(), 8, iomem}};
  std::array overlapping = apart;
  overlapping[2].len = 9;
  EXPECT_EQ(xfer_gd2fs_preadv(ctx, nullptr, file, 0, overlapping.data(), 3, 0), -EINVAL);
  EXPECT_EQ(xfer_gd2fs_preadv(ctx, nullptr, file, 0, apart.data(), 3, 0), 0);
  EXPECT_EQ(next().value, 16u);
  EXPECT_EQ(submit(file, UINT64_MAX, good), -EOVERFLOW);
  EXPECT_EQ(submit(file, INT64_MAX - 5, good), -EOVERFLOW);
  EXPECT_EQ(submit(nullptr, 0, good), -EINVAL);
  EXPECT_EQ(submit("relative", 0, good), -EINVAL);
  EXPECT_EQ(submit("/dataset/llm/\xff", 0, good), -EINVAL);
  EXPECT_EQ(submit(("/dataset/" + std::string(5000, 'a')).c_str(), 0, good), -ENAMETOOLONG);
  EXPECT_EQ(xfer_gd2fs_fstat(ctx, nullptr, file, nullptr), -EINVAL);
  EXPECT_EQ(xfer_gd2fs_create(ctx, nullptr, file, 1, 0), -EINVAL);
  EXPECT_EQ(xfer_gd2fs_create(ctx, nullptr, nullptr, 0, 0), -EINVAL);
  EXPECT_EQ(xfer_gd2fs_pwritev(ctx, nullptr, file, 0, &good, 1, 0), -EROFS);
  EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, nullptr), -EINVAL);
  EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, iomem), 0);
  EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, iomem), -EINVAL);
  EXPECT_EQ(submit(file, 0, good), -EFAULT) << "deregistered";
  xfer_gd2fs_completion done{};
  EXPECT_EQ(xfer_gd2fs_wait(ctx, &done, 0, 0), -EINVAL);
  EXPECT_EQ(xfer_gd2fs_wait(ctx, &done, 1, 0), 0);
}

TEST_F(ReadsTest, MemoryThatCannotBeWrittenIsAStatus) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer takes the faults";
  void* const closed = mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(closed, MAP_FAILED);
  std::vector<char> bytes(kSize);
  xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, closed, kSize, nullptr);
  xfer_gd2fs_iomem* const other = xfer_gd2fs_reg_iomem(ctx, bytes.data(), kSize, nullptr);
  for (const std::size_t size : {std::size_t{10}, std::size_t{4096}, std::size_t{100'000}, kSize}) {
    // Beside memory that can be: the first of two SGEs, and the second.
    for (const bool first : {true, false}) {
      std::array<xfer_gd2fs_sge, 2> sges{
          {{closed, size / 2, iomem}, {bytes.data(), size / 2, other}}};
      if (!first) std::swap(sges[0], sges[1]);
      ASSERT_EQ(xfer_gd2fs_preadv(ctx, nullptr, path.c_str(), 5, sges.data(), 2, 0), 0);
      const xfer_gd2fs_completion done = next();
      EXPECT_EQ(XFER_GD2FS_STATUS_CODE(done.status), unsigned{EFAULT}) << size;
      EXPECT_EQ(XFER_GD2FS_STATUS_CLASS(done.status), XFER_GD2FS_CLASS_REQUEST);
      EXPECT_EQ(done.value, 0u);
      expectRead(3, size);
    }
  }
  munmap(closed, kSize);
}

TEST_F(ReadsTest, AClosedContextIsRefused) {
  xfer_gd2fs_ctx* const gone = std::exchange(ctx, nullptr);
  xfer_gd2fs_close(gone);
  xfer_gd2fs_close(gone);
  xfer_gd2fs_stat st{};
  xfer_gd2fs_completion done{};
  EXPECT_EQ(xfer_gd2fs_fstat(gone, nullptr, path.c_str(), &st), -EBADF);
  EXPECT_EQ(xfer_gd2fs_wait(gone, &done, 1, -1), -EBADF);
  EXPECT_EQ(xfer_gd2fs_reg_iomem(gone, &st, sizeof st, nullptr), nullptr);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace hearth::testing_client
