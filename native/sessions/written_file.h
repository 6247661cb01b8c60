// A file of a volume that this node writes, or is about to: its turn and its session. On the
// volume's reactor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/content_key.h"
#include "base/owned_fd.h"
#include "namespace/namespace.h"
#include "reactor/synchronization.h"
#include "sessions/file_hash.h"
#include "sessions/session_files.h"

namespace hearth {

// The content that a session has published last.
struct PublishedContent {
  FileMark mark;             // of the session file, before it was read
  std::uint64_t length = 0;  // of the content, in bytes
  // Nothing until the session file was read: no byte has left this node.
  std::optional<FileHash> hash;
  tree::SessionId session = tree::kNoSession;  // that published it
  std::uint32_t first = 0;                     // of its chunks
  ContentKey key;                              // nothing of an empty file has this key
};

struct WriteSession {
  tree::SessionId id = tree::kNoSession;
  tree::ContentVersion base;  // the next publish replaces this content
  std::size_t directory = 0;  // cache directory, by its number
  std::string path;
  OwnedFd file;  // for reading alone
  // Its file was made before the session was.
  struct Spare {
    bool named = false;  // as session files are
    FileMark mark;
    std::int64_t createdNs = 0;  // of the name in the volume
  };
  std::optional<Spare> spare;
  std::uint32_t writers = 0;
  std::uint32_t publishes = 0;
  std::uint32_t usedChunks = 0;
  // The session file as it holds `base`; nothing: what it holds was never published.
  std::optional<FileMark> unchanged;
  std::optional<PublishedContent> published;
  std::optional<FileMark> synced;  // what fsync(2) has made durable last
  bool sealing = false;            // a coroutine tries to seal it
  bool ended = false;              // at the leader, and the sealed file is not in the cache yet
  // The leader refused a publish (R2): nobody but open handles sees the file any more.
  bool over = false;
  bool unnamed = false;  // the last publish found the file without a name
  std::string problem;   // that was logged last

  [[nodiscard]] bool needsName() const { return spare && !spare->named; }
  // The file's times are its spare's, and so older than its name.
  [[nodiscard]] bool isUntouched(const FileMark& now) const {
    return spare && now.size == 0 && now.modifiedNs == spare->mark.modifiedNs;
  }
  [[nodiscard]] bool changed(const FileMark& now) const {
    return unchanged ? now != *unchanged : !published || now != published->mark;
  }
};

struct WrittenFile {
  WrittenFile(Reactor& reactor, tree::InodeId id) : inode(id), turn(reactor, 1) {}
  const tree::InodeId inode;
  Semaphore turn;  // one change of the session at a time, questions to the leader included
  std::optional<WriteSession> session;
  Progress progress;
  std::uint32_t holders = 0;  // that have the turn or wait for it
};

}  // namespace hearth
