// Answers what clients ask about files of volumes (/volume/NAME/...): checks tokens, resolves
// paths, and opens published content. ClientWrites takes their bytes. Any thread; tasks continue on
// the reactor of the shard that they are given.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/shard.h"
#include "engine/volume_calls.h"
#include "wire/capability.h"
#include "wire/client_message.h"
#include "wire/object_message.h"

namespace hearth {

class ClientVolumes {
 public:
  // Contents that stay readable for a client that has resolved their path, and for how long: as
  // long as a request takes.
  static constexpr std::size_t kMaxContents = 16'384;
  static constexpr Clock::duration kContentStays = std::chrono::seconds(60);

  // Both must remain live while this object is used.
  ClientVolumes(EngineCommons& commons, VolumeCalls& volumes)
      : commons_(commons), volumes_(volumes) {}

  // kPermissionDenied for a volume that the token does not grant, whether there is one or not;
  // kNotFound; kUnavailable while the volume is being opened, and before this agent knows its
  // volumes.
  [[nodiscard]] Task<Result<ResolvedPath>> resolve(Shard& asking, const Capability& client,
                                                   std::string path);
  // Makes a file, and the folders above it, unless they are there.
  [[nodiscard]] Task<Status> create(Shard& asking, const Capability& client, std::string path);
  [[nodiscard]] Task<Status> remove(Shard& asking, const Capability& client, std::string path);
  // Begins to write a range, which ClientWrites answers for from then on.
  [[nodiscard]] Task<Result<ContentKey>> beginWrite(Shard& asking, const Capability& client,
                                                    WriteRange range);
  // Objects under keys (wire/object_message.h); in client_objects.cc. A put with its value inside
  // ends when the value is published, or is taken back when the interest ends.
  [[nodiscard]] Task<Result<PutReply>> put(Shard& asking, const Capability& client,
                                           PutRequest request, Interest interest);
  // kNotFound: the key has no value. The reply has none inside: the client may read it by its key.
  [[nodiscard]] Task<Result<GetReply>> get(Shard& asking, const Capability& client,
                                           ObjectName name);
  [[nodiscard]] Task<Result<KeysReply>> exist(Shard& asking, const Capability& client,
                                              KeysRequest request);
  // Says of each key whether this call has removed its value.
  [[nodiscard]] Task<Result<KeysReply>> removeKeys(Shard& asking, const Capability& client,
                                                   KeysRequest request);
  // Null: no volume of this agent has given it out.
  [[nodiscard]] std::shared_ptr<Volume> volumeOf(const ContentKey& ticket) const;
  // A content that was resolved here, of a volume that the client may read.
  [[nodiscard]] std::optional<FileReference> opened(const Capability& client,
                                                    const ContentKey& key);

 private:
  struct NamedPath {
    std::shared_ptr<Volume> volume;
    std::vector<std::string> names;
  };
  struct Content {
    ContentKey key;
    std::string volume;  // its name
    FileReference file;
    std::shared_ptr<MountSource::OpenFile> reading;
    Clock::time_point until;
  };

  // The volume of that name, on which the client has the right.
  [[nodiscard]] Result<std::shared_ptr<Volume>> granted(const Capability& client,
                                                        CapabilityRight right,
                                                        const std::string& name) const;
  [[nodiscard]] Result<NamedPath> find(const Capability& client, CapabilityRight right,
                                       std::string_view path) const;
  // On the volume's reactor, as all below.
  [[nodiscard]] Task<Result<ResolvedPath>> resolveHere(Volume& volume,
                                                       std::span<const std::string> names);
  [[nodiscard]] static Task<Status> createHere(Volume& volume, std::span<const std::string> names);
  [[nodiscard]] static Task<Status> removeHere(Volume& volume, std::span<const std::string> names);
  [[nodiscard]] Task<Result<GetReply>> getHere(Volume& volume, ObjectName name);
  [[nodiscard]] Task<Result<KeysReply>> askKeys(Shard& asking, const Capability& client,
                                                CapabilityRight right, KeysRequest request);
  // Keeps the file's content, which it has, readable for clients that know its key.
  void keep(const Volume& volume, PublishedVolumeFile file);

  EngineCommons& commons_;
  VolumeCalls& volumes_;
  std::mutex mutex_;
  std::list<Content> contents_;  // the one resolved last comes first
  std::unordered_map<ContentKey, std::list<Content>::iterator, ContentKeyHash> byKey_;
};

}  // namespace hearth
