// Which views exist, which keys they link and which of them are published: the part of the view
// store that any thread may ask.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/content_key.h"
#include "base/sha256.h"

namespace hearth {

struct View {
  std::string path;              // of the tree
  std::vector<ContentKey> keys;  // of the cache files that it links, each once
  bool whole = true;             // all of them were complete when somebody looked last
};

class ViewCatalog {
 public:
  void add(const Sha256Digest& digest, View view);
  void erase(const Sha256Digest& digest);
  void markWhole(const Sha256Digest& digest);
  [[nodiscard]] std::optional<View> find(const Sha256Digest& digest) const;
  [[nodiscard]] std::vector<Sha256Digest> digests() const;
  [[nodiscard]] std::vector<Sha256Digest> viewsOf(const ContentKey& key) const;

  void publish(const std::string& name, const Sha256Digest& digest);
  void unpublish(const std::string& name);
  // Replaces all names by what was found on the disk.
  void replacePublished(std::map<std::string, Sha256Digest> names);
  [[nodiscard]] std::optional<Sha256Digest> publishedAs(const std::string& name) const;
  [[nodiscard]] std::map<std::string, Sha256Digest> published() const;
  // A name under which the digest is published.
  [[nodiscard]] std::optional<std::string> publisherOf(const Sha256Digest& digest) const;
  // The key is linked by a view that is published.
  [[nodiscard]] bool publishes(const ContentKey& key) const;

 private:
  [[nodiscard]] std::optional<std::string> publisher(const Sha256Digest& digest) const;

  mutable std::mutex mutex_;  // guards all below
  std::map<Sha256Digest, View> views_;
  std::unordered_multimap<ContentKey, Sha256Digest, ContentKeyHash> byKey_;
  std::map<std::string, Sha256Digest> published_;
};

}  // namespace hearth
