#include "fuse/fuse_request.h"

#include <cstring>
#include <string>
#include <utility>

namespace hearth {
namespace {

Error malformed(std::uint32_t opcode, const char* why) {
  return {ErrorCode::kProtocolError,
          "FUSE request with opcode " + std::to_string(opcode) + ": " + why};
}

// The structure at the front of `body`. Newer kernels may append fields.
template <class T>
bool take(std::span<const std::byte>& body, T& into) {
  if (body.size() < sizeof into) return false;
  std::memcpy(&into, body.data(), sizeof into);
  body = body.subspan(sizeof into);
  return true;
}

// A zero-terminated text at the front of `body`.
bool takeText(std::span<const std::byte>& body, std::string_view& text) {
  const std::string_view all(reinterpret_cast<const char*>(body.data()), body.size());
  const std::size_t end = all.find('\0');
  if (end == std::string_view::npos) return false;
  text = all.substr(0, end);
  body = body.subspan(end + 1);
  return true;
}

bool takeName(std::span<const std::byte>& body, std::string_view& name) {
  return takeText(body, name) && !name.empty();
}

template <class T>
Status takeStructure(std::span<const std::byte> body, FuseRequest& request) {
  T value{};
  if (!take(body, value)) return malformed(request.opcode, "its body is too short");
  request.arguments = value;
  return {};
}

Status takeInit(std::span<const std::byte> body, FuseRequest& request) {
  // Before 7.36 the structure ended after `flags`.
  fuse_init_in init{};
  constexpr std::size_t kShort = offsetof(fuse_init_in, flags2);
  if (body.size() < kShort) return malformed(request.opcode, "its body is too short");
  std::memcpy(&init, body.data(), body.size() < sizeof init ? body.size() : sizeof init);
  request.arguments = init;
  return {};
}

Status takeXattr(std::span<const std::byte> body, FuseRequest& request) {
  fuse_getxattr_in in{};
  FuseXattrArgument argument;
  if (!take(body, in)) return malformed(request.opcode, "its body is too short");
  argument.size = in.size;
  if (request.opcode == FUSE_GETXATTR && !takeName(body, argument.name)) {
    return malformed(request.opcode, "its name is not terminated");
  }
  request.arguments = argument;
  return {};
}

template <class T>
Status takeNamed(std::span<const std::byte> body, FuseRequest& request) {
  FuseNamed<T> argument;
  if (!take(body, argument.in)) return malformed(request.opcode, "its body is too short");
  if (!takeName(body, argument.name))
    return malformed(request.opcode, "its name is not terminated");
  request.arguments = argument;
  return {};
}

template <class T>
Status takeRename(std::span<const std::byte> body, FuseRequest& request) {
  T in{};
  FuseRenameArgument argument;
  if (!take(body, in)) return malformed(request.opcode, "its body is too short");
  argument.newFolder = in.newdir;
  if constexpr (requires { in.flags; }) argument.flags = in.flags;
  if (!takeName(body, argument.from) || !takeName(body, argument.to)) {
    return malformed(request.opcode, "its names are not terminated");
  }
  request.arguments = argument;
  return {};
}

Status takeSymlink(std::span<const std::byte> body, FuseRequest& request) {
  FuseSymlinkArgument argument;
  if (!takeName(body, argument.name) || !takeText(body, argument.target)) {
    return malformed(request.opcode, "its texts are not terminated");
  }
  request.arguments = argument;
  return {};
}

// Without FUSE_SETXATTR_EXT, which we never ask for, the structure ends after its flags.
Status takeSetXattr(std::span<const std::byte> body, FuseRequest& request) {
  struct Short {
    std::uint32_t size, flags;
  } in{};
  static_assert(sizeof in == FUSE_COMPAT_SETXATTR_IN_SIZE);
  FuseSetXattrArgument argument;
  if (!take(body, in)) return malformed(request.opcode, "its body is too short");
  if (!takeName(body, argument.name))
    return malformed(request.opcode, "its name is not terminated");
  if (body.size() < in.size) return malformed(request.opcode, "its value is cut off");
  argument.flags = in.flags;
  argument.value = {reinterpret_cast<const char*>(body.data()), in.size};
  request.arguments = argument;
  return {};
}

Status takeWrite(std::span<const std::byte> body, FuseRequest& request) {
  FuseWriteArgument argument{};
  if (!take(body, argument.in)) return malformed(request.opcode, "its body is too short");
  if (body.size() != argument.in.size) return malformed(request.opcode, "its bytes are cut off");
  argument.bytes = body;
  request.arguments = argument;
  return {};
}

Status takeForget(std::span<const std::byte> body, FuseRequest& request) {
  FuseForgetArgument argument;
  if (request.opcode == FUSE_FORGET) {
    fuse_forget_in in{};
    if (!take(body, in)) return malformed(request.opcode, "its body is too short");
    argument.nodes.push_back({request.node, in.nlookup});
  } else {
    fuse_batch_forget_in in{};
    if (!take(body, in) || body.size() / sizeof(fuse_forget_one) < in.count) {
      return malformed(request.opcode, "its body is too short");
    }
    argument.nodes.resize(in.count);
    if (in.count != 0) {
      std::memcpy(argument.nodes.data(), body.data(), in.count * sizeof(fuse_forget_one));
    }
  }
  request.arguments = std::move(argument);
  return {};
}

// Of requests that change something.
Status takeChange(std::span<const std::byte> body, FuseRequest& request) {
  switch (request.opcode) {
    case FUSE_SETATTR:
      return takeStructure<fuse_setattr_in>(body, request);
    case FUSE_MKNOD:
      return takeNamed<fuse_mknod_in>(body, request);
    case FUSE_MKDIR:
      return takeNamed<fuse_mkdir_in>(body, request);
    case FUSE_LINK:
      return takeNamed<fuse_link_in>(body, request);
    case FUSE_CREATE:
      return takeNamed<fuse_create_in>(body, request);
    case FUSE_RENAME:
      return takeRename<fuse_rename_in>(body, request);
    case FUSE_RENAME2:
      return takeRename<fuse_rename2_in>(body, request);
    case FUSE_SYMLINK:
      return takeSymlink(body, request);
    case FUSE_SETXATTR:
      return takeSetXattr(body, request);
    case FUSE_FLUSH:
      return takeStructure<fuse_flush_in>(body, request);
    case FUSE_FSYNC:
      return takeStructure<fuse_fsync_in>(body, request);
    case FUSE_WRITE:
      return takeWrite(body, request);
    case FUSE_FALLOCATE:
      return takeStructure<fuse_fallocate_in>(body, request);
    default:
      return {};
  }
}

Status takeArguments(std::span<const std::byte> body, FuseRequest& request) {
  switch (request.opcode) {
    case FUSE_INIT:
      return takeInit(body, request);
    case FUSE_LOOKUP:
    case FUSE_UNLINK:
    case FUSE_RMDIR:
    case FUSE_REMOVEXATTR: {
      FuseNameArgument argument;
      if (!takeName(body, argument.name))
        return malformed(request.opcode, "its name is not terminated");
      request.arguments = argument;
      return {};
    }
    case FUSE_GETATTR:
      return takeStructure<fuse_getattr_in>(body, request);
    case kFuseStatx:
      return takeStructure<FuseStatxIn>(body, request);
    case FUSE_ACCESS:
      return takeStructure<fuse_access_in>(body, request);
    case FUSE_OPEN:
    case FUSE_OPENDIR:
      return takeStructure<fuse_open_in>(body, request);
    case FUSE_READ:
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
      return takeStructure<fuse_read_in>(body, request);
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
      return takeStructure<fuse_release_in>(body, request);
    case FUSE_GETXATTR:
    case FUSE_LISTXATTR:
      return takeXattr(body, request);
    case FUSE_IOCTL:
      return takeStructure<fuse_ioctl_in>(body, request);
    case FUSE_INTERRUPT:
      return takeStructure<fuse_interrupt_in>(body, request);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
      return takeForget(body, request);
    default:
      return takeChange(body, request);
  }
}

}  // namespace

bool decodeFuseHeader(std::span<const std::byte> message, fuse_in_header& header) {
  return take(message, header) && header.len == message.size() + sizeof header;
}

Result<FuseRequest> decodeFuseRequest(std::span<const std::byte> message) {
  fuse_in_header header{};
  if (!decodeFuseHeader(message, header)) {
    return Error{ErrorCode::kProtocolError, "FUSE request whose header does not fit its length"};
  }
  FuseRequest request;
  request.opcode = header.opcode;
  request.unique = header.unique;
  request.resent = (header.unique & kFuseUniqueResend) != 0;
  request.node = header.nodeid;
  request.thread = header.pid;
  request.user = header.uid;
  request.group = header.gid;
  if (Status taken = takeArguments(message.subspan(sizeof header), request); !taken) {
    return taken.error();
  }
  return request;
}

}  // namespace hearth
