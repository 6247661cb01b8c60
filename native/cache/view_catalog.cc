#include "cache/view_catalog.h"

#include <utility>

namespace hearth {

void ViewCatalog::add(const Sha256Digest& digest, View view) {
  const std::lock_guard guard(mutex_);
  for (const ContentKey& key : view.keys) byKey_.emplace(key, digest);
  views_.insert_or_assign(digest, std::move(view));
}

void ViewCatalog::erase(const Sha256Digest& digest) {
  const std::lock_guard guard(mutex_);
  const auto found = views_.find(digest);
  if (found == views_.end()) return;
  for (const ContentKey& key : found->second.keys) {
    const auto [first, last] = byKey_.equal_range(key);
    for (auto at = first; at != last; ++at) {
      if (at->second != digest) continue;
      byKey_.erase(at);
      break;
    }
  }
  views_.erase(found);
}

bool ViewCatalog::markWhole(const Sha256Digest& digest, std::uint64_t breaks) {
  const std::lock_guard guard(mutex_);
  const auto found = views_.find(digest);
  if (found == views_.end() || breaks != breaks_) return false;
  found->second.whole = true;
  return true;
}

void ViewCatalog::markBroken(const ContentKey& key) {
  const std::lock_guard guard(mutex_);
  ++breaks_;
  const auto [first, last] = byKey_.equal_range(key);
  for (auto at = first; at != last; ++at) views_.at(at->second).whole = false;
}

std::uint64_t ViewCatalog::breaks() const {
  const std::lock_guard guard(mutex_);
  return breaks_;
}

std::optional<View> ViewCatalog::find(const Sha256Digest& digest) const {
  const std::lock_guard guard(mutex_);
  const auto found = views_.find(digest);
  if (found == views_.end()) return std::nullopt;
  return found->second;
}

std::vector<Sha256Digest> ViewCatalog::digests() const {
  const std::lock_guard guard(mutex_);
  std::vector<Sha256Digest> all;
  for (const auto& [digest, view] : views_) all.push_back(digest);
  return all;
}

std::vector<Sha256Digest> ViewCatalog::viewsOf(const ContentKey& key) const {
  const std::lock_guard guard(mutex_);
  std::vector<Sha256Digest> all;
  const auto [first, last] = byKey_.equal_range(key);
  for (auto at = first; at != last; ++at) all.push_back(at->second);
  return all;
}

void ViewCatalog::publish(const std::string& name, const Sha256Digest& digest) {
  const std::lock_guard guard(mutex_);
  published_.insert_or_assign(name, digest);
}

void ViewCatalog::unpublish(const std::string& name) {
  const std::lock_guard guard(mutex_);
  published_.erase(name);
}

void ViewCatalog::replacePublished(std::map<std::string, Sha256Digest> names) {
  const std::lock_guard guard(mutex_);
  published_ = std::move(names);
}

std::map<std::string, Sha256Digest> ViewCatalog::published() const {
  const std::lock_guard guard(mutex_);
  return published_;
}

std::optional<Sha256Digest> ViewCatalog::publishedAs(const std::string& name) const {
  const std::lock_guard guard(mutex_);
  const auto found = published_.find(name);
  if (found == published_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> ViewCatalog::publisher(const Sha256Digest& digest) const {
  for (const auto& [name, published] : published_) {
    if (published == digest) return name;
  }
  return std::nullopt;
}

std::optional<std::string> ViewCatalog::publisherOf(const Sha256Digest& digest) const {
  const std::lock_guard guard(mutex_);
  return publisher(digest);
}

bool ViewCatalog::publishes(const ContentKey& key) const {
  const std::lock_guard guard(mutex_);
  const auto [first, last] = byKey_.equal_range(key);
  for (auto at = first; at != last; ++at) {
    if (publisher(at->second)) return true;
  }
  return false;
}

}  // namespace hearth
