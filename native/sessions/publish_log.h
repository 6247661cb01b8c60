// Remembers across a kill of the agent which bytes the sessions of a volume have published last on
// this node, so that the next agent serves them to readers of other nodes until the session file is
// sealed: a log beside the session files.
//
// Layout, of the machine's byte order: magic u64, 16 bytes key of the hashes; then records: u32
// CRC32C of what follows, u32 count of chunks, u64 session, u64 length, u32 counter, u32 first
// chunk, and 16 bytes hash of each chunk. A record that is cut off ends the log. Calls block for
// the local disk; one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "namespace/ids.h"
#include "sessions/file_hash.h"

namespace hearth {

struct PublishRecord {
  tree::ContentVersion version;
  std::uint32_t first = 0;  // chunk
  std::uint64_t length = 0;
  std::vector<ChunkHash> chunks;
  [[nodiscard]] bool operator==(const PublishRecord&) const = default;
};

class PublishLog {
 public:
  // Reads the records of earlier agents, or begins a log with a key that is drawn for it.
  [[nodiscard]] static Result<std::unique_ptr<PublishLog>> open(const std::string& path);

  [[nodiscard]] const HashKey& key() const { return key_; }
  [[nodiscard]] const PublishRecord* find(const tree::ContentVersion& version) const;
  // True: `version` has no record, and had none when its session published it last. A log that was
  // begun anew cannot say so.
  [[nodiscard]] bool isUnread(const tree::ContentVersion& version) const;
  // In place of the session's last record. It survives this process, not the kernel.
  [[nodiscard]] Status add(PublishRecord record);
  // The session has no file any more.
  void drop(tree::SessionId session);

 private:
  explicit PublishLog(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] Status read();
  // The log with the records that were not dropped alone.
  [[nodiscard]] Status rewrite();

  const std::string path_;
  HashKey key_{};
  bool begun_ = false;  // anew, with its own key
  OwnedFd file_;
  std::uint64_t bytes_ = 0;
  std::uint64_t rewriteAt_ = 0;
  std::map<tree::SessionId, PublishRecord> records_;
};

}  // namespace hearth
