#include "fuse/fuse_dispatcher.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fuse/advice_request.h"
#include "fuse/answer_init.h"
#include "fuse/caller.h"
#include "fuse/fuse_errno.h"

namespace hearth {
namespace {

bool isWriting(std::uint32_t opcode) {
  switch (opcode) {
    case FUSE_SETATTR:
    case FUSE_SYMLINK:
    case FUSE_MKNOD:
    case FUSE_MKDIR:
    case FUSE_UNLINK:
    case FUSE_RMDIR:
    case FUSE_RENAME:
    case FUSE_RENAME2:
    case FUSE_LINK:
    case FUSE_WRITE:
    case FUSE_SETXATTR:
    case FUSE_REMOVEXATTR:
    case FUSE_CREATE:
    case FUSE_FALLOCATE:
    case FUSE_COPY_FILE_RANGE:
    case FUSE_TMPFILE:
      return true;
    default:
      return false;
  }
}

std::span<const std::byte> bytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

FuseDispatcher::FuseDispatcher(std::shared_ptr<MountSource> source, OwnedFd device,
                               std::unique_ptr<OpenCounts> counts, FuseDispatcherOptions options)
    : source_(std::move(source)),
      device_(std::move(device)),
      counts_(std::move(counts)),
      options_(std::move(options)),
      passthrough_(options_.passthrough),
      tree_(*source_, passthrough_),
      files_(*source_, device_, *counts_, counters_, passthrough_),
      reads_(device_, counters_, options_.readAhead, options_.maxParkedReads) {
  if (!options_.passthrough) files_.disablePassthrough("passthrough is turned off for this mount");
}

void FuseDispatcher::resume(const std::optional<FuseNegotiated>& negotiated) {
  if (negotiated) take(*negotiated);
  files_.inherit();
  // Requests that the last agent read and did not answer. Kernels before 6.9 cannot resend: the
  // requests wait until the holder aborts the connection.
  device_.resend();
}

void FuseDispatcher::take(const FuseNegotiated& negotiated) {
  openlessDirectories_ = negotiated.openlessDirectories();
  canResend_ = negotiated.resend();
  if (canResend_) reads_.leaveLate();
  if (!negotiated.passthrough()) {
    files_.disablePassthrough("this kernel has no FUSE passthrough; Linux 6.9 has");
  }
}

Status FuseDispatcher::initialise(const FuseRequest& request) {
  const std::uint64_t wanted = kReadOnlyFlags | (options_.passthrough ? kFusePassthrough : 0);
  const auto answered = answerInit(device_, request, wanted, options_.saveState);
  if (!answered) return answered.error();
  if (*answered) take(**answered);
  return {};
}

Status FuseDispatcher::dispatch(std::span<const std::byte> message) {
  const auto decoded = decodeFuseRequest(message);
  if (!decoded) {
    fuse_in_header header{};
    if (decodeFuseHeader(message, header)) device_.replyError(header.unique, EINVAL);
    return {};
  }
  const FuseRequest& request = *decoded;
  counters_.operation(request.opcode);
  if (dispatchTree(request)) return {};
  switch (request.opcode) {
    case FUSE_INIT:
      return initialise(request);
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
      break;  // nothing is remembered, and nothing is answered
    case FUSE_OPEN:
      open(request);
      break;
    case FUSE_OPENDIR:
      openDirectory(request);
      break;
    case FUSE_RELEASE:
      release(request);
      break;
    case FUSE_READ:
      read(request);
      break;
    case FUSE_INTERRUPT:
      interrupt(request);
      break;
    case FUSE_IOCTL:
      ioctl(request);
      break;
    case FUSE_RELEASEDIR:
    case FUSE_DESTROY:
      device_.reply(request.unique, {});
      break;
    default:
      // ENOSYS once, and the kernel asks no more: FLUSH, FSYNC, LSEEK, POLL, ...
      device_.replyError(request.unique, isWriting(request.opcode) ? EROFS : ENOSYS);
  }
  return {};
}

template <class T>
void FuseDispatcher::answer(std::uint64_t unique, int error, const T& body) {
  if (error != 0) {
    device_.replyError(unique, error);
  } else {
    device_.replyWith(unique, body);
  }
}

bool FuseDispatcher::dispatchTree(const FuseRequest& request) {
  switch (request.opcode) {
    case FUSE_LOOKUP: {
      fuse_entry_out out{};
      const auto& name = std::get<FuseNameArgument>(request.arguments).name;
      const int error = tree_.lookUp(request.node, name, out);
      answer(request.unique, error, out);
      return true;
    }
    case FUSE_GETATTR: {
      fuse_attr_out out{};
      const int error = tree_.attributes(request.node, out);
      answer(request.unique, error, out);
      return true;
    }
    case kFuseStatx: {
      FuseStatxOut out{};
      const int error = tree_.statx(request.node, out);
      answer(request.unique, error, out);
      return true;
    }
    case FUSE_ACCESS:
      device_.replyError(
          request.unique,
          tree_.access(request.node, std::get<fuse_access_in>(request.arguments).mask));
      return true;
    case FUSE_STATFS:
      device_.replyWith(request.unique, tree_.statistics());
      return true;
    case FUSE_READLINK: {
      std::string_view target;
      const int error = tree_.readLink(request.node, target);
      if (error != 0) {
        device_.replyError(request.unique, error);
      } else {
        device_.reply(request.unique, bytesOf(target));
      }
      return true;
    }
    case FUSE_READDIR:
      readDirectory(request, false);
      return true;
    case FUSE_READDIRPLUS:
      readDirectory(request, true);
      return true;
    case FUSE_GETXATTR:
    case FUSE_LISTXATTR:
      xattr(request);
      return true;
    default:
      return false;
  }
}

void FuseDispatcher::readDirectory(const FuseRequest& request, bool plus) {
  const auto& in = std::get<fuse_read_in>(request.arguments);
  std::vector<std::byte> records;
  const std::uint32_t size = std::min(in.size, 1U << 20);
  records.reserve(size);
  if (const int error = tree_.readDirectory(request.node, in.offset, size, plus, records)) {
    device_.replyError(request.unique, error);
  } else {
    device_.reply(request.unique, records);
  }
}

void FuseDispatcher::xattr(const FuseRequest& request) {
  const auto& in = std::get<FuseXattrArgument>(request.arguments);
  std::string value;
  const bool byDaemon = files_.opensByDaemon(request.node);
  const int error = request.opcode == FUSE_GETXATTR
                        ? tree_.xattr(request.node, in.name, byDaemon, value)
                        : tree_.xattrNames(request.node, value);
  if (error != 0) {
    device_.replyError(request.unique, error);
  } else if (in.size == 0) {
    const auto size = static_cast<std::uint32_t>(value.size());
    device_.replyWith(request.unique, fuse_getxattr_out{.size = size, .padding = 0});
  } else if (value.size() > in.size) {
    device_.replyError(request.unique, ERANGE);
  } else {
    device_.reply(request.unique, bytesOf(value));
  }
}

void FuseDispatcher::openDirectory(const FuseRequest& request) {
  if (openlessDirectories_) {
    // No handles for folders, and the kernel caches what it read of them.
    device_.replyError(request.unique, ENOSYS);
    return;
  }
  FuseOpenOut out{};
  out.openFlags = FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR;
  device_.replyWith(request.unique, out);
}

void FuseDispatcher::open(const FuseRequest& request) {
  const auto& in = std::get<fuse_open_in>(request.arguments);
  ManifestEntry entry;
  int error = tree_.entryOf(request.node, entry);
  if (error == 0 && entry.kind != EntryKind::kFile) error = EISDIR;
  if (error == 0 && ((in.flags & O_ACCMODE) != O_RDONLY || (in.flags & O_TRUNC) != 0))
    error = EROFS;
  OpenAnswer opened;
  if (error == 0) error = files_.open(request.node, entry, opened);
  if (error != 0) {
    device_.replyError(request.unique, error);
    return;
  }
  FuseOpenOut out{};
  out.handle = static_cast<std::uint64_t>(opened.mode);
  out.backingId = opened.backingId;
  // The data are immutable: pages stay right, unless they came before the whole file was found
  // wrong. No FLUSH: close() would wait for an agent, also of files that need none to be read.
  out.openFlags = FOPEN_NOFLUSH;
  if (opened.mode == OpenMode::kPassthrough) out.openFlags |= kFopenPassthrough;
  if (opened.keepsPages) out.openFlags |= FOPEN_KEEP_CACHE;
  // An open that the kernel did not get is never released.
  if (!device_.replyWith(request.unique, out)) {
    files_.release(request.node, opened.mode);
  } else if (opened.mode == OpenMode::kDaemon && !opened.keepsPages) {
    files_.pagesDropped(request.node, opened.withdrawn);
  }
}

void FuseDispatcher::release(const FuseRequest& request) {
  // Answered first: if we die in between, the file counts as open, which is the safe mistake; the
  // other order would let a request that is sent again count it twice.
  device_.reply(request.unique, {});
  files_.release(request.node,
                 static_cast<OpenMode>(std::get<fuse_release_in>(request.arguments).fh));
}

void FuseDispatcher::read(const FuseRequest& request) {
  const auto& in = std::get<fuse_read_in>(request.arguments);
  ManifestEntry entry;
  int error = tree_.entryOf(request.node, entry);
  if (error == 0 && entry.kind != EntryKind::kFile) error = EISDIR;
  if (error != 0) {
    device_.replyError(request.unique, error);
    return;
  }
  const FuseReads::Request wanted{
      .unique = request.unique,
      .offset = in.offset,
      .length = in.size,
      .owner = weak_from_this(),
      .failed = [source = source_, index = entry.index](const Error& reason) {
        source->failed(index, reason);
      }};
  if (const auto reading = files_.reading(entry)) {
    reads_.read(wanted, *reading);
  } else {
    reads_.fail(wanted, reading.error());
  }
}

void FuseDispatcher::interrupt(const FuseRequest& request) {
  reads_.interrupt(std::get<fuse_interrupt_in>(request.arguments).unique);
}

void FuseDispatcher::ioctl(const FuseRequest& request) {
  const auto& in = std::get<fuse_ioctl_in>(request.arguments);
  ManifestEntry entry;
  int error = tree_.entryOf(request.node, entry);
  const std::optional<Advice> advice = adviceOf(in.cmd);
  if (error == 0 && !advice) error = ENOTTY;
  // A file that the caller alone has open in a way that evicting would not free is advised when it
  // is closed.
  const std::uint64_t reader = error == 0 ? callerOf(request.thread, request.user) : 0;
  const bool needed = advice == Advice::kWillNeed || advice == Advice::kWillNeedCluster;
  if (error == 0 && needed) files_.willNeed(entry.index);
  if (error == 0 && (advice != Advice::kDontNeed || files_.dontNeed(entry.index, reader))) {
    const Status advised = source_->advise(entry.index, *advice, reader);
    if (!advised) error = adviceErrno(advised.code());
  }
  answer(request.unique, error, fuse_ioctl_out{});
}

void FuseDispatcher::close(std::chrono::milliseconds limit, bool leave) {
  reads_.close(limit, leave && canResend_);
}

}  // namespace hearth
