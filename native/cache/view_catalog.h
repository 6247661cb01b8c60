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
  bool whole = false;            // all of them are claimed, and none was found bad since
};

class ViewCatalog {
 public:
  void add(const Sha256Digest& digest, View view);
  void erase(const Sha256Digest& digest);
  // All files of the view are whole, as was found out after breaks() was `breaks`. False: some file
  // was found bad since, and the view is not marked.
  bool markWhole(const Sha256Digest& digest, std::uint64_t breaks);
  // No view that links the key is whole any more.
  void markBroken(const ContentKey& key);
  // Grows with every markBroken().
  [[nodiscard]] std::uint64_t breaks() const;
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
  std::uint64_t breaks_ = 0;
};

}  // namespace hearth
