// The objects of one volume: values under keys (wire/object_message.h), as files of the folder
// `.kv`. The folder of a key space has a file for each key that has a value, and nothing else: a
// value is written under a name of its own, in a folder of this node, and gets the name of its key
// in the record that publishes it. On the volume's reactor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/client_writes.h"
#include "sessions/volume_sessions.h"
#include "wire/object_message.h"

namespace hearth {

class VolumeObjects {
 public:
  // All outlive this object. `node`: this agent's.
  VolumeObjects(Reactor& reactor, VolumeSessions& sessions, ClientWrites& writes, std::string node)
      : sessions_(sessions), writes_(writes), node_(std::move(node)), preparing_(reactor, 1) {}

  // A ticket for the bytes of a new value, which ClientWrites answers for from then on; nothing:
  // the key has a value. Errors as of ClientWrites::begin().
  [[nodiscard]] Task<Result<std::optional<ContentKey>>> begin(ClientIdentity client,
                                                              ObjectName name,
                                                              std::uint64_t length);
  // The file of the key's value; kNotFound.
  [[nodiscard]] Task<Result<tree::InodeId>> find(ObjectName name);
  // Says of each key if it has a value: one question to the leader, beside those for the folder.
  [[nodiscard]] Task<Result<std::vector<bool>>> exist(KeysRequest request);
  // Removes values. Says of each key whether it had one.
  [[nodiscard]] Task<Result<std::vector<bool>>> remove(KeysRequest request);

 private:
  using Names = std::vector<std::string>;
  struct Folder {
    tree::InodeId inode = tree::kNoInode;
    Clock::time_point until;
  };
  // Known for a moment, as other folders are (rule R9 of docs/design/namespace.md).
  static constexpr Clock::duration kFolderStays = std::chrono::seconds(1);
  static constexpr std::size_t kMaxFolders = 1024;

  // The folder below `.kv`; kNotFound. `makes` it where it is not there.
  [[nodiscard]] Task<Result<tree::InodeId>> folder(Names below, bool makes);
  // The folder in which this node writes values. The first call removes those that an earlier agent
  // of this node has not finished.
  [[nodiscard]] Task<Result<tree::InodeId>> writingFolder();
  [[nodiscard]] Task<Status> removeLeft(tree::InodeId folder);

  VolumeSessions& sessions_;
  ClientWrites& writes_;
  const std::string node_;
  std::map<Names, Folder> folders_;
  Semaphore preparing_;
  bool prepared_ = false;
};

}  // namespace hearth
