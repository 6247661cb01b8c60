#include "volume_mount/volume_requests.h"

#include <cerrno>

namespace hearth {

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
