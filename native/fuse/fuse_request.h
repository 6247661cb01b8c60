// Requests as the kernel writes them to /dev/fuse: header and body, every length checked. The
// decoded views point into the buffer. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "fuse/fuse_abi.h"

namespace hearth {

struct FuseNameArgument {
  std::string_view name;  // no zero byte, not empty
};

struct FuseXattrArgument {
  std::uint32_t size = 0;  // of the caller's buffer; 0 asks for the value's size
  std::string_view name;   // empty for LISTXATTR
};

// A structure and the name behind it.
template <class T>
struct FuseNamed {
  T in{};
  std::string_view name;  // no zero byte, not empty
};

struct FuseRenameArgument {  // RENAME, RENAME2
  std::uint64_t newFolder = 0;
  std::uint32_t flags = 0;  // of renameat2(2)
  std::string_view from, to;
};

struct FuseSymlinkArgument {
  std::string_view name, target;
};

struct FuseSetXattrArgument {
  std::uint32_t flags = 0;  // of setxattr(2)
  std::string_view name, value;
};

struct FuseWriteArgument {
  fuse_write_in in;
  std::span<const std::byte> bytes;
};

struct FuseForgetArgument {  // FORGET, BATCH_FORGET
  std::vector<fuse_forget_one> nodes;
};

using FuseArguments =
    std::variant<std::monostate, fuse_init_in, FuseNameArgument, fuse_getattr_in, FuseStatxIn,
                 fuse_access_in, fuse_open_in, fuse_read_in, fuse_release_in, FuseXattrArgument,
                 fuse_ioctl_in, fuse_interrupt_in, fuse_setattr_in, FuseNamed<fuse_mknod_in>,
                 FuseNamed<fuse_mkdir_in>, FuseNamed<fuse_link_in>, FuseNamed<fuse_create_in>,
                 FuseRenameArgument, FuseSymlinkArgument, FuseSetXattrArgument, fuse_flush_in,
                 fuse_fsync_in, fuse_fallocate_in, FuseWriteArgument, FuseForgetArgument>;

struct FuseRequest {
  std::uint32_t opcode = 0;
  std::uint64_t unique = 0;  // as it is to be answered
  bool resent = false;       // an earlier agent read it, and may have acted on it
  std::uint64_t node = 0;
  std::uint32_t thread = 0, user = 0;  // of who asks; callerOf() interprets them
  std::uint32_t group = 0;
  FuseArguments arguments;  // monostate for operations that need none, or that we do not know
};

// The header alone; nothing when there is none, or its length is not the message's. What
// decodeRequest refuses can still be answered by this.
[[nodiscard]] bool decodeFuseHeader(std::span<const std::byte> message, fuse_in_header& header);

// kProtocolError when a length does not fit or a name is not terminated.
[[nodiscard]] Result<FuseRequest> decodeFuseRequest(std::span<const std::byte> message);

}  // namespace hearth
