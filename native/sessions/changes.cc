// VolumeSessions: changes of names and attributes, as far as they concern files that this node
// writes.
#include <cerrno>
#include <type_traits>

#include "sessions/turn.h"
#include "sessions/volume_sessions.h"

namespace hearth {
namespace {

ChangeReply failedChange(std::int32_t error) {
  return {.answer = {.error = error}, .attributes = {}};
}

bool isPublished(const WriteSession& session) {
  const Result<FileMark> mark = markOf(session.file.get());
  return mark.ok() && !session.changed(*mark) && session.base != tree::ContentVersion{};
}

}  // namespace

Task<std::optional<ChangeReply>> VolumeSessions::earlierAnswer(std::shared_ptr<RequestNote> note) {
  const auto earlier = note == nullptr ? std::nullopt : note->earlier();
  if (!earlier) co_return std::nullopt;
  std::optional<ChangeReply> reply = co_await ports_.client.answerTo(*earlier);
  if (reply && reply->attributes) adjust(*reply->attributes);
  co_return reply;
}

Task<ChangeReply> VolumeSessions::change(tree::ClientChange change,
                                         std::shared_ptr<RequestNote> note) {
  lastAsked_ = Clock::now();
  if (const auto answered = co_await earlierAnswer(note)) co_return *answered;
  if (auto* const attributes = std::get_if<tree::SetAttributes>(&change))
    co_return co_await setAttributes(*attributes);
  if (auto* const link = std::get_if<tree::Link>(&change)) {
    const tree::InodeId inode = link->inode;
    co_return co_await changeNames(std::move(*link), inode, std::move(note));
  }
  if (auto* const rename = std::get_if<tree::Rename>(&change);
      rename != nullptr && !files_.empty()) {
    const QueryReply found = co_await ports_.client.query(LookUpQuery{rename->from});
    if (found.error != 0 || !found.attributes)
      co_return failedChange(found.error != 0 ? found.error : ENOENT);
    co_return co_await changeNames(std::move(*rename), found.attributes->id, std::move(note));
  }
  ChangeReply reply = co_await ports_.client.change(std::move(change), std::move(note));
  if (reply.attributes) adjust(*reply.attributes);
  co_return reply;
}

template <class Change>
Task<ChangeReply> VolumeSessions::changeNames(Change change, tree::InodeId inode,
                                              std::shared_ptr<RequestNote> note) {
  std::optional<Turn> turn;
  std::optional<Prepared> prepared;
  // The turn of a file whose content is published may be its sealing's, which takes long.
  if (const FilePtr file = written(inode); file != nullptr && !isPublished(*file->session))
    turn.emplace(co_await turnOf(inode));
  if (turn && turn->session() && !turn->session()->over && !turn->session()->ended) {
    const WriteSession& session = *turn->session();
    const Result<FileMark> mark = markOf(session.file.get());
    if (!mark.ok()) co_return failedChange(EIO);
    // A file that was never published gets a name only with its content.
    if (session.changed(*mark) || session.base == tree::ContentVersion{}) {
      Result<Prepared> ready = co_await prepare(*turn->file());
      if (!ready.ok())
        co_return failedChange(ready.code() == ErrorCode::kDeadlineExceeded ? ETIMEDOUT : EIO);
      prepared = std::move(*ready);
      change.publish = prepared->change;
      if (!co_await notePublish(change.publish->content, *prepared->hash)) prepared->hash.reset();
    }
  }
  ChangeReply reply = co_await ports_.client.change(std::move(change), std::move(note));
  if (prepared && reply.answer.error == 0) {
    published(*turn->session(), std::move(*prepared), reply.answer);
  } else if (prepared) {
    noteRefused(*turn->session(), reply.answer);
  }
  if (reply.attributes) adjust(*reply.attributes);
  co_return reply;
}

Task<ChangeReply> VolumeSessions::setAttributes(tree::SetAttributes change) {
  {
    std::optional<Turn> turn;
    if (written(change.inode) != nullptr) turn.emplace(co_await turnOf(change.inode));
    if (turn && turn->session() && !turn->session()->ended) {
      if (turn->session()->over) co_return failedChange(EIO);
      if (change.size) co_await readContent(*turn->file());
      auto apply = [path = turn->session()->path, change]() -> std::int32_t {
        const std::int32_t error = change.size ? cutSessionFile(path, *change.size) : 0;
        if (error != 0 || (!change.accessedNs && !change.modifiedNs)) return error;
        return setTimes(path, change.accessedNs, change.modifiedNs).ok() ? 0 : EIO;
      };
      if (const std::int32_t error = co_await ports_.reactor.offload(apply); error != 0)
        co_return failedChange(error);
      change.size.reset();
    }
  }
  ChangeReply reply = co_await ports_.client.change(change);
  if (reply.answer.refusal == tree::Refusal::kNeedsSession && change.size) {
    const auto cut = [size = *change.size](const std::string& path) {
      return cutSessionFile(path, size);
    };
    const std::int32_t error = co_await changeBytes(change.inode, cut);
    if (error != 0) co_return failedChange(error);
    change.size.reset();
    reply = co_await ports_.client.change(change);
  }
  if (reply.attributes) adjust(*reply.attributes);
  co_return reply;
}

Task<std::int32_t> VolumeSessions::changeBytes(
    tree::InodeId inode, std::function<std::int32_t(const std::string& path)> change) {
  const OpenedVolumeFile file = co_await openToWrite(inode, std::nullopt, false);
  if (file.error != 0) co_return file.error;
  if (file.idle) co_return EBUSY;
  std::int32_t error = 0;
  {
    const Turn turn = co_await turnOf(inode);
    co_await readContent(*turn.file());
    auto apply = [path = turn.session()->path, &change] { return change(path); };
    error = co_await ports_.reactor.offload(apply);
    if (error == 0) error = co_await publishHeld(*turn.file());
  }
  co_await closeWriter(inode);
  co_return error;
}

Task<std::int32_t> VolumeSessions::write(tree::InodeId inode, std::optional<std::uint64_t> offset,
                                         std::span<const std::byte> bytes) {
  const auto append = [offset, bytes](const std::string& path) -> std::int32_t {
    const Result<std::uint64_t> at = offset ? Result<std::uint64_t>(*offset) : sizeOfFile(path);
    const Status written = at.ok() ? writeSessionFile(path, *at, bytes) : at.error();
    if (written.ok()) return 0;
    return written.code() == ErrorCode::kOutOfSpace ? ENOSPC : EIO;
  };
  co_return co_await changeBytes(inode, append);
}

}  // namespace hearth
