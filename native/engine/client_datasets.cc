#include "engine/client_datasets.h"

namespace hearth {
namespace {

constexpr std::string_view kRoot = "/dataset/";

// A client's path, taken apart.
struct NamedPath {
  std::string_view dataset, below;
};
Result<NamedPath> namedPath(std::string_view path) {
  if (!path.starts_with(kRoot))
    return Error{ErrorCode::kInvalidArgument, "the path does not begin with /dataset/"};
  const std::string_view rest = path.substr(kRoot.size());
  const std::size_t slash = rest.find('/');
  NamedPath named{rest.substr(0, slash), {}};
  if (slash != std::string_view::npos) named.below = rest.substr(slash + 1);
  while (named.below.ends_with('/')) named.below.remove_suffix(1);
  return named;
}

}  // namespace

void ClientDatasets::name(std::map<std::string, std::shared_ptr<Dataset>> datasets,
                          std::set<std::string> awaited) {
  const std::lock_guard lock(mutex_);
  named_ = std::move(datasets);
  awaited_ = std::move(awaited);
  isTold_ = true;
  for (auto at = opened_.begin(); at != opened_.end();) {
    std::erase_if(at->files, [&](const auto& file) { return !named_.contains(file.first); });
    if (!at->files.empty()) {
      ++at;
      continue;
    }
    byKey_.erase(at->key);
    at = opened_.erase(at);
  }
}

Result<NamedEntry> ClientDatasets::resolve(const Capability& client, CapabilityRight right,
                                           std::string_view path) const {
  const Result<NamedPath> named = namedPath(path);
  if (!named.ok()) return named.error();
  if (!client.grants(right, named->dataset))
    return Error{ErrorCode::kPermissionDenied, "the token does not grant that on this dataset"};
  return find(path);
}

Result<NamedEntry> ClientDatasets::find(std::string_view path) const {
  const Result<NamedPath> named = namedPath(path);
  if (!named.ok()) return named.error();
  NamedEntry found;
  found.dataset = named->dataset;
  {
    const std::lock_guard lock(mutex_);
    if (!isTold_)
      return Error{ErrorCode::kUnavailable, "this agent does not know its datasets yet"};
    const auto known = named_.find(found.dataset);
    if (known == named_.end()) {
      if (awaited_.contains(found.dataset))
        return Error{ErrorCode::kUnavailable, "this agent does not have the list of its files yet"};
      return Error{ErrorCode::kNotFound, "no dataset is named " + found.dataset};
    }
    found.revision = known->second;
  }
  const std::optional<std::uint32_t> entry = found.revision->manifest->lookUp(named->below);
  if (!entry) return Error{ErrorCode::kNotFound, "the dataset has no such path"};
  found.entry = *entry;
  return found;
}

void ClientDatasets::open(const NamedEntry& file) {
  FileReference reference = FileReference::of(file.revision, file.entry);
  const ContentKey key = reference.about.key;
  const std::lock_guard lock(mutex_);
  auto [known, added] = byKey_.try_emplace(key, opened_.end());
  if (added) {
    opened_.push_front({key, {}});
    known->second = opened_.begin();
  } else {
    opened_.splice(opened_.begin(), opened_, known->second);
  }
  opened_.front().files.insert_or_assign(file.dataset, std::move(reference));
  if (opened_.size() <= kMostOpened) return;
  byKey_.erase(opened_.back().key);
  opened_.pop_back();
}

std::optional<FileReference> ClientDatasets::opened(const Capability& client,
                                                    const ContentKey& key) {
  const std::lock_guard lock(mutex_);
  const auto known = byKey_.find(key);
  if (known == byKey_.end()) return std::nullopt;
  opened_.splice(opened_.begin(), opened_, known->second);
  for (const auto& [dataset, file] : opened_.front().files) {
    if (client.grants(CapabilityRight::kRead, dataset)) return file;
  }
  return std::nullopt;
}

}  // namespace hearth
