#include "volume_mount/volume_requests.h"

#include <cerrno>

namespace hearth {
namespace {

class JournalNote final : public RequestNote {
 public:
  JournalNote(ChangeJournal& journal, const VolumeAnswers& answers, const FuseRequest& request)
      : journal_(journal),
        answers_(answers),
        unique_(request.unique & ~kFuseUniqueResend),
        earlier_(request.resent ? journal.find(unique_) : std::nullopt) {}
  ~JournalNote() override {
    // The next agent asks for the change.
    if (answers_.left()) return;
    journal_.drop(unique_);
    release();
  }
  std::optional<AskedChange> earlier() const override { return earlier_; }
  bool keep(const AskedChange& asked) override { return journal_.keep(unique_, asked); }

 private:
  ChangeJournal& journal_;
  const VolumeAnswers& answers_;
  const std::uint64_t unique_;
  const std::optional<AskedChange> earlier_;
};

}  // namespace

std::shared_ptr<RequestNote> VolumeRequests::noteOf(const FuseRequest& request) {
  return std::make_shared<JournalNote>(nodes_.journal(), answers_, request);
}

std::int32_t VolumeRequests::inodeOf(const FuseRequest& request, tree::InodeId& inode) {
  inode = opens_.inodeOf(request.node);
  return inode == tree::kNoInode ? ESTALE : 0;
}

Task<void> VolumeRequests::serve(Request request) {
  switch (request->fuse.opcode) {
    case FUSE_LOOKUP:
      return lookUp(std::move(request));
    case FUSE_GETATTR:
      return getAttributes(std::move(request));
    case FUSE_SETATTR:
      return setAttributes(std::move(request));
    case FUSE_READLINK:
      return readLink(std::move(request));
    case FUSE_SYMLINK:
      return symlink(std::move(request));
    case FUSE_MKNOD:
      return makeNode(std::move(request));
    case FUSE_MKDIR:
      return makeFolder(std::move(request));
    case FUSE_UNLINK:
    case FUSE_RMDIR:
      return remove(std::move(request));
    case FUSE_RENAME:
    case FUSE_RENAME2:
      return rename(std::move(request));
    case FUSE_LINK:
      return link(std::move(request));
    case FUSE_CREATE:
      return create(std::move(request));
    case FUSE_OPEN:
      return open(std::move(request));
    case FUSE_WRITE:
      return write(std::move(request));
    case FUSE_FLUSH:
      return flush(std::move(request));
    case FUSE_FSYNC:
      return synchronise(std::move(request));
    case FUSE_FALLOCATE:
      return allocate(std::move(request));
    case FUSE_RELEASE:
      return release(std::move(request));
    case FUSE_STATFS:
      return statistics(std::move(request));
    case FUSE_SETXATTR:
      return setXattr(std::move(request));
    case FUSE_GETXATTR:
      return getXattr(std::move(request));
    case FUSE_LISTXATTR:
      return listXattrs(std::move(request));
    case FUSE_REMOVEXATTR:
      return removeXattr(std::move(request));
    default:  // FUSE_READDIR, FUSE_READDIRPLUS
      return readFolder(std::move(request));
  }
}

}  // namespace hearth
