// VolumeSessions: opening files of the volume.
#include <fcntl.h>

#include <cerrno>

#include "mount/dataset_source.h"
#include "sessions/turn.h"
#include "sessions/volume_sessions.h"

namespace hearth {
namespace {

// The RELEASE of another agent's last writer may be on its way (rule R1).
constexpr Clock::duration kBusyFor = std::chrono::seconds(1);
// Of an empty file: then the program keeps it open there, as programs do with lock files.
constexpr Clock::duration kIdleAfter = std::chrono::milliseconds(100);
constexpr Clock::duration kFirstPause = std::chrono::milliseconds(2);
constexpr Clock::duration kLongestPause = std::chrono::milliseconds(100);

constexpr std::uint32_t kCopyBytes = kChunkBytes;

OpenedVolumeFile failed(std::int32_t error) { return {.error = error}; }

std::int32_t errnoOf(const Error& error) {
  return error.code == ErrorCode::kOutOfSpace ? ENOSPC : EIO;
}

// A manifest of one file, by which the engine reads it as it reads a dataset's.
Result<std::shared_ptr<const Manifest>> manifestOf(const ContentKey& key, std::uint64_t length) {
  ManifestBuilder builder(false);
  builder.add({.path = "content", .size = length, .key = key});
  const Result<std::vector<std::byte>> bytes = builder.build();
  if (!bytes.ok()) return bytes.error();
  return Manifest::parse(*bytes);
}

// OpenFile::read() as an awaitable.
Task<Result<MappedBytes>> readPiece(Reactor& reactor, MountSource::OpenFile& file,
                                    std::uint64_t offset, std::uint32_t length) {
  struct Answer {
    explicit Answer(Reactor& reactor) : come(reactor) {}
    Event come;
    std::optional<Result<MappedBytes>> value;
  };
  const auto answer = std::make_shared<Answer>(reactor);
  file.read(offset, length, [answer, &reactor](Result<MappedBytes> bytes) {
    const auto moved = std::make_shared<Result<MappedBytes>>(std::move(bytes));
    reactor.post([answer, moved] {
      answer->value = std::move(*moved);
      answer->come.set();
    });
  });
  co_await answer->come.wait();
  co_return std::move(*answer->value);
}

}  // namespace

Task<ChangeReply> VolumeSessions::askForSession(tree::ClientChange ask,
                                                std::shared_ptr<RequestNote> note) {
  const Clock::time_point begun = Clock::now();
  const Clock::time_point until = begun + std::min(kBusyFor, deadline_);
  for (Clock::duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    ChangeReply reply = co_await ports_.client.change(ask, note);
    const tree::Answer& answer = reply.answer;
    const bool none = answer.error == 0 && answer.session == tree::kNoSession;
    if (answer.refusal != tree::Refusal::kHeld && !none) co_return reply;
    if (none && Clock::now() - begun > kIdleAfter) co_return reply;
    if (Clock::now() + pause > until || co_await closing_.waitUntil(Clock::now() + pause))
      co_return reply;
  }
}

OpenedVolumeFile VolumeSessions::idle(const ChangeReply& reply) {
  if (!reply.attributes) return failed(ESTALE);
  OpenedVolumeFile file;
  file.idle = true;
  file.attributes = *reply.attributes;
  file.version = file.attributes.content;
  return file;
}

OpenedVolumeFile VolumeSessions::opened(const WriteSession& session,
                                        std::optional<tree::Attributes> about) const {
  if (!about) return failed(ESTALE);
  OpenedVolumeFile file;
  file.session = OwnedFd(::fcntl(session.file.get(), F_DUPFD_CLOEXEC, 0));
  if (!file.session) return failed(errno);
  file.attributes = *about;
  adjust(file.attributes);
  file.version = {session.id, 0};
  return file;
}

Task<OpenedVolumeFile> VolumeSessions::openToRead(tree::InodeId inode,
                                                  std::optional<tree::Place> place) {
  std::optional<Turn> turn;
  if (files_.contains(inode)) turn.emplace(co_await turnOf(inode));
  // The leader asks only agents that have joined what they read.
  const bool joined = co_await ports_.client.self() != tree::kNoAgent;
  if (!joined && !closing_.isSet()) co_return failed(ETIMEDOUT);
  // The chunks that the leader answers with may be garbage by the time the answer is here.
  const auto opening = opening_.insert(inode);
  QueryReply reply = co_await ports_.client.query(OpenQuery{inode, std::move(place)});
  OpenedVolumeFile file = co_await openAnswered(turn, std::move(reply));
  opening_.erase(opening);
  co_return file;
}

Task<OpenedVolumeFile> VolumeSessions::openAnswered(std::optional<Turn>& turn, QueryReply reply) {
  if (reply.error != 0) co_return failed(reply.error);
  if (turn && turn->session()) {
    if (turn->session()->over) co_return failed(EIO);
    co_return opened(*turn->session(), reply.attributes);
  }
  if (!reply.attributes) co_return failed(ESTALE);
  co_return co_await openContent(*reply.attributes, std::move(reply.content));
}

Task<OpenedVolumeFile> VolumeSessions::openToWrite(tree::InodeId inode,
                                                   std::optional<tree::Place> place,
                                                   bool truncates) {
  const Turn turn = co_await turnOf(inode);
  ChangeReply reply = co_await askForSession(
      tree::OpenForWriting{.inode = inode, .place = std::move(place), .writes = false});
  if (reply.answer.error != 0) co_return failed(reply.answer.error);
  if (reply.answer.session == tree::kNoSession) co_return idle(reply);
  co_return co_await joinSession(*turn.file(), std::move(reply), truncates);
}

Task<OpenedVolumeFile> VolumeSessions::create(tree::Create create, bool truncates,
                                              std::shared_ptr<RequestNote> note) {
  lastAsked_ = Clock::now();
  if (const auto answered = co_await earlierAnswer(note)) {
    const tree::Answer& answer = answered->answer;
    if (answer.error != 0 && answer.error != EBUSY) co_return failed(answer.error);
    // The session was the earlier agent's.
    if (answer.created) co_return co_await openToWrite(answer.inode, std::nullopt, truncates);
  }
  const std::uint64_t endings = endings_;
  ChangeReply reply = co_await askForSession(std::move(create), std::move(note));
  if (reply.answer.error != 0) co_return failed(reply.answer.error);
  if (reply.answer.session == tree::kNoSession) co_return idle(reply);
  const bool created = reply.answer.created;
  const Turn turn = co_await turnOf(reply.answer.inode);
  // The session may have been shared and ended before this turn came.
  if (endings != endings_ && !turn.session()) {
    reply = co_await askForSession(
        tree::OpenForWriting{.inode = turn.file()->inode, .place = {}, .writes = true});
    if (reply.answer.error != 0) co_return failed(reply.answer.error);
  }
  OpenedVolumeFile file = co_await joinSession(*turn.file(), std::move(reply), truncates);
  file.created = created;
  if (turn.session() && turn.session()->needsName())
    running_.spawn(nameSession(turn.file()->inode));
  co_return file;
}

Task<void> VolumeSessions::nameSession(tree::InodeId inode) {
  const auto waits = [this, inode] {
    const FilePtr file = written(inode);
    return file != nullptr && file->session->needsName();
  };
  if (!waits()) co_return;
  const Turn turn = co_await turnOf(inode);
  if (!waits()) co_return;
  WriteSession& session = *turn.session();
  const std::string path = pathOf({inode, session.id, session.base}, session.directory);
  auto rename = [from = session.path, path] { return renameFile(from, path); };
  const Status renamed = co_await ports_.reactor.offload(rename);
  if (!renamed.ok()) {
    log(ports_.mounting.events, EngineEvent::Level::kWarn,
        "a file may be lost if this agent is killed before it is closed: " +
            renamed.error().message,
        {{"volume", options_.name}});
    co_return;
  }
  session.path = path;
  session.spare->named = true;
  // The renaming is no change of the file.
  const Result<FileMark> mark = markOf(session.file.get());
  if (mark.ok() && session.unchanged && session.isUntouched(*mark)) session.unchanged = *mark;
}

Task<OpenedVolumeFile> VolumeSessions::joinSession(WrittenFile& file, ChangeReply reply,
                                                   bool truncates) {
  if (!reply.attributes) co_return failed(ESTALE);
  if (file.session && file.session->over) co_return failed(EIO);
  if (file.session && file.session->ended) {
    // Its bytes are the base of the new session, and have to be where those are looked for.
    const Status adopted = co_await settle(file);
    if (!adopted.ok()) co_return failed(errnoOf(adopted.error()));
  }
  if (file.session && file.session->id != reply.answer.session) {
    const std::int32_t error = co_await renew(*file.session, file.inode, reply.answer);
    if (error != 0) co_return failed(error);
  }
  if (file.session) co_await readContent(file);
  if (!file.session) {
    const std::int32_t error = co_await beginSession(file, reply, truncates);
    if (error != 0) co_return failed(error);
  } else if (truncates) {
    auto cut = [path = file.session->path] { return cutSessionFile(path, 0); };
    const std::int32_t error = co_await ports_.reactor.offload(cut);
    if (error != 0) co_return failed(error);
  }
  OpenedVolumeFile result = opened(*file.session, reply.attributes);
  if (result.error == 0) ++file.session->writers;
  co_return result;
}

Task<std::int32_t> VolumeSessions::renew(WriteSession& session, tree::InodeId inode,
                                         tree::Answer answer) {
  // The leader has lost the session and granted another; the content must be the one known here.
  if (answer.content != session.base) {
    session.over = true;
    co_return EIO;
  }
  const std::string path = pathOf({inode, answer.session, session.base}, session.directory);
  auto rename = [from = session.path, path] { return renameFile(from, path); };
  if (const Status renamed = co_await ports_.reactor.offload(rename); !renamed.ok()) co_return EIO;
  session.path = path;
  session.id = answer.session;
  session.publishes = 0;
  session.usedChunks = 0;
  co_return 0;
}

Task<std::int32_t> VolumeSessions::beginSession(WrittenFile& file, const ChangeReply& reply,
                                                bool truncates) {
  const tree::Attributes about = *reply.attributes;
  const SessionName name{file.inode, reply.answer.session, reply.answer.content};
  const bool empties = truncates && about.size != 0;
  // The next agent finds such a file by its inode, as the kernel has it open.
  const bool isNew = reply.answer.created && name.base == tree::ContentVersion{};
  std::optional<SpareFile> spare;
  Result<NewSessionFile> made = NewSessionFile{};
  if (about.size == 0 || truncates) {
    made->directory = nextDirectory_++ % options_.cacheDirectories.size();
    if (isNew) spare = spares_[made->directory]->takeReady();
    made->path = spare ? std::move(spare->path) : pathOf(name, made->directory);
    Result<OwnedFd> descriptor = spare ? Result(std::move(spare->file))
                                       : co_await spares_[made->directory]->take(made->path);
    if (descriptor.ok()) {
      made->file = std::move(*descriptor);
    } else {
      made = descriptor.error();
    }
  } else {
    made = co_await copyContent(about, name, file.progress);
  }
  const Result<FileMark> mark = made.ok() ? markOf(made->file.get()) : made.error();
  if (!mark.ok()) {
    log(ports_.mounting.events, EngineEvent::Level::kWarn,
        "a file of a volume cannot be written: " + mark.error().message,
        {{"volume", options_.name}});
    (void)co_await ports_.client.change(
        tree::EndSession{.inode = file.inode, .session = reply.answer.session});
    co_return errnoOf(mark.error());
  }
  WriteSession& session = file.session.emplace();
  session.id = name.session;
  session.base = name.base;
  session.directory = made->directory;
  session.path = std::move(made->path);
  session.file = std::move(made->file);
  if (!empties) session.unchanged = *mark;
  if (spare) session.spare = {.mark = *mark, .createdNs = about.inode.modifiedNs};
  co_return 0;
}

Task<Result<VolumeSessions::NewSessionFile>> VolumeSessions::copyContent(tree::Attributes about,
                                                                         SessionName name,
                                                                         Progress& progress) {
  const QueryReply asked = co_await ports_.client.query(OpenQuery{about.id, std::nullopt});
  const auto run = asked.content ? soleRun(*asked.content) : std::nullopt;
  if (!run) co_return Error{ErrorCode::kUnsupported, "the content is not one run of chunks"};
  const std::uint64_t length = asked.content->length;
  const ContentKey key = keyOfRun(run->session, run->first, length);
  // The whole file where it is here, beside it on its file system.
  co_await ports_.mounting.owner(key).reactor.enter();
  const std::shared_ptr<CachedFile> here = ports_.mounting.cache.find(key);
  const bool whole = here != nullptr && here->complete();
  const Result<int> from = whole ? here->descriptor() : Result<int>(-1);
  co_await ports_.reactor.enter();
  if (!from.ok()) co_return from.error();
  NewSessionFile made;
  made.directory = whole ? here->disk() : nextDirectory_++ % options_.cacheDirectories.size();
  made.path = pathOf(name, made.directory);
  // Under its name only when it is whole: the next agent takes every session file for one.
  const std::string aside = asideOf(made.path);
  if (!whole) {
    const Status brought = co_await bring(*run, length, aside, progress);
    if (!brought.ok()) co_return brought.error();
  }
  auto finish = [&]() -> Result<OwnedFd> {
    const Status copied = whole ? copySessionFile(aside, *from, length, progress) : Status();
    if (!copied.ok()) return copied.error();
    const Status timed = setTimes(aside, std::nullopt, about.inode.modifiedNs);
    if (!timed.ok()) return timed.error();
    const Status named = renameFile(aside, made.path);
    return named.ok() ? openSessionFile(made.path) : named.error();
  };
  Result<OwnedFd> file = co_await ports_.reactor.offload(finish);
  if (!file.ok()) co_return file.error();
  made.file = std::move(*file);
  co_return std::move(made);
}

Task<Status> VolumeSessions::bring(tree::ChunkRun run, std::uint64_t length, std::string path,
                                   Progress& progress) {
  Result<FileReference> content = co_await referenceTo(run, length);
  if (!content.ok()) co_return content.error();
  const auto reader = co_await readerOf(std::move(*content));
  if (!reader.ok()) co_return reader.error();
  auto make = [&path] { return makeSessionFile(path); };
  const Result<OwnedFd> made = co_await ports_.reactor.offload(make);
  if (!made.ok()) co_return made.error();
  for (std::uint64_t at = 0; at < length; at += kCopyBytes) {
    const auto count = static_cast<std::uint32_t>(std::min<std::uint64_t>(kCopyBytes, length - at));
    const Result<MappedBytes> bytes = co_await readPiece(ports_.reactor, **reader, at, count);
    if (!bytes.ok()) co_return bytes.error();
    auto write = [&] {
      const Status first = writeSessionFile(path, at, bytes->bytes);
      return first.ok() ? writeSessionFile(path, at + bytes->bytes.size(), bytes->rest) : first;
    };
    const Status written = co_await ports_.reactor.offload(write);
    if (!written.ok()) co_return written;
    progress.moved();
  }
  co_return Status();
}

Task<OpenedVolumeFile> VolumeSessions::openContent(tree::Attributes about,
                                                   std::optional<tree::Content> content) {
  OpenedVolumeFile file;
  file.attributes = about;
  file.version = about.content;
  if (!content || content->length == 0) co_return file;
  const auto run = soleRun(*content);
  if (!run) co_return failed(EIO);
  Result<FileReference> reference = co_await referenceTo(*run, content->length);
  const std::string holder = reference.ok() ? reference->dataset->holder : std::string();
  const auto reader = co_await openReader(about.id, run->session, std::move(reference));
  if (reader == nullptr) co_return failed(EIO);
  if (co_await isLost(holder, content->length, *reader)) co_return failed(ENOENT);
  file.reading = reader;
  co_return file;
}

Task<bool> VolumeSessions::isLost(const std::string& holder, std::uint64_t length,
                                  MountSource::OpenFile& reader) {
  const bool isGone = ports_.isGone && ports_.isGone(holder);
  if (!isGone) co_return false;
  const auto probed = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, kBlockBytes));
  const auto bytes = co_await readPiece(ports_.reactor, reader, 0, probed);
  co_return !bytes.ok();
}

Task<Result<FileReference>> VolumeSessions::referenceTo(tree::ChunkRun run, std::uint64_t length) {
  const auto manifest = manifestOf(keyOfRun(run.session, run.first, length), length);
  if (!manifest.ok()) co_return manifest.error();
  const auto dataset = std::make_shared<Dataset>(*manifest, owner_, ports_.mounting.events);
  dataset->holder = co_await ports_.client.nodeOf(run.holder);
  if (dataset->holder.empty())
    co_return Error{ErrorCode::kNotFound, "the node that wrote the file has left the volume"};
  // Nobody waits for an agent that is gone.
  const bool isGone = ports_.isGone && ports_.isGone(dataset->holder);
  const Clock::duration bound = isGone ? Clock::duration::zero() : deadline_;
  dataset->absence.setBound(std::chrono::duration_cast<std::chrono::milliseconds>(bound));
  const auto entry = (*manifest)->lookUp("content");
  co_return FileReference::of(dataset, *entry);
}

Task<Result<std::shared_ptr<MountSource::OpenFile>>> VolumeSessions::readerOf(FileReference file) {
  co_return co_await DatasetSource::open(ports_.mounting, std::move(file), ports_.reactor);
}

Task<std::shared_ptr<MountSource::OpenFile>> VolumeSessions::openReader(
    tree::InodeId inode, tree::SessionId session, Result<FileReference> content) {
  Result<std::shared_ptr<MountSource::OpenFile>> reader = Error{};
  if (content.ok()) {
    reader = co_await readerOf(std::move(*content));
  } else {
    reader = content.error();
  }
  if (!reader.ok()) {
    log(ports_.mounting.events, EngineEvent::Level::kWarn,
        "a file of a volume cannot be read: " + reader.error().message,
        {{"volume", options_.name}});
    co_return nullptr;
  }
  if (readers_.size() >= sweepReadersAt_) {
    std::erase_if(readers_, [](const auto& each) { return each.second.file.expired(); });
    sweepReadersAt_ = std::max<std::size_t>(1024, 2 * readers_.size());
  }
  readers_.emplace(inode, Reader{session, *reader});
  co_return std::move(*reader);
}

}  // namespace hearth
