// The datasets that clients name in paths (/dataset/NAME/...), and the files that they have
// resolved here. A client reads by content key: the agent has to know a file with those bytes, and
// its dataset, to fetch missing bytes and to refuse what the client's token does not grant. Any
// thread.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "dataset/dataset.h"
#include "wire/capability.h"

namespace hearth {

// The entry to which a client's path leads.
struct NamedEntry {
  std::string dataset;  // its name
  std::shared_ptr<Dataset> revision;
  std::uint32_t entry = 0;
};

class ClientDatasets {
 public:
  // Files that stay known; a client resolves forgotten ones again.
  static constexpr std::size_t kMostOpened = 65'536;

  // Replaces all names. Files of datasets that have no name any more can no longer be read.
  // `awaited`: names that this agent cannot serve yet, since it lacks their manifests.
  void name(std::map<std::string, std::shared_ptr<Dataset>> datasets,
            std::set<std::string> awaited = {});
  // kPermissionDenied for a dataset that the token does not grant, whether it exists or not;
  // kNotFound; kInvalidArgument for a path of no dataset; kUnavailable for awaited names, and for
  // all names before name() was called, as after a restart: clients ask again.
  [[nodiscard]] Result<NamedEntry> resolve(const Capability& client, CapabilityRight right,
                                           std::string_view path) const;
  // The same without a token, for other agents.
  [[nodiscard]] Result<NamedEntry> find(std::string_view path) const;
  // Makes a file readable by its key, for clients of its dataset.
  void open(const NamedEntry& file);
  // A file with that key that the client may read.
  [[nodiscard]] std::optional<FileReference> opened(const Capability& client,
                                                    const ContentKey& key);

 private:
  struct Opened {
    ContentKey key;
    std::map<std::string, FileReference> files;  // by the dataset's name
  };

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Dataset>> named_;
  std::set<std::string> awaited_;
  bool isTold_ = false;       // name() was called
  std::list<Opened> opened_;  // the file used last comes first
  std::unordered_map<ContentKey, std::list<Opened>::iterator, ContentKeyHash> byKey_;
};

}  // namespace hearth
