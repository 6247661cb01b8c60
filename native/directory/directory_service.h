// The directories of those keys for which this agent is the directory, on one shard. Before making
// a directory, the service asks every ready agent for its part of it, so a new directory grants
// nothing that an older one has granted.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "directory/directory_message.h"
#include "directory/directory_ports.h"

namespace hearth {

class DirectoryService {
 public:
  // The objects in `ports` must outlive this one.
  explicit DirectoryService(DirectoryPorts ports);
  ~DirectoryService();

  // `node` asks (or we ourselves). Waits while the directory of the key is being made.
  [[nodiscard]] Task<LocateAnswer> locate(std::string node, DirectoryRequest request);
  // Ignored for a key whose directory is not here: whoever makes it will ask.
  void apply(const std::string& node, const DirectoryUpdate& update);
  // An agent left or was restarted.
  void gone(const std::string& node);

  struct Holders {
    std::vector<std::string> nodes;
    bool complete = false;  // the directory of the key is made: all that are ready were asked
  };
  // Agents of the cluster other than `node` that hold some of the key, as far as is known:
  // KeyDirectory::holders. Waits while the directory of the key is being made, but not beyond
  // `until`; it is made all the same, for who asks next.
  [[nodiscard]] Task<Holders> holders(DirectoryRequest request, std::string node, std::size_t count,
                                      Clock::time_point until);
  // The answer of `node` about itself to a question asked at `asked`.
  void correct(const ContentKey& key, const std::string& node, const AgentReport& report,
               Clock::time_point asked);
  // The part that an agent has in the key, which may be this one; nothing when it does not answer.
  [[nodiscard]] Task<std::optional<AgentReport>> partOf(std::string node, DirectoryRequest request,
                                                        RequestTimeouts timeouts);

  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry;

  // Of the key, which is made when there is none.
  [[nodiscard]] Task<std::shared_ptr<Entry>> entryOf(DirectoryRequest request);
  Task<void> build(std::shared_ptr<Entry> entry, DirectoryRequest request);
  Task<void> askOne(std::string node, DirectoryRequest request, std::shared_ptr<Entry> entry);
  // Of whom others say that it does not give what it holds: whether it does hold it.
  Task<void> askSuspect(std::string node, DirectoryRequest request, std::shared_ptr<Entry> entry);
  void forgetIdle();

  DirectoryPorts ports_;
  std::unordered_map<ContentKey, std::shared_ptr<Entry>, ContentKeyHash> entries_;
  Clock::time_point nextSweep_;
};

}  // namespace hearth
