// A trace of one node that loads models: which file is read, whole, after which. Made from a seed,
// without distributions of the C++ library, which differ from one library to another.
//
// Models of 1 to 100 GB (log-uniform) are folders: shards of 1 to 10 GB and some small files, read
// in the order of their names. Which model is loaded next is drawn by weight: Zipf's law over their
// ranks, less and less as they age (old ones fade, new ones appear), and for a while 25 times as
// much when a model is rolled out or scaled (its pods start on this node one after the other). Up
// to four loads are under way and alternate. Between them come scans: passes over a dataset whose
// files are never read again, and validation jobs that read models without regard to how popular
// they are. How steep, quick and frequent all this is, the seed draws too.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth::hit_ratio {

using FileId = std::uint32_t;

// Of a file of no model.
constexpr std::uint32_t kNoModel = ~std::uint32_t{0};

struct ModelTrace {
  struct File {
    std::uint64_t bytes;
    std::uint32_t model;
  };
  std::vector<File> files;  // by FileId
  std::vector<FileId> reads;
  // Bytes of the models that can be loaded, on average over time: what cache sizes are relative to.
  std::uint64_t shelfBytes = 0;
  // Knowledge of the generator alone, for bounds on policies that do not know the future: from read
  // `begin` on, the weights of models, by model; `lasting`, without the share of roll-outs.
  struct Popularity {
    std::size_t begin;
    std::vector<float> weights, lasting;
  };
  std::vector<Popularity> popularity;
};

[[nodiscard]] ModelTrace makeModelTrace(std::uint64_t seed, std::uint32_t loads);

}  // namespace hearth::hit_ratio
