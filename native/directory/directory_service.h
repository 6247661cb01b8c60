// The directories of those keys for which this agent is the directory, on one shard. A directory
// that this agent does not have yet is made by asking every ready agent for its part first: so a
// new directory grants nothing that an older one has granted.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "directory/directory_message.h"
#include "directory/directory_ports.h"

namespace hearth {

class DirectoryService {
 public:
  // What `ports` refers to must remain live while this object is used.
  explicit DirectoryService(DirectoryPorts ports);
  ~DirectoryService();

  // `node` asks (or we ourselves). Waits while the directory of the key is being made.
  [[nodiscard]] Task<LocateAnswer> locate(std::string node, DirectoryRequest request);
  // Ignored for a key whose directory is not here: whoever makes it will ask.
  void apply(const std::string& node, const DirectoryUpdate& update);
  // An agent left or was restarted.
  void gone(const std::string& node);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry;

  Task<void> build(std::shared_ptr<Entry> entry, DirectoryRequest request);
  Task<void> askOne(std::string node, DirectoryRequest request, std::shared_ptr<Entry> entry);
  // Of whom others say that it does not give what it holds: whether it does hold it.
  Task<void> askSuspect(std::string node, DirectoryRequest request, std::shared_ptr<Entry> entry);
  // The part that an agent has in the key; nothing when it does not answer.
  Task<std::optional<AgentReport>> partOf(std::string node, DirectoryRequest request);
  void forgetIdle();

  DirectoryPorts ports_;
  std::unordered_map<ContentKey, std::shared_ptr<Entry>, ContentKeyHash> entries_;
  Clock::time_point nextSweep_;
};

}  // namespace hearth
