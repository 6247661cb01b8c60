#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

#include "volume_mount/volume_attributes.h"
#include "volume_mount/volume_requests.h"

namespace hearth {
namespace {

constexpr std::int64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint32_t kStatfsBlockBytes = 4096;
// Of a volume without limits.
constexpr std::uint64_t kUnlimitedBytes = std::uint64_t{1} << 50;
constexpr std::uint64_t kUnlimitedInodes = std::uint64_t{1} << 32;

std::int64_t nanoseconds(std::uint64_t seconds, std::uint32_t rest) {
  return static_cast<std::int64_t>(seconds) * kNsPerSecond + rest;
}

std::int64_t wallClock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(static_cast<std::uint64_t>(now.tv_sec),
                     static_cast<std::uint32_t>(now.tv_nsec));
}

// A file's mode after chown(2), or truncate(2) without CAP_FSETID. With
// FUSE_HANDLE_KILLPRIV_V2 it is the server's task.
std::uint16_t withoutSetIds(std::uint16_t mode) {
  std::uint32_t left = mode & ~static_cast<std::uint32_t>(S_ISUID);
  if ((mode & S_IXGRP) != 0) left &= ~static_cast<std::uint32_t>(S_ISGID);
  return static_cast<std::uint16_t>(left);
}

tree::SetAttributes changeOf(const fuse_setattr_in& in) {
  tree::SetAttributes change;
  if ((in.valid & FATTR_MODE) != 0) change.mode = static_cast<std::uint16_t>(in.mode & 07777);
  if ((in.valid & FATTR_UID) != 0) change.uid = in.uid;
  if ((in.valid & FATTR_GID) != 0) change.gid = in.gid;
  if ((in.valid & FATTR_SIZE) != 0) change.size = in.size;
  if ((in.valid & FATTR_ATIME_NOW) != 0) {
    change.accessedNs = wallClock();
  } else if ((in.valid & FATTR_ATIME) != 0) {
    change.accessedNs = nanoseconds(in.atime, in.atimensec);
  }
  if ((in.valid & FATTR_MTIME_NOW) != 0) {
    change.modifiedNs = wallClock();
  } else if ((in.valid & FATTR_MTIME) != 0) {
    change.modifiedNs = nanoseconds(in.mtime, in.mtimensec);
  }
  return change;
}

}  // namespace

Task<void> VolumeRequests::getAttributes(Request request) {
  const FuseRequest& fuse = request->fuse;
  AttributesQuery query;
  if (const std::int32_t error = inodeOf(fuse, query.inode); error != 0)
    co_return fail(fuse, error);
  QueryReply reply = co_await files_.query(query);
  if (reply.error == 0 && !reply.attributes) reply.error = ESTALE;
  if (reply.error != 0) co_return fail(fuse, reply.error);
  opens_.keepOpenedSize(fuse.node, *reply.attributes);
  answers_.replyWith(fuse.unique, attributesAnswer(*reply.attributes));
}

Task<void> VolumeRequests::setAttributes(Request request) {
  const FuseRequest& fuse = request->fuse;
  const auto& in = std::get<fuse_setattr_in>(fuse.arguments);
  tree::SetAttributes change = changeOf(in);
  std::int32_t error = inodeOf(fuse, change.inode);
  // The kernel cuts what it has of the node, and a reader of another version must not see that.
  if (error == 0 && change.size) error = opens_.admits(fuse.node, true);
  if (error != 0) co_return fail(fuse, error);
  const bool killsSetIds = (in.valid & (FATTR_UID | FATTR_GID | FATTR_KILL_SUIDGID)) != 0;
  if (killsSetIds && !change.mode) {
    const QueryReply now = co_await files_.query(AttributesQuery{change.inode});
    if (now.error != 0) co_return fail(fuse, now.error);
    const tree::Inode& inode = now.attributes->inode;
    const std::uint16_t left = withoutSetIds(inode.mode);
    if (inode.kind != tree::Kind::kFolder && left != inode.mode) change.mode = left;
  }
  ChangeReply reply = co_await files_.change(std::move(change));
  if (reply.answer.error == 0 && !reply.attributes) reply.answer.error = ESTALE;
  if (reply.answer.error != 0) co_return fail(fuse, reply.answer.error);
  opens_.keepOpenedSize(fuse.node, *reply.attributes);
  answers_.replyWith(fuse.unique, attributesAnswer(*reply.attributes));
}

void VolumeRequests::answerText(const FuseRequest& request, const std::string& value) {
  const std::uint32_t room = std::get<FuseXattrArgument>(request.arguments).size;
  if (room == 0) {
    const auto size = static_cast<std::uint32_t>(value.size());
    answers_.replyWith(request.unique, fuse_getxattr_out{.size = size, .padding = 0});
  } else if (value.size() > room) {
    fail(request, ERANGE);
  } else {
    answers_.reply(request.unique, std::as_bytes(std::span(value)));
  }
}

Task<void> VolumeRequests::getXattr(Request request) {
  const FuseRequest& fuse = request->fuse;
  XattrQuery query;
  query.name = std::get<FuseXattrArgument>(fuse.arguments).name;
  if (const std::int32_t error = inodeOf(fuse, query.inode); error != 0)
    co_return fail(fuse, error);
  const QueryReply reply = co_await files_.query(std::move(query));
  if (reply.error != 0) co_return fail(fuse, reply.error);
  answerText(fuse, reply.text);
}

Task<void> VolumeRequests::listXattrs(Request request) {
  const FuseRequest& fuse = request->fuse;
  XattrNamesQuery query;
  if (const std::int32_t error = inodeOf(fuse, query.inode); error != 0)
    co_return fail(fuse, error);
  const QueryReply reply = co_await files_.query(query);
  if (reply.error != 0) co_return fail(fuse, reply.error);
  std::string names;
  for (const std::string& name : reply.names) names.append(name).push_back('\0');
  answerText(fuse, names);
}

Task<void> VolumeRequests::setXattr(Request request) {
  const FuseRequest& fuse = request->fuse;
  const auto& argument = std::get<FuseSetXattrArgument>(fuse.arguments);
  tree::SetXattr change;
  change.name = argument.name;
  change.value = argument.value;
  if (argument.flags == XATTR_CREATE) change.mode = tree::XattrMode::kCreate;
  if (argument.flags == XATTR_REPLACE) change.mode = tree::XattrMode::kReplace;
  std::int32_t error = inodeOf(fuse, change.inode);
  if (error == 0 && !keepsXattr(change.name)) error = EOPNOTSUPP;
  if (error != 0) co_return fail(fuse, error);
  const std::shared_ptr<RequestNote> note = noteOf(fuse);
  const ChangeReply reply = co_await files_.change(std::move(change), note);
  fail(fuse, reply.answer.error);
}

Task<void> VolumeRequests::removeXattr(Request request) {
  const FuseRequest& fuse = request->fuse;
  tree::RemoveXattr change;
  change.name = std::get<FuseNameArgument>(fuse.arguments).name;
  std::int32_t error = inodeOf(fuse, change.inode);
  if (error == 0 && !keepsXattr(change.name)) error = EOPNOTSUPP;
  if (error != 0) co_return fail(fuse, error);
  const std::shared_ptr<RequestNote> note = noteOf(fuse);
  const ChangeReply reply = co_await files_.change(std::move(change), note);
  fail(fuse, reply.answer.error);
}

Task<void> VolumeRequests::readLink(Request request) {
  const FuseRequest& fuse = request->fuse;
  TargetQuery query;
  if (const std::int32_t error = inodeOf(fuse, query.inode); error != 0)
    co_return fail(fuse, error);
  const QueryReply reply = co_await files_.query(query);
  if (reply.error != 0) co_return fail(fuse, reply.error);
  answers_.reply(fuse.unique, std::as_bytes(std::span(reply.text)));
}

Task<void> VolumeRequests::statistics(Request request) {
  const QueryReply reply = co_await files_.query(UsageQuery{});
  if (reply.error != 0 || !reply.usage) {
    co_return fail(request->fuse, reply.error != 0 ? reply.error : EIO);
  }
  const tree::Usage& usage = *reply.usage;
  const std::uint64_t bytes = usage.maxBytes != 0 ? usage.maxBytes : kUnlimitedBytes;
  const std::uint64_t inodes = usage.maxInodes != 0 ? usage.maxInodes : kUnlimitedInodes;
  fuse_statfs_out out{};
  out.st.bsize = out.st.frsize = kStatfsBlockBytes;
  out.st.blocks = bytes / kStatfsBlockBytes;
  out.st.bfree = out.st.bavail = (bytes - std::min(bytes, usage.bytes)) / kStatfsBlockBytes;
  out.st.files = inodes;
  out.st.ffree = inodes - std::min(inodes, usage.inodes);
  out.st.namelen = tree::kMaxNameBytes;
  answers_.replyWith(request->fuse.unique, out);
}

}  // namespace hearth
