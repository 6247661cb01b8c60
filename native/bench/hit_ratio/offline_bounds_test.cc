#include "bench/hit_ratio/offline_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "bench/hit_ratio/known_policies.h"
#include "bench/hit_ratio/our_policy.h"

namespace hearth::hit_ratio {
namespace {

ModelTrace traceOf(const std::vector<std::uint64_t>& sizes, std::vector<FileId> reads) {
  ModelTrace trace;
  for (const std::uint64_t bytes : sizes) trace.files.push_back({bytes, 0});
  trace.reads = std::move(reads);
  trace.popularity.push_back({0, {1}, {1}});
  return trace;
}

// The best of all choices of what to keep after each read.
std::uint64_t mostHits(const ModelTrace& trace, std::uint64_t capacity, std::size_t warmUp,
                       std::size_t index, std::uint32_t cached) {
  if (index == trace.reads.size()) return 0;
  const std::uint32_t read = 1u << trace.reads[index];
  const std::uint32_t may = cached | read;
  std::uint64_t most = 0;
  for (std::uint32_t kept = may;; kept = (kept - 1) & may) {
    std::uint64_t used = 0;
    for (FileId file = 0; file < trace.files.size(); ++file)
      if ((kept >> file & 1u) != 0) used += trace.files[file].bytes;
    if (used <= capacity) most = std::max(most, mostHits(trace, capacity, warmUp, index + 1, kept));
    if (kept == 0) break;
  }
  const bool isHit = (cached & read) != 0 && index >= warmUp;
  return most + (isHit ? trace.files[trace.reads[index]].bytes : 0);
}

TEST(OfflineBounds, PartsOfFilesCount) {
  // 0 and 1 do not fit together: whole files hit once, 10 of 40 bytes; with 5 of the other one, 15.
  const ModelTrace trace = traceOf({10, 10}, {0, 1, 0, 1});
  EXPECT_DOUBLE_EQ(offlineReached(trace, 15, 0), 10.0 / 40);
  EXPECT_DOUBLE_EQ(offlineBound(trace, 15, 0), 15.0 / 40);
}

TEST(OfflineBounds, LieOnBothSidesOfTheOptimum) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::uint64_t> sizes(4);
    for (std::uint64_t& bytes : sizes) bytes = 1 + random() % 9;
    std::vector<FileId> reads(8);
    for (FileId& file : reads) file = static_cast<FileId>(random() % sizes.size());
    const ModelTrace trace = traceOf(sizes, reads);
    const std::uint64_t capacity = 5 + random() % 12;
    const std::size_t warmUp = random() % 4;
    double all = 0;
    for (std::size_t i = warmUp; i < reads.size(); ++i) all += static_cast<double>(sizes[reads[i]]);
    const double best = static_cast<double>(mostHits(trace, capacity, warmUp, 0, 0)) / all;
    EXPECT_GE(offlineBound(trace, capacity, warmUp), best - 1e-9);
    EXPECT_LE(offlineReached(trace, capacity, warmUp), best + 1e-9);
  }
}

TEST(OfflineBounds, NoPolicyIsAboveTheBound) {
  const ModelTrace trace = makeModelTrace(7, 400);
  const std::size_t warmUp = trace.reads.size() / 4;
  const std::uint64_t capacity = trace.shelfBytes / 5;
  const double bound = offlineBound(trace, capacity, warmUp);
  EXPECT_LE(offlineReached(trace, capacity, warmUp), bound);
  for (const auto& policy :
       {makeLru(trace), makeLfu(trace), makeSieve(trace), makeS3Fifo(trace, capacity),
        makeGdsf(trace, GdsfCost::kOne), makeGdsf(trace, GdsfCost::kBytes),
        makePopularityOracle(trace, Known::kWeights)})
    EXPECT_LT(byteHitRatio(trace, capacity, warmUp, *policy), bound);
  EXPECT_LT(byteHitRatio(trace, capacity, warmUp, *makeOurs(trace, capacity)), bound);
}

TEST(ModelTraces, AreTheSameForTheSameSeed) {
  const ModelTrace one = makeModelTrace(3, 200), same = makeModelTrace(3, 200),
                   other = makeModelTrace(4, 200);
  EXPECT_EQ(one.reads, same.reads);
  EXPECT_NE(one.reads, other.reads);
  EXPECT_EQ(one.shelfBytes, same.shelfBytes);
}

TEST(ModelTraces, ModelsHaveOneTo100GigabytesInShardsOfAtMostTen) {
  const ModelTrace trace = makeModelTrace(3, 200);
  std::vector<double> models;
  for (const ModelTrace::File& file : trace.files) {
    EXPECT_LE(file.bytes, 10'000'000'000u);
    if (file.model == kNoModel) continue;
    models.resize(std::max<std::size_t>(models.size(), file.model + 1));
    models[file.model] += static_cast<double>(file.bytes);
  }
  EXPECT_GT(models.size(), 50u);
  EXPECT_GE(*std::min_element(models.begin(), models.end()), 1e9);
  EXPECT_LE(*std::max_element(models.begin(), models.end()), 100.3e9);  // with small files
}

}  // namespace
}  // namespace hearth::hit_ratio
