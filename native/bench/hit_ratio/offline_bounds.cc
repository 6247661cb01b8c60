#include "bench/hit_ratio/offline_bounds.h"

#include <limits>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hearth::hit_ratio {
namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// Of each read, when its file is read again.
std::vector<std::size_t> nextReads(const ModelTrace& trace) {
  std::vector<std::size_t> next(trace.reads.size());
  std::vector<std::size_t> later(trace.files.size(), kNever);
  for (std::size_t index = trace.reads.size(); index-- > 0;) {
    std::size_t& of = later[trace.reads[index]];
    next[index] = std::exchange(of, index);
  }
  return next;
}

// `parts`: of the last file that goes, only as much as must.
double furthestFirst(const ModelTrace& trace, std::uint64_t capacityBytes, std::size_t warmUp,
                     bool parts) {
  const std::vector<std::size_t> next = nextReads(trace);
  std::set<std::pair<std::size_t, FileId>> byNextRead;
  std::vector<std::uint64_t> cached(trace.files.size());
  std::uint64_t used = 0;
  double hits = 0, all = 0;
  for (std::size_t index = 0; index < trace.reads.size(); ++index) {
    const FileId file = trace.reads[index];
    if (index >= warmUp) {
      all += static_cast<double>(trace.files[file].bytes);
      hits += static_cast<double>(cached[file]);
    }
    byNextRead.erase({index, file});
    used -= std::exchange(cached[file], 0);
    if (next[index] == kNever || next[index] < warmUp) continue;
    byNextRead.insert({next[index], file});
    used += cached[file] = trace.files[file].bytes;
    while (used > capacityBytes) {
      const auto furthest = std::prev(byNextRead.end());
      std::uint64_t& bytes = cached[furthest->second];
      const std::uint64_t excess = used - capacityBytes;
      const std::uint64_t going = parts && excess < bytes ? excess : bytes;
      used -= going;
      bytes -= going;
      if (bytes == 0) byNextRead.erase(furthest);
    }
  }
  return hits / all;
}

class PopularityOracle final : public ReplacementPolicy {
 public:
  PopularityOracle(const ModelTrace& trace, Known known) : trace_(trace), known_(known) {}

  void hit(FileId /*file*/) override {}
  void insert(FileId file) override {
    const std::uint32_t model = trace_.files[file].model;
    cached_[model].push_back(file);
    if (cached_[model].size() == 1) order_.insert({weightOf(model), model});
  }
  FileId evict() override {
    const std::uint32_t model = order_.begin()->second;
    std::vector<FileId>& files = cached_[model];
    const FileId file = files.back();
    files.pop_back();
    if (files.empty()) order_.erase(order_.begin());
    return file;
  }
  [[nodiscard]] bool mayRefuse() const override { return true; }
  void atRead(std::size_t index) override {
    if (epoch_ + 1 == trace_.popularity.size() || index < trace_.popularity[epoch_ + 1].begin)
      return;
    while (epoch_ + 1 < trace_.popularity.size() && index >= trace_.popularity[epoch_ + 1].begin)
      ++epoch_;
    order_.clear();
    for (const auto& [model, files] : cached_)
      if (!files.empty()) order_.insert({weightOf(model), model});
  }

 private:
  [[nodiscard]] float weightOf(std::uint32_t model) const {
    const ModelTrace::Popularity& now = trace_.popularity[epoch_];
    const std::vector<float>& weights = known_ == Known::kWeights ? now.weights : now.lasting;
    return model < weights.size() ? weights[model] : 0;
  }

  const ModelTrace& trace_;
  const Known known_;
  std::size_t epoch_ = 0;
  std::unordered_map<std::uint32_t, std::vector<FileId>> cached_;
  std::set<std::pair<float, std::uint32_t>> order_;
};

}  // namespace

double offlineBound(const ModelTrace& trace, std::uint64_t capacityBytes, std::size_t warmUp) {
  return furthestFirst(trace, capacityBytes, warmUp, true);
}

double offlineReached(const ModelTrace& trace, std::uint64_t capacityBytes, std::size_t warmUp) {
  return furthestFirst(trace, capacityBytes, warmUp, false);
}

std::unique_ptr<ReplacementPolicy> makePopularityOracle(const ModelTrace& trace, Known known) {
  return std::make_unique<PopularityOracle>(trace, known);
}

}  // namespace hearth::hit_ratio
