// hearth_hit_ratio: byte hit ratios of the engine's eviction policy, of those of the literature and
// of who knows the future, on seeded traces of model loads (hit_ratio/model_trace.h), for caches of
// several shares of the models that can be loaded. The first quarter of each trace only warms up.
//
//   hearth_hit_ratio [--json] [FIRST_SEED [SEEDS [LOADS]]]      1000 20 4000 unless given
//
// Seeds below 40 chose the policy's tuning; others judge it. --json: by cache size and seed.
#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "bench/hit_ratio/known_policies.h"
#include "bench/hit_ratio/offline_bounds.h"
#include "bench/hit_ratio/our_policy.h"

namespace {

using hearth::hit_ratio::GdsfCost;
using hearth::hit_ratio::ModelTrace;

constexpr std::array kShares{0.05, 0.1, 0.2, 0.4, 0.8};  // of ModelTrace::shelfBytes
constexpr std::size_t kWarmUpShare = 4;

struct Column {
  const char* name;
  std::function<double(const ModelTrace&, std::uint64_t capacity, std::size_t warmUp)> measure;
};

// A column of a policy that `make` makes from a trace, and a capacity if it takes one.
template <class Make>
Column policyColumn(const char* name, Make make) {
  return {name, [make](const ModelTrace& trace, std::uint64_t capacity, std::size_t warmUp) {
            return hearth::hit_ratio::byteHitRatio(trace, capacity, warmUp, *make(trace, capacity));
          }};
}

// Policies up to kOurs come from the literature.
enum : std::size_t { kOurs = 6, kLasting, kOracle, kReached, kBound, kColumns };

std::array<Column, kColumns> makeColumns() {
  using namespace hearth::hit_ratio;
  const auto known = [](auto make) {
    return [make](const ModelTrace& trace, std::uint64_t /*capacity*/) { return make(trace); };
  };
  const auto gdsf = [](GdsfCost cost) {
    return [cost](const ModelTrace& trace, std::uint64_t /*capacity*/) {
      return makeGdsf(trace, cost);
    };
  };
  const auto oracle = [](Known what) {
    return [what](const ModelTrace& trace, std::uint64_t /*capacity*/) {
      return makePopularityOracle(trace, what);
    };
  };
  return {policyColumn("LRU", known(makeLru)),
          policyColumn("LFU", known(makeLfu)),
          policyColumn("SIEVE", known(makeSieve)),
          policyColumn("S3-FIFO", makeS3Fifo),
          policyColumn("GDSF", gdsf(GdsfCost::kOne)),
          policyColumn("GDSF-bytes", gdsf(GdsfCost::kBytes)),
          policyColumn("ours", [](const ModelTrace& trace,
                                  std::uint64_t capacity) { return makeOurs(trace, capacity); }),
          policyColumn("lasting", oracle(Known::kLasting)),
          policyColumn("oracle", oracle(Known::kWeights)),
          {"reached", offlineReached},
          {"bound", offlineBound}};
}

using Ratios = std::array<double, kColumns>;  // of one cache size and one seed

double bestKnown(const Ratios& ratios) {
  return *std::max_element(ratios.begin(), ratios.begin() + kOurs);
}

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const std::size_t middle = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[middle] : (numbers[middle - 1] + numbers[middle]) / 2;
}

std::vector<double> each(const std::vector<Ratios>& seeds,
                         const std::function<double(const Ratios&)>& value) {
  std::vector<double> values;
  for (const Ratios& ratios : seeds) values.push_back(value(ratios));
  return values;
}

void printHead(const std::array<Column, kColumns>& columns) {
  std::printf("%5s", "cache");
  for (const Column& column : columns) std::printf(" %10s", column.name);
  std::printf("  ours/best (least)  of the bound: ours, lasting, oracle, reached\n");
}

void printSize(double share, const std::vector<Ratios>& seeds) {
  std::printf("%4.0f%%", share * 100);
  for (std::size_t column = 0; column < kColumns; ++column)
    std::printf(" %10.3f", median(each(seeds, [&](const Ratios& of) { return of[column]; })));
  const auto ofBest = each(seeds, [](const Ratios& of) { return of[kOurs] / bestKnown(of); });
  const auto ofBound = [&](std::size_t column) {
    return median(each(seeds, [&](const Ratios& of) { return of[column] / of[kBound]; }));
  };
  std::printf("      %.3f (%.3f)               %.3f    %.3f   %.3f   %.3f\n", median(ofBest),
              *std::min_element(ofBest.begin(), ofBest.end()), ofBound(kOurs), ofBound(kLasting),
              ofBound(kOracle), ofBound(kReached));
}

void printJson(const std::array<Column, kColumns>& columns, std::uint64_t firstSeed,
               const std::array<std::vector<Ratios>, kShares.size()>& sizes) {
  const char* separator = "[\n";
  for (std::size_t size = 0; size < sizes.size(); ++size) {
    for (std::size_t seed = 0; seed < sizes[size].size(); ++seed) {
      const Ratios& ratios = sizes[size][seed];
      std::printf("%s  {\"seed\": %" PRIu64 ", \"share\": %g", separator, firstSeed + seed,
                  kShares[size]);
      for (std::size_t column = 0; column < kColumns; ++column)
        std::printf(", \"%s\": %.6f", columns[column].name, ratios[column]);
      std::printf(", \"best\": %.6f}", bestKnown(ratios));
      separator = ",\n";
    }
  }
  std::printf("\n]\n");
}

}  // namespace

int main(int count, char** words) {
  const bool json = count > 1 && std::strcmp(words[1], "--json") == 0;
  const auto number = [&](int place, std::uint64_t otherwise) {
    place += json ? 1 : 0;
    return place < count ? std::strtoull(words[place], nullptr, 10) : otherwise;
  };
  const std::uint64_t firstSeed = number(1, 1000), seeds = number(2, 20), loads = number(3, 4000);
  if (seeds == 0 || loads == 0) {
    std::fprintf(stderr, "usage: hearth_hit_ratio [--json] [FIRST_SEED [SEEDS [LOADS]]]\n");
    return 2;
  }
  const std::array<Column, kColumns> columns = makeColumns();
  std::array<std::vector<Ratios>, kShares.size()> sizes;
  for (std::uint64_t seed = firstSeed; seed < firstSeed + seeds; ++seed) {
    const ModelTrace trace =
        hearth::hit_ratio::makeModelTrace(seed, static_cast<std::uint32_t>(loads));
    const std::size_t warmUp = trace.reads.size() / kWarmUpShare;
    for (std::size_t size = 0; size < sizes.size(); ++size) {
      const auto capacity =
          static_cast<std::uint64_t>(static_cast<double>(trace.shelfBytes) * kShares[size]);
      Ratios& ratios = sizes[size].emplace_back();
      for (std::size_t column = 0; column < kColumns; ++column)
        ratios[column] = columns[column].measure(trace, capacity, warmUp);
    }
  }
  if (json) {
    printJson(columns, firstSeed, sizes);
    return 0;
  }
  printHead(columns);
  for (std::size_t size = 0; size < sizes.size(); ++size) printSize(kShares[size], sizes[size]);
  return 0;
}
