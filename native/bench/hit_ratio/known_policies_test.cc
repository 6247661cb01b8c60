// Short traces worked out by hand from the descriptions of the policies.
#include "bench/hit_ratio/known_policies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::hit_ratio {
namespace {

using ::testing::ElementsAre;

ModelTrace filesOf(std::vector<std::uint64_t> sizes) {
  ModelTrace trace;
  for (const std::uint64_t bytes : sizes) trace.files.push_back({bytes, 0});
  return trace;
}

// Inserts 0, 1, ... and hits; then all in the order in which they go.
std::vector<FileId> order(const ModelTrace& trace, ReplacementPolicy& policy,
                          const std::vector<FileId>& hits) {
  for (FileId file = 0; file < trace.files.size(); ++file) policy.insert(file);
  for (const FileId file : hits) policy.hit(file);
  std::vector<FileId> gone;
  while (gone.size() < trace.files.size()) gone.push_back(policy.evict());
  return gone;
}

TEST(KnownPolicies, LruDropsWhatWasUsedLongestAgo) {
  const ModelTrace trace = filesOf({1, 1, 1});
  EXPECT_THAT(order(trace, *makeLru(trace), {0, 1, 0}), ElementsAre(2, 1, 0));
}

TEST(KnownPolicies, LfuDropsWhatWasUsedLeast) {
  const ModelTrace trace = filesOf({1, 1, 1});
  EXPECT_THAT(order(trace, *makeLfu(trace), {0, 0, 2}), ElementsAre(1, 2, 0));
}

TEST(KnownPolicies, SieveKeepsItsHandWhereItDroppedTheLast) {
  const ModelTrace trace = filesOf({1, 1, 1, 1});
  EXPECT_THAT(order(trace, *makeSieve(trace), {0, 2}), ElementsAre(1, 3, 0, 2));
}

TEST(KnownPolicies, S3FifoPromotesWhatWasHitTwiceAndKnowsWhatCameBack) {
  const ModelTrace trace = filesOf({10, 10, 10});
  const auto policy = makeS3Fifo(trace, 100);
  EXPECT_THAT(order(trace, *policy, {0, 0, 1}), ElementsAre(1, 2, 0));
  policy->insert(1);  // main, as it is a ghost
  policy->insert(0);  // small: it went from the main queue
  EXPECT_EQ(policy->evict(), 0u);
}

TEST(KnownPolicies, GdsfWeighsSizesUnlessBytesCount) {
  const ModelTrace trace = filesOf({100, 1, 10});
  EXPECT_THAT(order(trace, *makeGdsf(trace, GdsfCost::kOne), {0, 0}), ElementsAre(0, 2, 1));
  EXPECT_THAT(order(trace, *makeGdsf(trace, GdsfCost::kBytes), {0, 0}), ElementsAre(1, 2, 0));
}

TEST(KnownPolicies, GdsfAges) {
  const ModelTrace trace = filesOf({1, 1, 1, 1});
  const auto policy = makeGdsf(trace, GdsfCost::kBytes);
  policy->insert(0);
  policy->hit(0);
  policy->insert(1);
  EXPECT_EQ(policy->evict(), 1u);  // the clock is 1
  policy->insert(2);
  EXPECT_EQ(policy->evict(), 0u);  // both are worth 2, and 0 was used before
}

}  // namespace
}  // namespace hearth::hit_ratio
