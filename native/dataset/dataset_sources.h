// The places that the bytes of one dataset can be read from: the first source, which was listed and
// defines names, sizes and content keys, and its mirrors, each with locations and credentials of
// its own. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dataset/location_cache.h"
#include "dataset/source_ranking.h"

namespace hearth {

struct MirrorPlace {
  std::string name;  // for people, without secrets
  // Its ETags and the first source's are made of the bytes in the same way, as those of S3 are:
  // equal ones prove equal bytes. Those of web servers are each server's own.
  bool sameTags = false;
  [[nodiscard]] bool operator==(const MirrorPlace&) const = default;
};

// Immutable, but for what its members are.
struct SourceSet {
  struct Source : MirrorPlace {
    std::shared_ptr<LocationCache> locations;
  };
  std::vector<Source> sources;  // [0]: the first
  mutable SourceRanking ranking;

  explicit SourceSet(std::vector<Source> all) : sources(std::move(all)), ranking(sources.size()) {}
};

class DatasetSources {
 public:
  DatasetSources(std::shared_ptr<const Manifest> manifest, std::string dataset, EventSink events);

  [[nodiscard]] LocationCache& first() const { return *first_; }
  // The set as it is now; who has it may go on with it.
  [[nodiscard]] std::shared_ptr<const SourceSet> now() const;
  // Of source 0 (the first) or a mirror; null when there are not so many.
  [[nodiscard]] std::shared_ptr<LocationCache> locations(std::size_t source) const;
  // At most SourceRanking::kMaxSources - 1. What was known of other mirrors is forgotten, and who
  // waits for their locations gets kCancelled; the same in the same order change nothing.
  void setMirrors(const std::vector<MirrorPlace>& mirrors);

  // Of all sources, as LocationCache.
  void sweep();
  void close(const Error& error);

 private:
  const std::shared_ptr<const Manifest> manifest_;
  const std::string dataset_;
  const EventSink events_;
  const std::shared_ptr<LocationCache> first_;
  mutable std::mutex mutex_;
  std::shared_ptr<const SourceSet> now_;
  std::optional<Error> closed_;
};

}  // namespace hearth
