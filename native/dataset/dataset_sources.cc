#include "dataset/dataset_sources.h"

#include <algorithm>

namespace hearth {

DatasetSources::DatasetSources(std::shared_ptr<const Manifest> manifest, std::string dataset,
                               EventSink events)
    : manifest_(std::move(manifest)),
      dataset_(std::move(dataset)),
      events_(std::move(events)),
      first_(std::make_shared<LocationCache>(manifest_, dataset_, events_)),
      now_(std::make_shared<const SourceSet>(
          std::vector<SourceSet::Source>{{MirrorPlace{}, first_}})) {}

std::shared_ptr<const SourceSet> DatasetSources::now() const {
  const std::lock_guard lock(mutex_);
  return now_;
}

std::shared_ptr<LocationCache> DatasetSources::locations(std::size_t source) const {
  const std::shared_ptr<const SourceSet> set = now();
  return source < set->sources.size() ? set->sources[source].locations : nullptr;
}

void DatasetSources::setMirrors(const std::vector<MirrorPlace>& mirrors) {
  std::shared_ptr<const SourceSet> before;
  {
    const std::lock_guard lock(mutex_);
    const auto same = [&](const SourceSet& set) {
      return std::equal(
          set.sources.begin() + 1, set.sources.end(), mirrors.begin(), mirrors.end(),
          [](const MirrorPlace& one, const MirrorPlace& other) { return one == other; });
    };
    if (same(*now_)) return;
    std::vector<SourceSet::Source> sources{now_->sources.front()};
    for (const MirrorPlace& mirror : mirrors) {
      if (sources.size() == SourceRanking::kMaxSources) break;
      const auto index = static_cast<std::uint32_t>(sources.size());
      sources.push_back(
          {mirror, std::make_shared<LocationCache>(manifest_, dataset_, events_, index)});
      if (closed_) sources.back().locations->close(*closed_);
    }
    before = std::move(now_);
    now_ = std::make_shared<const SourceSet>(std::move(sources));
  }
  for (std::size_t at = 1; at < before->sources.size(); ++at) {
    before->sources[at].locations->close(
        {ErrorCode::kCancelled, "the dataset has other mirrors now"});
  }
}

void DatasetSources::sweep() {
  for (const SourceSet::Source& source : now()->sources) source.locations->sweep();
}

void DatasetSources::close(const Error& error) {
  std::shared_ptr<const SourceSet> set;
  {
    const std::lock_guard lock(mutex_);
    closed_ = error;
    set = now_;
  }
  for (const SourceSet::Source& source : set->sources) source.locations->close(error);
}

}  // namespace hearth
