// VolumeSessions: sealing the file of a session that nobody can write to any more (rule R3 of
// docs/design/namespace.md): its bytes are compared with what was published once more, the session
// ends, and the file goes into the content cache as it is.
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "directory/directory_client.h"
#include "sessions/turn.h"
#include "sessions/volume_sessions.h"

namespace hearth {
namespace {

// The kernel closes a program's file a moment after the RELEASE, and mappings may live on for long.
constexpr Clock::duration kFirstSealPause = std::chrono::milliseconds(1);
constexpr Clock::duration kLongestSealPause = std::chrono::seconds(1);

// Longer than a program takes from one request to the next, and than it takes to open a file.
constexpr Clock::duration kQuiet = std::chrono::microseconds(150);
constexpr Clock::duration kSealWithin = std::chrono::milliseconds(5);

ChunkMask maskOf(std::uint32_t chunks) {
  return chunks >= kChunksPerStripe ? ChunkMask{0xFFFF}
                                    : static_cast<ChunkMask>((1u << chunks) - 1);
}

}  // namespace

void VolumeSessions::beginSealing(const FilePtr& file) {
  if (std::exchange(file->session->sealing, true)) return;
  running_.spawn(seal(file));
}

// A program that has closed a file renames it, and opens the next. Reading the file for its
// checksums meanwhile would take the core that answers; the program's next writes need no answer.
Task<void> VolumeSessions::awaitQuiet() {
  const Clock::time_point until = Clock::now() + kSealWithin;
  for (;;) {
    const Clock::time_point now = Clock::now();
    const Clock::time_point quiet = std::min(lastAsked_ + kQuiet, until);
    if (now >= quiet || co_await closing_.waitUntil(quiet)) co_return;
  }
}

Task<void> VolumeSessions::seal(FilePtr file) {
  co_await awaitQuiet();
  for (Clock::duration pause = kFirstSealPause;; pause = std::min(2 * pause, kLongestSealPause)) {
    {
      const Turn turn = co_await turnOf(file->inode);
      if (turn.file() != file || !file->session) co_return;
      if (file->session->writers != 0) {
        file->session->sealing = false;
        co_return;
      }
      if (co_await trySeal(*file)) co_return;
    }
    if (co_await closing_.waitUntil(Clock::now() + pause)) co_return;
  }
}

Task<bool> VolumeSessions::trySeal(WrittenFile& file) {
  WriteSession& session = *file.session;
  if (!session.over && !session.ended) {
    const Status ended = co_await endSession(file);
    if (!ended.ok() && !session.over) {
      if (ended.code() != ErrorCode::kConflict) report(session, ended.error().message);
      co_return false;
    }
    session.ended = true;
    ++endings_;
  }
  const Status settled = co_await settle(file);
  if (!settled.ok()) report(session, settled.error().message);
  co_return settled.ok();
}

Task<Status> VolumeSessions::settle(WrittenFile& file) {
  const WriteSession& session = *file.session;
  const bool keeps =
      !session.over && !session.unnamed && session.published && session.published->length != 0;
  if (keeps) {
    const PublishedContent& content = *session.published;
    const bool synced = session.synced && *session.synced == content.mark;
    const SealedName name{content.session, content.first, content.key, synced};
    const std::string sealed = pathOf(name, session.directory);
    auto move = [from = session.path, sealed] {
      // After an adoption that failed it was moved already.
      return ::access(sealed.c_str(), F_OK) == 0 ? Status() : renameFile(from, sealed);
    };
    Status done = co_await ports_.reactor.offload(move);
    if (done.ok()) {
      done =
          co_await takeIn({name, session.directory}, content.length, content.hash->blockChecksums);
    }
    if (!done.ok()) co_return done;
  } else {
    auto remove = [path = session.path] { return ::unlink(path.c_str()) == 0 ? 0 : errno; };
    (void)co_await ports_.reactor.offload(remove);
  }
  if (session.published) {
    ports_.published.remove(session.published->key);
    co_await publishesTurn_.acquire(1);
    if (publishes_ != nullptr) publishes_->drop(session.published->session);
    publishesTurn_.release(1);
  }
  file.session.reset();
  co_return Status();
}

Task<Status> VolumeSessions::endSession(WrittenFile& file) {
  WriteSession& session = *file.session;
  // Nobody has bytes of it, so the ones that are read now are its own.
  const bool unread = !session.published || !session.published->hash;
  std::optional<Prepared> last;
  // The reading of unread content looks for writers itself.
  if (!unread || !session.published || session.unnamed) {
    const Status free =
        co_await ports_.reactor.offload([&session] { return noWriterLeft(session.file.get()); });
    if (!free.ok()) co_return free;
  }
  const Result<FileMark> mark = markOf(session.file.get());
  if (!mark.ok()) co_return mark.error();
  if (!session.unnamed && (session.published || session.changed(*mark))) {
    Result<Prepared> prepared = co_await (unread ? prepareLast(file) : prepare(file));
    if (!prepared.ok()) co_return prepared.error();
    const bool same = session.published && (unread ? prepared->mark == session.published->mark
                                                   : prepared->hash == session.published->hash);
    if (unread && same) session.published->hash = std::move(prepared->hash);
    if (!same) last = std::move(*prepared);
    if (last && !unread) (void)co_await notePublish(last->change.content, *last->hash);
  }
  const std::int32_t error = co_await endAtLeader(file, std::move(last));
  co_return error == 0 ? Status() : errnoError(error, "ending the session of " + session.path);
}

Task<std::int32_t> VolumeSessions::endAtLeader(WrittenFile& file, std::optional<Prepared> last) {
  WriteSession& session = *file.session;
  tree::ClientChange change = tree::EndSession{file.inode, session.id, session.usedChunks};
  if (last) {
    last->change.ends = true;
    change = last->change;
  }
  const ChangeReply reply = co_await ports_.client.change(std::move(change));
  if (reply.answer.error == 0 && last) published(session, std::move(*last), reply.answer);
  // The file is gone everywhere.
  if (reply.answer.error == ESTALE) session.unnamed = true;
  // Published content stays when another agent has taken the session.
  const bool lost = reply.answer.refusal == tree::Refusal::kSessionOver && !last;
  if (reply.answer.error != 0 && !lost) noteRefused(session, reply.answer);
  co_return reply.answer.error == ESTALE || lost ? 0 : reply.answer.error;
}

Task<Status> VolumeSessions::takeIn(SealedFile sealed, std::uint64_t size,
                                    std::vector<std::uint32_t> blockChecksums) {
  const ContentKey key = sealed.name.key;
  FileToAdopt file{.key = key,
                   .size = size,
                   .path = pathOf(sealed.name, sealed.directory),
                   .directory = sealed.directory,
                   .blockChecksums = std::move(blockChecksums)};
  // Before it is there: datasets must not evict the only copy.
  ports_.mounting.cache.pin(key, owner_);
  sealed_.insert_or_assign(sealed.name.session, sealed);
  const WarmShard& owner = ports_.mounting.warming.owner(key);
  co_await owner.reactor.enter();
  ContentCache& cache = ports_.mounting.cache;
  auto adopted = co_await cache.adopt(file);
  if (adopted.code() == ErrorCode::kAlreadyExists) {
    // Readers of a dataset on this node have brought a copy from another one.
    cache.unpin(key, owner_);
    (void)co_await cache.evict(key);
    cache.pin(key, owner_);
    adopted = co_await cache.adopt(std::move(file));
  }
  Status done;
  if (!adopted.ok()) done = adopted.error();
  for (std::uint32_t chunk = 0; done.ok() && chunk < chunksIn(size); chunk += kChunksPerStripe) {
    owner.directory.have(key, size, chunk / kChunksPerStripe, maskOf(chunksIn(size) - chunk));
  }
  co_await ports_.reactor.enter();
  co_return done;
}

void VolumeSessions::report(WriteSession& session, std::string problem) const {
  if (session.problem == problem) return;
  log(ports_.mounting.events, EngineEvent::Level::kWarn,
      "a file of a volume waits to be sealed: " + problem,
      {{"volume", options_.name}, {"file", session.path}});
  session.problem = std::move(problem);
}

}  // namespace hearth
