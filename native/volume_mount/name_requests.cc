#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "volume_mount/volume_attributes.h"
#include "volume_mount/volume_requests.h"

namespace hearth {
namespace {

constexpr std::uint32_t kModeBits = 07777;
constexpr std::uint32_t kRenameNoReplace = 1;  // RENAME_NOREPLACE, RENAME_EXCHANGE of linux/fs.h
constexpr std::uint32_t kRenameExchange = 2;

std::uint16_t permissions(std::uint32_t mode) {
  return static_cast<std::uint16_t>(mode & kModeBits);
}

std::optional<tree::Kind> kindOf(std::uint32_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return tree::Kind::kFile;
    case S_IFIFO:
      return tree::Kind::kFifo;
    case S_IFSOCK:
      return tree::Kind::kSocket;
    default:
      return std::nullopt;  // no devices
  }
}

}  // namespace

// The node id counts as looked up before the kernel has it, and is forgotten when it never does.
void VolumeRequests::answerEntry(const FuseRequest& request,
                                 const std::optional<tree::Attributes>& attributes) {
  if (!attributes) return fail(request, ENOENT);
  const std::uint64_t node = opens_.lookUp(*attributes);
  if (node == 0) return fail(request, ENFILE);
  if (!answers_.replyWith(request.unique, entryAnswer(node, *attributes))) opens_.forget(node, 1);
}

Task<void> VolumeRequests::lookUp(Request request) {
  const FuseRequest& fuse = request->fuse;
  LookUpQuery query;
  query.place.name = std::get<FuseNameArgument>(fuse.arguments).name;
  if (const std::int32_t error = inodeOf(fuse, query.place.folder); error != 0)
    co_return fail(fuse, error);
  const QueryReply reply = co_await files_.query(std::move(query));
  if (reply.error != 0) co_return fail(fuse, reply.error);
  answerEntry(fuse, reply.attributes);
}

Task<void> VolumeRequests::answerMade(Request request, tree::ClientChange change) {
  const std::shared_ptr<RequestNote> note = noteOf(request->fuse);
  const ChangeReply reply = co_await files_.change(std::move(change), note);
  if (reply.answer.error != 0) co_return fail(request->fuse, reply.answer.error);
  answerEntry(request->fuse, reply.attributes);
}

Task<void> VolumeRequests::makeNode(Request request) {
  const FuseRequest& fuse = request->fuse;
  const auto& argument = std::get<FuseNamed<fuse_mknod_in>>(fuse.arguments);
  const auto kind = kindOf(argument.in.mode);
  if (!kind) co_return fail(fuse, EPERM);
  tree::Create create{.kind = *kind,
                      .mode = permissions(argument.in.mode),
                      .uid = fuse.user,
                      .gid = fuse.group,
                      .exclusive = true};
  create.place.name = argument.name;
  if (const std::int32_t error = inodeOf(fuse, create.place.folder); error != 0)
    co_return fail(fuse, error);
  co_await answerMade(request, std::move(create));
}

Task<void> VolumeRequests::makeFolder(Request request) {
  const FuseRequest& fuse = request->fuse;
  const auto& argument = std::get<FuseNamed<fuse_mkdir_in>>(fuse.arguments);
  tree::MakeFolder make{.mode = permissions(argument.in.mode), .uid = fuse.user, .gid = fuse.group};
  make.place.name = argument.name;
  if (const std::int32_t error = inodeOf(fuse, make.place.folder); error != 0)
    co_return fail(fuse, error);
  co_await answerMade(request, std::move(make));
}

Task<void> VolumeRequests::symlink(Request request) {
  const FuseRequest& fuse = request->fuse;
  const auto& argument = std::get<FuseSymlinkArgument>(fuse.arguments);
  tree::MakeSymlink make{
      .target = std::string(argument.target), .uid = fuse.user, .gid = fuse.group};
  make.place.name = argument.name;
  if (const std::int32_t error = inodeOf(fuse, make.place.folder); error != 0)
    co_return fail(fuse, error);
  co_await answerMade(request, std::move(make));
}

Task<void> VolumeRequests::link(Request request) {
  const FuseRequest& fuse = request->fuse;
  const auto& argument = std::get<FuseNamed<fuse_link_in>>(fuse.arguments);
  tree::Link link;
  link.place.name = argument.name;
  link.inode = opens_.inodeOf(argument.in.oldnodeid);
  std::int32_t error = inodeOf(fuse, link.place.folder);
  if (link.inode == tree::kNoInode) error = ESTALE;
  if (error != 0) co_return fail(fuse, error);
  co_await answerMade(request, std::move(link));
}

Task<void> VolumeRequests::remove(Request request) {
  const FuseRequest& fuse = request->fuse;
  tree::Place place;
  place.name = std::get<FuseNameArgument>(fuse.arguments).name;
  if (const std::int32_t error = inodeOf(fuse, place.folder); error != 0)
    co_return fail(fuse, error);
  tree::ClientChange change;
  if (fuse.opcode == FUSE_UNLINK) {
    change = tree::Unlink{std::move(place)};
  } else {
    change = tree::RemoveFolder{std::move(place)};
  }
  const std::shared_ptr<RequestNote> note = noteOf(fuse);
  const ChangeReply reply = co_await files_.change(std::move(change), note);
  fail(fuse, reply.answer.error);
}

Task<void> VolumeRequests::rename(Request request) {
  const FuseRequest& fuse = request->fuse;
  const auto& argument = std::get<FuseRenameArgument>(fuse.arguments);
  tree::Rename rename;
  rename.from.name = argument.from;
  rename.to.name = argument.to;
  rename.to.folder = opens_.inodeOf(argument.newFolder);
  std::int32_t error = inodeOf(fuse, rename.from.folder);
  if (rename.to.folder == tree::kNoInode) error = ESTALE;
  switch (argument.flags) {
    case 0:
      break;
    case kRenameNoReplace:
      rename.mode = tree::RenameMode::kNoReplace;
      break;
    case kRenameExchange:
      rename.mode = tree::RenameMode::kExchange;
      break;
    default:
      error = EINVAL;
  }
  if (error != 0) co_return fail(fuse, error);
  const std::shared_ptr<RequestNote> note = noteOf(fuse);
  const ChangeReply reply = co_await files_.change(std::move(rename), note);
  fail(fuse, reply.answer.error);
}

}  // namespace hearth
