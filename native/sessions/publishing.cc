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

// The kernel releases a file right after its close, and then it is sealed.
constexpr Clock::duration kReadWithin = std::chrono::milliseconds(5);

}  // namespace

Task<std::int32_t> VolumeSessions::publish(tree::InodeId inode) {
  if (written(inode) == nullptr) co_return 0;
  const Turn turn = co_await turnOf(inode);
  co_return turn.session() ? co_await publishHeld(*turn.file()) : 0;
}

Task<Result<VolumeSessions::Prepared>> VolumeSessions::describe(const WrittenFile& file,
                                                                FileMark mark) {
  const WriteSession& session = *file.session;
  const tree::AgentId self = co_await ports_.client.self();
  if (self == tree::kNoAgent)
    co_return Error{ErrorCode::kDeadlineExceeded, "no leader of the volume answers"};
  Prepared prepared{.change = {}, .mark = mark, .hash = {}};
  tree::Publish& change = prepared.change;
  change.inode = file.inode;
  change.session = session.id;
  change.base = session.base;
  change.content.version = {session.id, session.publishes + 1};
  change.content.length = mark.size;
  const std::uint32_t chunks = chunksIn(mark.size);
  if (chunks != 0) change.content.runs = {{session.id, session.usedChunks, chunks, self}};
  change.usedChunks = session.usedChunks + chunks;
  change.modifiedNs = session.isUntouched(mark) ? session.spare->createdNs : mark.modifiedNs;
  co_return std::move(prepared);
}

Task<Result<VolumeSessions::Prepared>> VolumeSessions::prepare(WrittenFile& file) {
  const int descriptor = file.session->file.get();
  FileMark mark;
  Result<FileHash> hash = Error{ErrorCode::kConflict, ""};
  for (int i = 0; i < kReadings && hash.code() == ErrorCode::kConflict; ++i) {
    const Result<FileMark> now = markOf(descriptor);
    if (!now.ok()) co_return now.error();
    mark = *now;
    hash = co_await hasher_.hash(ports_.reactor, descriptor, mark.size, &file.progress);
  }
  if (!hash.ok()) co_return hash.error();
  Result<Prepared> prepared = co_await describe(file, mark);
  if (prepared.ok()) prepared->hash = std::move(*hash);
  co_return prepared;
}

Task<Result<VolumeSessions::Prepared>> VolumeSessions::prepareLast(const WrittenFile& file) {
  const int descriptor = file.session->file.get();
  FileMark mark;
  const auto begin = [&]() -> Result<std::uint64_t> {
    if (const Status free = noWriterLeft(descriptor); !free.ok()) return free.error();
    const Result<FileMark> now = markOf(descriptor);
    if (!now.ok()) return now.error();
    mark = *now;
    return mark.size;
  };
  Result<FileHash> sums = co_await hasher_.checksums(ports_.reactor, descriptor, begin);
  if (!sums.ok()) co_return sums.error();
  Result<Prepared> prepared = co_await describe(file, mark);
  if (prepared.ok()) prepared->hash = std::move(*sums);
  co_return prepared;
}

Task<bool> VolumeSessions::notePublish(const tree::Content& content, const FileHash& hash) {
  if (hash.chunks.empty()) co_return true;
  if (publishes_ == nullptr) co_return false;
  PublishRecord record{.version = content.version,
                       .first = content.runs.front().first,
                       .length = hash.length,
                       .chunks = hash.chunks};
  co_await publishesTurn_.acquire(1);
  auto add = [&] { return publishes_->add(std::move(record)); };
  const Status added = co_await ports_.reactor.offload(add);
  publishesTurn_.release(1);
  if (added.ok()) co_return true;
  log(ports_.mounting.events, EngineEvent::Level::kWarn,
      "readers of other nodes may lose a file if this agent is killed now: " +
          added.error().message,
      {{"volume", options_.name}});
  co_return false;
}

void VolumeSessions::servePublished(const WriteSession& session) {
  if (!session.published->hash) return;
  const FileHash& hash = *session.published->hash;
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
  const std::uint64_t length = prepared.change.content.length;
  const ContentKey key = keyOfRun(session.id, first, length);
  session.published =
      PublishedContent{prepared.mark, length, std::move(prepared.hash), session.id, first, key};
  servePublished(session);
}

Task<void> VolumeSessions::readContent(WrittenFile& file) {
  WriteSession& session = *file.session;
  if (!session.published || session.published->hash || session.over) co_return;
  PublishedContent& content = *session.published;
  Result<FileHash> hash =
      co_await hasher_.hash(ports_.reactor, session.file.get(), content.length, &file.progress);
  // A file that was cut meanwhile is published anew.
  if (!hash.ok()) co_return;
  const tree::Content named{
      .version = session.base,
      .length = content.length,
      .runs = {{content.session, content.first, chunksIn(content.length), tree::kNoAgent}}};
  // Without the note the next agent would take other bytes for these.
  if (!co_await notePublish(named, *hash)) co_return;
  content.hash = std::move(*hash);
  servePublished(session);
}

Task<void> VolumeSessions::readContentSoon(FilePtr file, tree::ContentVersion version) {
  const auto waits = [&] {
    const auto& session = file->session;
    return session && session->base == version && session->published && !session->published->hash;
  };
  if (co_await closing_.waitUntil(Clock::now() + kReadWithin) || !waits()) co_return;
  const Turn turn = co_await turnOf(file->inode);
  if (turn.file() == file && waits()) co_await readContent(*file);
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
  // While nobody else can write to the file, it is read when it is sealed. Its bytes are the
  // content's whenever they are read first, for no reader gets one before.
  const bool readLater = session.writers == 1;
  Result<Prepared> prepared = readLater ? co_await describe(file, *mark) : co_await prepare(file);
  if (!prepared.ok()) co_return prepared.code() == ErrorCode::kDeadlineExceeded ? ETIMEDOUT : EIO;
  if (prepared->hash && !co_await notePublish(prepared->change.content, *prepared->hash))
    prepared->hash.reset();
  const ChangeReply reply = co_await ports_.client.change(prepared->change);
  if (reply.answer.error == 0) {
    published(session, std::move(*prepared), reply.answer);
    const bool unread = session.published && !session.published->hash;
    if (unread) running_.spawn(readContentSoon(files_.at(file.inode), session.base));
  } else {
    noteRefused(session, reply.answer);
  }
  co_return reply.answer.error;
}

}  // namespace hearth
