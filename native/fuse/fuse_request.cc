#include "fuse/fuse_request.h"

#include <cstring>
#include <string>

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

// A zero-terminated name that fills `body`.
bool takeName(std::span<const std::byte> body, std::string_view& name) {
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  const std::size_t end = text.find('\0');
  if (end == std::string_view::npos || end == 0) return false;
  name = text.substr(0, end);
  return true;
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

Status takeArguments(std::span<const std::byte> body, FuseRequest& request) {
  switch (request.opcode) {
    case FUSE_INIT:
      return takeInit(body, request);
    case FUSE_LOOKUP: {
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
    default:
      return {};
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
  if (Status taken = takeArguments(message.subspan(sizeof header), request); !taken) {
    return taken.error();
  }
  return request;
}

}  // namespace hearth
