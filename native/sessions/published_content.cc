// VolumeSessions: what was published of a file, for readers that come by its key.
#include <cerrno>

#include "sessions/turn.h"
#include "sessions/volume_sessions.h"

namespace hearth {

Task<PublishedVolumeFile> VolumeSessions::openPublished(tree::InodeId inode) {
  std::optional<Turn> turn;
  if (files_.contains(inode)) turn.emplace(co_await turnOf(inode));
  PublishedVolumeFile file;
  // The leader asks only agents that have joined what they read.
  const bool joined = co_await ports_.client.self() != tree::kNoAgent;
  if (!joined && !closing_.isSet()) {
    file.error = ETIMEDOUT;
    co_return file;
  }
  // The chunks that the leader answers with may be garbage by the time the answer is here.
  const auto opening = opening_.insert(inode);
  file = co_await openPublishedOf(turn, inode);
  opening_.erase(opening);
  co_return file;
}

Task<PublishedVolumeFile> VolumeSessions::openPublishedOf(std::optional<Turn>& turn,
                                                          tree::InodeId inode) {
  PublishedVolumeFile file;
  const QueryReply reply = co_await ports_.client.query(OpenQuery{inode, std::nullopt});
  file.error = reply.attributes || reply.error != 0 ? reply.error : ESTALE;
  if (file.error != 0) co_return file;
  file.attributes = *reply.attributes;
  if (!reply.content || reply.content->length == 0) co_return file;
  const auto run = soleRun(*reply.content);
  const Result<FileReference> content =
      run ? co_await referenceTo(*run, reply.content->length)
          : Error{ErrorCode::kUnsupported, "the content is not one run of chunks"};
  if (!content.ok()) {
    file.error = EIO;
    co_return file;
  }
  file.content = *content;
  const bool isWritten = turn && turn->session() && turn->session()->published &&
                         turn->session()->published->key == content->about.key;
  if (isWritten) {
    co_await readContent(*turn->file());
  } else {
    file.reading = co_await openReader(inode, run->session, *content);
    if (file.reading == nullptr) file.error = EIO;
  }
  co_return file;
}

}  // namespace hearth
