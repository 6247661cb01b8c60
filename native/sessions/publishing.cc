// VolumeSessions: publishing what a session has written (rules R2 and R3 of
// docs/design/namespace.md).
#include <fcntl.h>

#include <cerrno>

#include "sessions/turn.h"
#include "sessions/volume_sessions.h"

namespace hearth {
namespace {

// A program that cuts the file while it is read would have it read again and again.
constexpr int kReadings = 5;

}  // namespace

Task<std::int32_t> VolumeSessions::publish(tree::InodeId inode) {
  if (written(inode) == nullptr) co_return 0;
  const Turn turn = co_await turnOf(inode);
  co_return turn.session() ? co_await publishHeld(*turn.file()) : 0;
}

Task<Result<VolumeSessions::Prepared>> VolumeSessions::prepare(const WrittenFile& file) {
  const WriteSession& session = *file.session;
  const tree::AgentId self = co_await ports_.client.self();
  if (self == tree::kNoAgent)
    co_return Error{ErrorCode::kDeadlineExceeded, "no leader of the volume answers"};
  FileMark mark;
  Result<FileHash> hash = Error{ErrorCode::kConflict, ""};
  for (int i = 0; i < kReadings && hash.code() == ErrorCode::kConflict; ++i) {
    const Result<FileMark> now = markOf(session.file.get());
    if (!now.ok()) co_return now.error();
    mark = *now;
    hash = co_await hasher_.hash(ports_.reactor, session.file.get(), mark.size);
  }
  if (!hash.ok()) co_return hash.error();
  Prepared prepared{.mark = mark, .hash = std::move(*hash)};
  tree::Publish& change = prepared.change;
  change.inode = file.inode;
  change.session = session.id;
  change.base = session.base;
  change.content.version = {session.id, session.publishes + 1};
  change.content.length = mark.size;
  const std::uint32_t chunks = chunksIn(mark.size);
  if (chunks != 0) change.content.runs = {{session.id, session.usedChunks, chunks, self}};
  change.usedChunks = session.usedChunks + chunks;
  change.modifiedNs = mark.modifiedNs;
  co_return std::move(prepared);
}

Task<void> VolumeSessions::notePublish(const Prepared& prepared) {
  const tree::Publish& change = prepared.change;
  PublishRecord record{.version = change.content.version,
                       .length = prepared.hash.length,
                       .chunks = prepared.hash.chunks};
  if (!change.content.runs.empty()) record.first = change.content.runs.front().first;
  if (publishes_ == nullptr || record.chunks.empty()) co_return;
  co_await publishesTurn_.acquire(1);
  auto add = [&] { return publishes_->add(std::move(record)); };
  const Status added = co_await ports_.reactor.offload(add);
  publishesTurn_.release(1);
  if (added.ok()) co_return;
  log(ports_.mounting.events, EngineEvent::Level::kWarn,
      "readers of other nodes may lose a file if this agent is killed now: " +
          added.error().message,
      {{"volume", options_.name}});
}

void VolumeSessions::servePublished(const WriteSession& session) {
  const FileHash& hash = session.published->hash;
  OwnedFd file(::fcntl(session.file.get(), F_DUPFD_CLOEXEC, 0));
  if (hash.length == 0 || !file) return;
  ports_.published.add(session.published->key,
                       std::make_shared<const PublishedFile>(
                           PublishedFile{std::move(file), hash.length, hash.blockChecksums}));
}

void VolumeSessions::published(WriteSession& session, Prepared prepared,
                               const tree::Answer& answer) {
  if (answer.content != prepared.change.content.version) {
    session.unnamed = true;
    session.unchanged = prepared.mark;
    return;
  }
  if (session.published) ports_.published.remove(session.published->key);
  const std::uint32_t first = session.usedChunks;
  session.base = answer.content;
  session.publishes = answer.content.counter;
  session.usedChunks = prepared.change.usedChunks;
  session.unchanged.reset();
  const ContentKey key = keyOfRun(session.id, first, prepared.hash.length);
  session.published =
      PublishedContent{prepared.mark, std::move(prepared.hash), session.id, first, key};
  servePublished(session);
}

void VolumeSessions::noteRefused(WriteSession& session, const tree::Answer& answer) const {
  const bool over = answer.refusal == tree::Refusal::kSessionOver ||
                    answer.refusal == tree::Refusal::kOtherVersion;
  if (!over || session.over) return;
  session.over = true;
  log(ports_.mounting.events, EngineEvent::Level::kWarn,
      "what this node wrote into a file of a volume is lost: another node has the file now",
      {{"volume", options_.name}, {"file", session.path}});
}

Task<std::int32_t> VolumeSessions::publishHeld(WrittenFile& file) {
  WriteSession& session = *file.session;
  if (session.over) co_return EIO;
  if (session.ended) co_return 0;
  const Result<FileMark> mark = markOf(session.file.get());
  if (!mark.ok()) co_return EIO;
  // A shell's `>` flushes an empty file before anything writes to it.
  const bool begins = !session.published && mark->size == 0 && session.writers != 0;
  if (begins || !session.changed(*mark)) co_return 0;
  Result<Prepared> prepared = co_await prepare(file);
  if (!prepared.ok()) co_return prepared.code() == ErrorCode::kDeadlineExceeded ? ETIMEDOUT : EIO;
  co_await notePublish(*prepared);
  const ChangeReply reply = co_await ports_.client.change(prepared->change);
  if (reply.answer.error == 0) {
    published(session, std::move(*prepared), reply.answer);
  } else {
    noteRefused(session, reply.answer);
  }
  co_return reply.answer.error;
}

}  // namespace hearth
