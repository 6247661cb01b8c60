#include "volume_mount/volume_service.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "fuse/caller.h"
#include "reactor/blocking_call.h"
#include "volume_mount/volume_attributes.h"

namespace hearth {
namespace {

// Compared, never interpreted.
std::uint32_t processOf(const FuseRequest& request) {
  return static_cast<std::uint32_t>(callerOf(request.thread, request.user));
}

bool opensForWriting(const FuseRequest& request) {
  if (const auto* const create = std::get_if<FuseNamed<fuse_create_in>>(&request.arguments))
    return (create->in.flags & (O_ACCMODE | O_TRUNC)) != 0;
  return request.opcode == FUSE_OPEN &&
         (std::get<fuse_open_in>(request.arguments).flags & (O_ACCMODE | O_TRUNC)) != 0;
}

}  // namespace

Result<std::shared_ptr<VolumeService>> VolumeService::create(std::shared_ptr<VolumeFiles> files,
                                                             OwnedFd device, const OwnedFd& memory,
                                                             VolumeServiceOptions options) {
  auto nodes = NodeTable::map(memory);
  if (!nodes) return nodes.error();
  auto watch = MountWatch::map(memory);
  if (!watch) return watch.error();
  std::shared_ptr<VolumeService> service(new VolumeService(std::move(files), std::move(device),
                                                           std::move(*nodes), std::move(*watch),
                                                           std::move(options)));
  service->files_->reactor().post([files = service->files_, asked = service->asked_] {
    files->addOpenFiles([asked](tree::InodeId inode, tree::SessionId session) {
      return *asked != nullptr && (*asked)->isOpen(inode, session);
    });
  });
  return service;
}

Result<std::vector<InheritedWriter>> VolumeService::inherited(const OwnedFd& memory) {
  const auto nodes = NodeTable::map(memory);
  if (!nodes) return nodes.error();
  std::vector<InheritedWriter> writers;
  (*nodes)->each([&](VolumeNode& node) {
    if (node.writers != 0)
      writers.push_back({node.inode, node.writers, node.session, node.device, node.file});
  });
  return writers;
}

VolumeService::VolumeService(std::shared_ptr<VolumeFiles> files, OwnedFd device,
                             std::unique_ptr<NodeTable> nodes, MountWatch watch,
                             VolumeServiceOptions options)
    : files_(std::move(files)),
      device_(std::move(device)),
      options_(std::move(options)),
      nodes_(std::move(nodes)),
      watch_(std::move(watch)),
      left_(watch_.left()),
      asked_(std::make_shared<std::shared_ptr<NodeTable>>(nodes_)),
      reads_(device_, counters_, options_.readAhead, options_.maxParkedReads),
      opens_(device_, *nodes_, counters_),
      answers_(device_),
      requests_(*files_, opens_, *nodes_, answers_, reads_),
      running_(files_->reactor()) {}

void VolumeService::resume(const std::optional<FuseNegotiated>& negotiated) {
  if (negotiated) take(*negotiated);
  device_.resend();
}

void VolumeService::take(const FuseNegotiated& negotiated) {
  canResend_ = negotiated.resend();
  if (canResend_) reads_.leaveLate();
  if (!negotiated.passthrough()) {
    opens_.disablePassthrough("this kernel has no FUSE passthrough; Linux 6.9 has");
  }
}

Task<Status> VolumeService::initialise(const FuseRequest& request) {
  using Answered = Result<std::optional<FuseNegotiated>>;
  auto answer = [&] { return answerInit(device_, request, kWritableFlags, options_.saveState); };
  const Answered answered = co_await reactor().offload(*options_.threads, answer);
  if (!answered.ok()) co_return answered.error();
  if (*answered) take(**answered);
  co_return Status();
}

Task<Status> VolumeService::dispatch(std::span<const std::byte> message) {
  const auto decoded = decodeFuseRequest(message);
  if (!decoded) {
    fuse_in_header header{};
    if (decodeFuseHeader(message, header)) device_.replyError(header.unique, EINVAL);
    co_return Status();
  }
  counters_.operation(decoded->opcode);
  if (decoded->opcode == FUSE_INIT) co_return co_await initialise(*decoded);
  if (!answerHere(*decoded)) serve(message, *decoded);
  co_return Status();
}

bool VolumeService::answerHere(const FuseRequest& request) {
  switch (request.opcode) {
    case FUSE_READ:
      read(request);
      return true;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
      forget(request);
      return true;
    case FUSE_INTERRUPT:
      // Reads alone end early, as on every mount. Other requests end by the volume's deadline:
      // their callers do not expect EINTR of local files, and signals are frequent (Go's SIGURG).
      reads_.interrupt(std::get<fuse_interrupt_in>(request.arguments).unique);
      return true;
    case FUSE_OPENDIR:  // nothing to remember, and nothing to keep: other nodes change folders
      device_.replyWith(request.unique, FuseOpenOut{});
      return true;
    case FUSE_RELEASEDIR:
    case FUSE_FSYNCDIR:  // a change is in the leader's log when it is answered
    case FUSE_DESTROY:
      device_.reply(request.unique, {});
      return true;
    case FUSE_GETXATTR:
      return refuseXattr(request);
    case FUSE_TMPFILE:
      device_.replyError(request.unique, EOPNOTSUPP);
      return true;
    case FUSE_IOCTL:
      device_.replyError(request.unique, ENOTTY);
      return true;
    case FUSE_LOOKUP:
    case FUSE_GETATTR:
    case FUSE_SETATTR:
    case FUSE_READLINK:
    case FUSE_SYMLINK:
    case FUSE_MKNOD:
    case FUSE_MKDIR:
    case FUSE_UNLINK:
    case FUSE_RMDIR:
    case FUSE_RENAME:
    case FUSE_RENAME2:
    case FUSE_LINK:
    case FUSE_CREATE:
    case FUSE_OPEN:
    case FUSE_WRITE:
    case FUSE_FLUSH:
    case FUSE_FSYNC:
    case FUSE_FALLOCATE:
    case FUSE_RELEASE:
    case FUSE_STATFS:
    case FUSE_SETXATTR:
    case FUSE_LISTXATTR:
    case FUSE_REMOVEXATTR:
    case FUSE_READDIR:
    case FUSE_READDIRPLUS:
      return false;
    default:
      // The kernel asks no more, and does without: LSEEK, COPY_FILE_RANGE, STATX, ACCESS, POLL, ...
      device_.replyError(request.unique, ENOSYS);
      return true;
  }
}

// The kernel asks for security.capability before the first write to each file.
bool VolumeService::refuseXattr(const FuseRequest& request) {
  const std::string_view name = std::get<FuseXattrArgument>(request.arguments).name;
  if (keepsXattr(name)) return false;
  device_.replyError(request.unique, name.starts_with("security.") ? ENODATA : EOPNOTSUPP);
  return true;
}

void VolumeService::read(const FuseRequest& request) {
  const auto& in = std::get<fuse_read_in>(request.arguments);
  if (!reads_.begin(request.unique, request.node, Clock::now())) return;
  FuseReads::Request wanted{.unique = request.unique,
                            .offset = in.offset,
                            .length = in.size,
                            .owner = weak_from_this(),
                            .failed = options_.readFailed};
  if (VolumeHandle::decode(in.fh).idle)
    return running_.spawn(requests_.readIdle(std::move(wanted), request.node));
  const auto reading = opens_.reading(request.node);
  if (!reading) return running_.spawn(requests_.readInherited(std::move(wanted), request.node));
  options_.threads->run([self = shared_from_this(), wanted = std::move(wanted), reading] {
    self->reads_.read(wanted, reading);
  });
}

void VolumeService::forget(const FuseRequest& request) {
  for (const fuse_forget_one& one : std::get<FuseForgetArgument>(request.arguments).nodes) {
    if ((one.nodeid & kAlternativeNode) != 0) opens_.forget(one.nodeid, one.nlookup);
  }
}

void VolumeService::tick() {
  const Clock::time_point now = Clock::now();
  const Clock::duration deadline = files_->deadline();
  watch_.serve(now, deadline);
  answers_.endOverdue(now, deadline, [this](std::uint64_t node) {
    const tree::InodeId inode = opens_.inodeOf(node);
    return inode == tree::kNoInode ? Clock::time_point() : files_->lastProgress(inode);
  });
  reads_.endOverdue(now - deadline, now);
  const std::uint64_t overdue = answers_.overdue() + reads_.overdue();
  files_->reportEnded(overdue - std::exchange(overdue_, overdue), watch_.takeEnded());
}

bool VolumeService::askAgain() {
  const std::uint64_t left = watch_.left();
  return std::exchange(left_, left) != left && device_.resend();
}

void VolumeService::serve(std::span<const std::byte> message, const FuseRequest& request) {
  switch (answers_.begin(request.unique, request.opcode, request.node)) {
    case VolumeAnswers::Begun::kYes:
      break;
    case VolumeAnswers::Begun::kAgain:
    case VolumeAnswers::Begun::kRefused:
      return;
    case VolumeAnswers::Begun::kClosed:
      if (!canResend_) device_.replyError(request.unique, EIO);
      return;
  }
  auto served = std::make_shared<VolumeRequest>();
  served->message.assign(message.begin(), message.end());
  // Again, so that names point into the copy.
  served->fuse = *decodeFuseRequest(served->message);
  if (request.opcode == FUSE_FLUSH || opensForWriting(request))
    served->process = processOf(request);
  running_.spawn(requests_.serve(std::move(served)));
}

Task<bool> VolumeService::finish(bool handsOver) {
  co_await files_->reactor().enter();
  co_await running_.close();
  if (handsOver) co_return true;
  asked_->reset();
  // No RELEASE comes any more. A program that still writes keeps its file from being sealed.
  std::vector<InheritedWriter> left;
  nodes_->each([&](VolumeNode& node) {
    if (node.writers != 0)
      left.push_back({.inode = node.inode, .handles = std::exchange(node.writers, 0)});
  });
  for (const InheritedWriter& writer : left) {
    for (std::uint32_t i = 0; i < writer.handles; ++i) co_await files_->closeWriter(writer.inode);
  }
  co_return true;
}

void VolumeService::close(std::chrono::milliseconds limit, bool leave) {
  answers_.close(limit, leave && canResend_);
  reads_.close(limit, leave && canResend_);
  runOn(files_->reactor(), finish(leave));
}

}  // namespace hearth
