#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "volume_mount/volume_attributes.h"
#include "volume_mount/volume_requests.h"

namespace hearth {
namespace {

bool writesWith(std::uint32_t flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
}

std::uint64_t numberOf(const FuseRequest& request) { return request.unique & ~kFuseUniqueResend; }

VolumeHandle handleOf(std::uint64_t handle) { return VolumeHandle::decode(handle); }

}  // namespace

bool VolumeRequests::isCounted(const FuseRequest& request) const {
  return request.resent && nodes_.counted() == numberOf(request);
}

void VolumeRequests::answerOpen(const VolumeRequest& request, std::uint64_t node,
                                const fuse_entry_out* entry, const VolumeOpenAnswer& opened,
                                bool writes, bool idle) {
  const VolumeHandle handle{opened.passthrough, writes, writes ? request.process : 0, idle};
  FuseOpenOut out{};
  out.handle = handle.encode();
  out.backingId = opened.backingId;
  if (opened.passthrough) out.openFlags |= kFopenPassthrough;
  // Each write and read comes to the agent.
  if (idle) out.openFlags |= FOPEN_DIRECT_IO;
  // Only the close of a file that was written publishes.
  if (!writes) out.openFlags |= FOPEN_NOFLUSH;
  std::vector<std::byte> body(entry == nullptr ? 0 : sizeof *entry);
  if (entry != nullptr) std::memcpy(body.data(), entry, sizeof *entry);
  const auto tail = std::as_bytes(std::span(&out, 1));
  body.insert(body.end(), tail.begin(), tail.end());
  if (answers_.reply(request.fuse.unique, body)) return;
  // An open that the kernel did not get is never released.
  opens_.release(node, writes);
  if (entry != nullptr) opens_.forget(node, 1);
  if (writes) spawn(files_.closeWriter(opens_.inodeOf(node)));
}

Task<void> VolumeRequests::create(Request request) {
  const FuseRequest& fuse = request->fuse;
  const auto& argument = std::get<FuseNamed<fuse_create_in>>(fuse.arguments);
  const std::uint32_t flags = argument.in.flags;
  const bool writes = writesWith(flags);
  tree::Create create{.mode = static_cast<std::uint16_t>(argument.in.mode & 07777),
                      .uid = fuse.user,
                      .gid = fuse.group,
                      .exclusive = (flags & O_EXCL) != 0,
                      .opens = writes};
  create.place.name = argument.name;
  if (const std::int32_t error = inodeOf(fuse, create.place.folder); error != 0)
    co_return fail(fuse, error);
  if (isCounted(fuse)) {
    const QueryReply made = co_await files_.query(LookUpQuery{create.place});
    if (made.attributes && answerCounted(*request, *made.attributes, writes)) co_return;
  }
  const std::shared_ptr<RequestNote> note = noteOf(fuse);
  OpenedVolumeFile opened;
  if (writes) {
    opened = co_await files_.create(std::move(create), (flags & O_TRUNC) != 0, note);
  } else {
    const ChangeReply made = co_await files_.change(std::move(create), note);
    opened.error = made.answer.error;
    if (opened.error == 0) opened = co_await files_.openToRead(made.answer.inode, std::nullopt);
  }
  if (opened.error != 0) co_return fail(fuse, opened.error);
  const tree::InodeId inode = opened.attributes.id;
  const std::uint64_t node = opens_.lookUp(opened.attributes);
  const bool counts = writes && !opened.idle;
  const VolumeOpenAnswer answer =
      node == 0 ? VolumeOpenAnswer{.error = ENFILE} : opens_.open(node, opened, counts);
  if (answer.error != 0) {
    opens_.forget(node, 1);
    fail(fuse, answer.error);
    if (counts) co_await files_.closeWriter(inode);
    co_return;
  }
  nodes_.setCounted(numberOf(fuse));
  const fuse_entry_out entry = entryAnswer(node, opened.attributes);
  answerOpen(*request, node, &entry, answer, counts, opened.idle);
}

bool VolumeRequests::answerCounted(const VolumeRequest& request, const tree::Attributes& about,
                                   bool writes) {
  const std::uint64_t node = opens_.lookUp(about);
  const VolumeNode* const known = nodes_.find(node);
  const bool open = known != nullptr && known->opens != 0;
  if (open) {
    const fuse_entry_out entry = entryAnswer(node, about);
    answerOpen(request, node, &entry,
               {.passthrough = known->backingId != 0, .backingId = known->backingId}, writes);
  } else if (node != 0) {
    opens_.forget(node, 1);
  }
  return open;
}

Task<void> VolumeRequests::open(Request request) {
  const FuseRequest& fuse = request->fuse;
  const std::uint32_t flags = std::get<fuse_open_in>(fuse.arguments).flags;
  const bool writes = writesWith(flags);
  tree::InodeId inode = tree::kNoInode;
  std::int32_t error = inodeOf(fuse, inode);
  if (const VolumeNode* const known = nodes_.find(fuse.node); known != nullptr && isCounted(fuse)) {
    answerOpen(*request, fuse.node, nullptr,
               {.passthrough = known->backingId != 0, .backingId = known->backingId}, writes);
    co_return;
  }
  if (error == 0) error = opens_.admits(fuse.node, writes);
  if (error != 0) co_return fail(fuse, error);
  co_await openFile(std::move(request), inode, flags);
}

Task<void> VolumeRequests::openFile(Request request, tree::InodeId inode, std::uint32_t flags) {
  const FuseRequest& fuse = request->fuse;
  const bool writes = writesWith(flags);
  OpenedVolumeFile opened;
  if (writes) {
    opened = co_await files_.openToWrite(inode, std::nullopt, (flags & O_TRUNC) != 0);
  } else {
    opened = co_await files_.openToRead(inode, std::nullopt);
  }
  if (opened.error != 0) co_return fail(fuse, opened.error);
  const bool counts = writes && !opened.idle;
  const VolumeOpenAnswer answer = opens_.open(fuse.node, opened, counts);
  if (answer.error != 0) {
    fail(fuse, answer.error);
    if (counts) co_await files_.closeWriter(inode);
    co_return;
  }
  nodes_.setCounted(numberOf(fuse));
  answerOpen(*request, fuse.node, nullptr, answer, counts, opened.idle);
}

Task<void> VolumeRequests::write(Request request) {
  const FuseRequest& fuse = request->fuse;
  const auto& argument = std::get<FuseWriteArgument>(fuse.arguments);
  tree::InodeId inode = tree::kNoInode;
  std::int32_t error = inodeOf(fuse, inode);
  if (error == 0 && !handleOf(argument.in.fh).idle) error = EBADF;
  std::optional<std::uint64_t> offset;
  if ((argument.in.flags & O_APPEND) == 0) offset = argument.in.offset;
  if (error == 0) error = co_await files_.write(inode, offset, argument.bytes);
  if (error != 0) co_return fail(fuse, error);
  answers_.replyWith(fuse.unique, fuse_write_out{.size = argument.in.size, .padding = 0});
}

Task<void> VolumeRequests::readIdle(FuseReads::Request read, std::uint64_t node) {
  const OpenedVolumeFile opened = co_await files_.openToRead(opens_.inodeOf(node), std::nullopt);
  if (opened.error != 0)
    co_return reads_.fail(read, errnoError(opened.error, "open a file that another node has"));
  if (!opened.session) co_return reads_.read(read, OpenVolumeFiles::readingOf(opened));
  // Another program of this node writes the file; the kernel has its bytes.
  std::vector<std::byte> bytes(read.length);
  const ssize_t count =
      ::pread(opened.session.get(), bytes.data(), bytes.size(), static_cast<off_t>(read.offset));
  if (count < 0) co_return reads_.fail(read, errnoError(errno, "read a session file"));
  reads_.reply(read, std::span(bytes).first(static_cast<std::size_t>(count)));
}

// Each close of each copy of a descriptor flushes: of dup, fork and exec, too. The copies of other
// processes publish nothing.
Task<void> VolumeRequests::flush(Request request) {
  const FuseRequest& fuse = request->fuse;
  const VolumeHandle handle = handleOf(std::get<fuse_flush_in>(fuse.arguments).fh);
  tree::InodeId inode = tree::kNoInode;
  std::int32_t error = inodeOf(fuse, inode);
  if (error == 0 && handle.writes && handle.process == request->process)
    error = co_await files_.publish(inode);
  fail(fuse, error);
}

Task<void> VolumeRequests::synchronise(Request request) {
  const FuseRequest& fuse = request->fuse;
  const VolumeHandle handle = handleOf(std::get<fuse_fsync_in>(fuse.arguments).fh);
  tree::InodeId inode = tree::kNoInode;
  std::int32_t error = inodeOf(fuse, inode);
  if (error == 0 && handle.writes) error = co_await files_.sync(inode);
  fail(fuse, error);
}

Task<void> VolumeRequests::allocate(Request request) {
  const FuseRequest& fuse = request->fuse;
  const auto& in = std::get<fuse_fallocate_in>(fuse.arguments);
  tree::InodeId inode = tree::kNoInode;
  std::int32_t error = inodeOf(fuse, inode);
  if (error == 0) error = co_await files_.allocate(inode, in.mode, in.offset, in.length);
  fail(fuse, error);
}

Task<void> VolumeRequests::release(Request request) {
  const FuseRequest& fuse = request->fuse;
  const VolumeHandle handle = handleOf(std::get<fuse_release_in>(fuse.arguments).fh);
  const tree::InodeId inode = opens_.inodeOf(fuse.node);
  const bool counted = isCounted(fuse);
  // Until then the next agent finds the session file by what the table says of the open node.
  if (!counted && handle.writes) co_await files_.nameSession(inode);
  if (!counted) {
    opens_.release(fuse.node, handle.writes);
    nodes_.setCounted(numberOf(fuse));
  }
  fail(fuse, 0);
  if (!counted && handle.writes) co_await files_.closeWriter(inode);
}

Task<void> VolumeRequests::readInherited(FuseReads::Request read, std::uint64_t node) {
  const OpenedVolumeFile opened = co_await files_.openToRead(opens_.inodeOf(node), std::nullopt);
  if (opened.error != 0) {
    co_return reads_.fail(read,
                          errnoError(opened.error, "open a file that the last agent had open"));
  }
  if (const auto reading = opens_.reopened(node, opened)) co_return reads_.read(read, reading);
  reads_.fail(read, Error{ErrorCode::kNotFound,
                          "the agent that had the file open has ended, and the file has another "
                          "version now; open it again"});
}

}  // namespace hearth
