// VolumeSessions: files that an earlier agent of this node has left.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <iterator>
#include <utility>

#include "sessions/turn.h"
#include "sessions/volume_sessions.h"

namespace hearth {
namespace {

constexpr Clock::duration kResumePause = std::chrono::milliseconds(100);

}  // namespace

Task<Status> VolumeSessions::open() {
  std::vector<SealedFile> sealed;
  for (std::size_t i = 0; i < options_.cacheDirectories.size(); ++i) {
    const std::string folder = volumeFolder(options_.cacheDirectories[i], options_.id);
    bool ran = false;
    auto look = [folder, &ran, &left = leftSpares_]() -> Result<FoundFiles> {
      const Status made = makeVolumeFolder(folder);
      if (!made.ok()) return made.error();
      removeAside(folder);
      for (std::string& path : spareFilesIn(folder)) left.push_back(std::move(path));
      const Result<bool> known = ranSince(folder);
      if (!known.ok()) return known.error();
      ran = *known;
      return findFiles(folder);
    };
    const Result<FoundFiles> found = co_await ports_.reactor.offload(look);
    if (!found.ok()) co_return found.error();
    for (const SealedName& name : found->sealed) {
      ports_.mounting.cache.pin(name.key, owner_);
      sealed_.insert_or_assign(name.session, SealedFile{name, i});
      // Files that the machine has lost go before its new start is noted.
      if (!ran) co_await restore({name, i}, ran);
      if (ran) sealed.push_back({name, i});
    }
    const Status noted = co_await ports_.reactor.offload([folder] { return noteRun(folder); });
    if (!noted.ok()) co_return noted;
  }
  const std::string log =
      volumeFolder(options_.cacheDirectories.front(), options_.id) + "/published";
  auto begin = [log] {
    return std::make_shared<Result<std::unique_ptr<PublishLog>>>(PublishLog::open(log));
  };
  const auto begun = co_await ports_.reactor.offload(begin);
  if (!begun->ok()) co_return begun->error();
  publishes_ = std::move(**begun);
  hasher_.setKey(publishes_->key());
  running_.spawn(restoreAll(std::move(sealed)));
  running_.spawn(upkeep());
  co_return Status();
}

Task<void> VolumeSessions::restoreAll(std::vector<SealedFile> files) {
  for (const SealedFile& each : files) {
    if (closing_.isSet()) co_return;
    co_await restore(each, true);
  }
}

Task<void> VolumeSessions::restore(SealedFile file, bool ran) {
  const auto [name, directory] = file;
  const std::string path = pathOf(name, directory);
  const Result<std::uint64_t> size =
      co_await ports_.reactor.offload([path] { return sizeOfFile(path); });
  ContentCache& cache = ports_.mounting.cache;
  if (!size.ok() || cache.residentBytes(name.key) == *size) co_return;
  // The residency log does not claim all of it: the agent was killed before it did.
  if (!ran && !name.synced) {
    log(ports_.mounting.events, EngineEvent::Level::kWarn,
        "a file of a volume is lost: the machine stopped before all of it was on the disk",
        {{"volume", options_.name}, {"file", path}});
    cache.unpin(name.key, owner_);
    sealed_.erase(name.session);
    (void)co_await ports_.reactor.offload([path] { return ::unlink(path.c_str()); });
    co_return;
  }
  auto open = [path] { return openSessionFile(path); };
  const Result<OwnedFd> bytes = co_await ports_.reactor.offload(open);
  if (!bytes.ok()) co_return;
  Result<FileHash> hash = co_await hasher_.hash(ports_.reactor, bytes->get(), *size);
  if (!hash.ok()) co_return;
  co_await ports_.mounting.owner(name.key).reactor.enter();
  cache.unpin(name.key, owner_);
  (void)co_await cache.evict(name.key);
  co_await ports_.reactor.enter();
  const Status taken = co_await takeIn({name, directory}, *size, std::move(hash->blockChecksums));
  if (taken.ok()) co_return;
  log(ports_.mounting.events, EngineEvent::Level::kWarn,
      "a file of a volume cannot be given to readers: " + taken.error().message,
      {{"volume", options_.name}, {"file", path}});
}

Task<void> VolumeSessions::resumeSpares(std::vector<InheritedWriter> writers) {
  auto resume = [this, &writers] {
    for (const InheritedWriter& writer : writers) {
      for (std::size_t i = 0; i < options_.cacheDirectories.size(); ++i) {
        const std::string folder = volumeFolder(options_.cacheDirectories[i], options_.id);
        const std::string spare = findSpareFile(folder, writer.device, writer.file);
        if (spare.empty()) continue;
        const Status named = renameFile(spare, pathOf({writer.inode, writer.session, {}}, i));
        if (!named.ok()) return named;
      }
    }
    for (const std::string& path : leftSpares_) ::unlink(path.c_str());
    return Status();
  };
  const Status resumed = co_await ports_.reactor.offload(resume);
  if (resumed.ok()) co_return leftSpares_.clear();
  log(ports_.mounting.events, EngineEvent::Level::kError,
      "a file that was written is not taken over: " + resumed.error().message,
      {{"volume", options_.name}});
}

Task<void> VolumeSessions::resume(std::vector<InheritedWriter> writers) {
  co_await resumeSpares(writers);
  struct Left {
    SessionName name;
    std::size_t directory;
  };
  std::vector<Left> all;
  for (std::size_t i = 0; i < options_.cacheDirectories.size(); ++i) {
    const std::string folder = volumeFolder(options_.cacheDirectories[i], options_.id);
    const Result<FoundFiles> found =
        co_await ports_.reactor.offload([folder] { return findFiles(folder); });
    if (!found.ok()) {
      log(ports_.mounting.events, EngineEvent::Level::kError,
          "files that were written are not taken over: " + found.error().message,
          {{"volume", options_.name}});
      continue;
    }
    for (const SessionName& name : found->sessions) all.push_back({name, i});
  }
  // The last session of a file first: what is left of others was given up.
  std::ranges::sort(all, std::ranges::greater(),
                    [](const Left& each) { return std::pair(each.name.inode, each.name.session); });
  for (auto each = all.begin(); each != all.end(); ++each) {
    if (each != all.begin() && std::prev(each)->name.inode == each->name.inode) {
      auto remove = [path = pathOf(each->name, each->directory)] { return ::unlink(path.c_str()); };
      if (!written(each->name.inode)) (void)co_await ports_.reactor.offload(remove);
      continue;
    }
    const auto open = std::ranges::find(writers, each->name.inode, &InheritedWriter::inode);
    co_await adoptSession(each->name, each->directory, open == writers.end() ? 0 : open->handles);
  }
  resumed_ = true;
}

Task<std::optional<tree::Answer>> VolumeSessions::askToAdopt(SessionName name) {
  const tree::OpenForWriting ask{
      .inode = name.inode, .place = {}, .adopts = tree::Adoption{name.session, name.base}};
  for (;;) {
    const tree::Answer answer = (co_await ports_.client.change(ask)).answer;
    const bool final = answer.error == ESTALE || answer.refusal == tree::Refusal::kOtherVersion ||
                       answer.refusal == tree::Refusal::kHeld;
    if (final || (answer.error == 0 && answer.session != tree::kNoSession)) co_return answer;
    if (answer.error == ENOENT || co_await closing_.waitUntil(Clock::now() + kResumePause))
      co_return std::nullopt;
  }
}

Task<void> VolumeSessions::recogniseUnread(WrittenFile& file, tree::ContentVersion content) {
  const QueryReply asked = co_await ports_.client.query(OpenQuery{file.inode, std::nullopt});
  const auto run = asked.content ? soleRun(*asked.content) : std::nullopt;
  WriteSession& session = *file.session;
  const Result<FileMark> mark = markOf(session.file.get());
  if (!run || asked.content->version != content || !mark.ok()) co_return;
  const std::uint64_t length = asked.content->length;
  if (mark->size != length) co_return;
  session.published =
      PublishedContent{*mark,        length,     std::nullopt,
                       run->session, run->first, keyOfRun(run->session, run->first, length)};
  co_await readContent(file);
}

Task<void> VolumeSessions::recognise(WriteSession& session, tree::ContentVersion content) {
  const PublishRecord* const known = publishes_->find(content);
  if (known == nullptr) co_return;
  const PublishRecord record = *known;
  const Result<FileMark> mark = markOf(session.file.get());
  if (!mark.ok() || mark->size != record.length) co_return;
  Result<FileHash> hash = co_await hasher_.hash(ports_.reactor, session.file.get(), record.length);
  // It was written to since.
  if (!hash.ok() || hash->chunks != record.chunks) co_return;
  const ContentKey key = keyOfRun(content.session, record.first, record.length);
  session.published =
      PublishedContent{*mark, record.length, std::move(*hash), content.session, record.first, key};
  servePublished(session);
}

Task<void> VolumeSessions::adoptSession(SessionName name, std::size_t directory,
                                        std::uint32_t writers) {
  const Turn turn = co_await turnOf(name.inode);
  // A session of this agent goes on.
  if (turn.session()) co_return;
  const std::string path = pathOf(name, directory);
  auto open = [path] { return openSessionFile(path); };
  Result<OwnedFd> file = co_await ports_.reactor.offload(open);
  if (!file.ok()) co_return;
  WriteSession session{.id = name.session,
                       .base = name.base,
                       .directory = directory,
                       .path = path,
                       .file = std::move(*file),
                       .writers = writers};
  // Without an answer the file stays for the next agent.
  const std::optional<tree::Answer> answer = co_await askToAdopt(name);
  if (!answer) co_return;
  if (answer->error != 0) {
    // Another node has the file, or it is gone: only open handles see what was written.
    session.over = true;
  } else {
    const SessionName renamed{name.inode, answer->session, answer->content};
    session.path = pathOf(renamed, directory);
    auto rename = [path, to = session.path] { return renameFile(path, to); };
    if (const Status done = co_await ports_.reactor.offload(rename); !done.ok()) {
      log(ports_.mounting.events, EngineEvent::Level::kError, done.error().message,
          {{"volume", options_.name}});
      co_return;
    }
    session.id = renamed.session;
    session.base = renamed.base;
    co_await recognise(session, answer->content);
  }
  turn.session().emplace(std::move(session));
  const bool unread = answer->error == 0 && answer->content.session == name.session &&
                      publishes_->isUnread(answer->content);
  if (unread) co_await recogniseUnread(*turn.file(), answer->content);
  if (writers == 0) beginSealing(turn.file());
}

}  // namespace hearth
