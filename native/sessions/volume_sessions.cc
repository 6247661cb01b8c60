#include "sessions/volume_sessions.h"

#include <fcntl.h>

#include <cerrno>

#include "sessions/turn.h"

namespace hearth {

VolumeSessions::VolumeSessions(Ports ports, SessionOptions options)
    : ports_(ports),
      options_(std::move(options)),
      deadline_(options_.deadline),
      owner_("volume:" + options_.id),
      publishesTurn_(ports.reactor, 1),
      closing_(ports.reactor),
      running_(ports.reactor) {
  for (const std::string& directory : options_.cacheDirectories) {
    spares_.push_back(
        std::make_unique<SpareFiles>(ports_.reactor, volumeFolder(directory, options_.id)));
  }
}

VolumeSessions::~VolumeSessions() = default;

Task<void> VolumeSessions::close() {
  stop();
  co_await running_.close();
  for (const auto& spares : spares_) co_await spares->close();
  for (const auto& [inode, file] : files_) {
    if (file->session && file->session->published)
      ports_.published.remove(file->session->published->key);
  }
}

Task<VolumeSessions::Turn> VolumeSessions::turnOf(tree::InodeId inode) {
  FilePtr& known = files_[inode];
  if (known == nullptr) known = std::make_shared<WrittenFile>(ports_.reactor, inode);
  const FilePtr file = known;
  ++file->holders;
  co_await file->turn.acquire(1);
  co_return Turn(*this, file);
}

VolumeSessions::FilePtr VolumeSessions::written(tree::InodeId inode) const {
  const auto found = files_.find(inode);
  return found != files_.end() && found->second->session ? found->second : nullptr;
}

Clock::time_point VolumeSessions::lastProgress(tree::InodeId inode) const {
  const auto found = files_.find(inode);
  return found == files_.end() ? Clock::time_point() : found->second->progress.last();
}

std::string VolumeSessions::pathOf(const SessionName& name, std::size_t directory) const {
  return volumeFolder(options_.cacheDirectories[directory], options_.id) + "/" + textOf(name);
}

ContentKey VolumeSessions::keyOfRun(tree::SessionId session, std::uint32_t first,
                                    std::uint64_t length) const {
  return keyOf(ContentRun{options_.store, options_.volume, session, first, length});
}

Task<QueryReply> VolumeSessions::query(VolumeQuery query) {
  lastAsked_ = Clock::now();
  QueryReply reply = co_await ports_.client.query(std::move(query));
  if (reply.attributes) adjust(*reply.attributes);
  for (ListedEntry& entry : reply.entries) adjust(entry.attributes);
  co_return reply;
}

void VolumeSessions::adjust(tree::Attributes& attributes) const {
  const FilePtr file = written(attributes.id);
  if (file == nullptr || file->session->over) return;
  const Result<FileMark> mark = markOf(file->session->file.get());
  if (!mark.ok()) return;
  attributes.size = mark->size;
  if (file->session->isUntouched(*mark)) return;
  attributes.inode.modifiedNs = mark->modifiedNs;
  attributes.inode.changedNs = std::max(attributes.inode.changedNs, mark->changedNs);
}

Task<std::int32_t> VolumeSessions::sync(tree::InodeId inode) {
  if (!files_.contains(inode)) co_return co_await syncSealed(inode);
  const Turn turn = co_await turnOf(inode);
  if (!turn.session()) co_return co_await syncSealed(inode);
  WriteSession& session = *turn.session();
  // The name has failed: nobody finds the file after a crash.
  if (session.over || session.needsName()) co_return EIO;
  // Before the call: what is written meanwhile may not be durable.
  const Result<FileMark> mark = markOf(session.file.get());
  Progress& progress = turn.file()->progress;
  auto flush = [&session, &progress] { return syncSessionFile(session.file.get(), progress); };
  const Status flushed = co_await ports_.reactor.offload(flush);
  if (flushed.ok() && mark.ok()) session.synced = *mark;
  co_return flushed.ok() ? 0 : flushed.code() == ErrorCode::kOutOfSpace ? ENOSPC : EIO;
}

Task<std::int32_t> VolumeSessions::syncSealed(tree::InodeId inode) {
  const QueryReply reply = co_await ports_.client.query(OpenQuery{inode, std::nullopt});
  if (reply.error != 0) co_return reply.error;
  const auto run = reply.content ? soleRun(*reply.content) : std::nullopt;
  // Other nodes have copies alone.
  if (!run || !sealed_.contains(run->session)) co_return 0;
  const ContentKey key = keyOfRun(run->session, run->first, reply.content->length);
  co_await ports_.mounting.owner(key).reactor.enter();
  Status claimed;
  if (const std::shared_ptr<CachedFile> file = ports_.mounting.cache.find(key))
    claimed = co_await file->claimed();
  co_await ports_.reactor.enter();
  co_return claimed.ok() ? 0 : EIO;
}

Task<std::int32_t> VolumeSessions::allocate(tree::InodeId inode, std::uint32_t mode,
                                            std::uint64_t offset, std::uint64_t length) {
  Turn turn = co_await turnOf(inode);
  if (!turn.session() || turn.session()->ended) co_return EBADF;
  co_await readContent(*turn.file());
  auto call = [path = turn.session()->path, mode, offset, length] {
    return allocateIn(path, mode, offset, length);
  };
  co_return co_await ports_.reactor.offload(call);
}

Task<void> VolumeSessions::closeWriter(tree::InodeId inode) {
  lastAsked_ = Clock::now();
  const FilePtr file = written(inode);
  if (file == nullptr || file->session->writers == 0) co_return;
  if (--file->session->writers == 0) beginSealing(file);
}

void VolumeSessions::unpin() const {
  for (const auto& [session, file] : sealed_) ports_.mounting.cache.unpin(file.name.key, owner_);
}

SessionStatistics VolumeSessions::statistics() const {
  SessionStatistics sums{.overdue = overdue_, .unserved = unserved_};
  for (const auto& [inode, file] : files_) {
    if (!file->session) continue;
    ++sums.sessions;
    const Result<FileMark> mark = markOf(file->session->file.get());
    if (mark.ok()) sums.sessionBytes += mark->size;
  }
  return sums;
}

}  // namespace hearth
