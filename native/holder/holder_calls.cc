#include "holder/holder_calls.h"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <chrono>

#include "base/clock.h"
#include "holder/fuse_backing.h"

namespace hearth {
namespace {

using Kind = HolderRequestKind;

Result<HolderAnswer> outcome(const Status& status) {
  if (!status) return status.error();
  return HolderAnswer();
}

}  // namespace

HolderReply HolderCalls::failed(std::uint32_t sequence, const Error& error) {
  HolderReply reply;
  reply.sequence = sequence;
  reply.code = error.code;
  reply.message = error.message;
  return reply;
}

HolderAnswer HolderCalls::answer(const HolderCaller& caller, const HolderRequest& request,
                                 std::vector<OwnedFd> descriptors) {
  if (!request.unsupported.empty()) {
    const Error error{ErrorCode::kUnsupported, request.unsupported};
    return {failed(request.sequence, error), {}};
  }
  auto answer = open(caller, request, std::move(descriptors));
  if (!answer) return {failed(request.sequence, answer.error()), {}};
  answer->reply.sequence = request.sequence;
  return std::move(*answer);
}

Result<HolderAnswer> HolderCalls::open(const HolderCaller& caller, const HolderRequest& request,
                                       std::vector<OwnedFd> descriptors) {
  switch (request.kind) {
    case Kind::kHello: {
      HolderAnswer answer;
      answer.reply.hello = hello_;
      return answer;
    }
    case Kind::kUnmount:
      return outcome(mounts_.unmount(request.target, request.force));
    case Kind::kList:
      return describe(mounts_.next(request.target, ""), false);
    case Kind::kHandOver:
      return handOver(request.position);
    case Kind::kHandOverSocket:  // the server's
    case Kind::kHandOverDone:
      return HolderAnswer();
    case Kind::kAttach: {
      const std::string who = "the agent with pid " + std::to_string(caller.pid);
      OwnedFd process(caller.process < 0 ? -1 : fcntl(caller.process, F_DUPFD_CLOEXEC, 0));
      const auto count =
          mounts_.attach(request.owner, caller.id, who, request.continues, std::move(process));
      if (!count) return count.error();
      HolderAnswer answer;
      answer.reply.count = *count;
      return answer;
    }
    default:
      break;
  }
  const auto owner = mounts_.ownerOf(caller.id);
  if (!owner) return owner.error();
  return owned(*owner, caller, request, std::move(descriptors));
}

Result<HolderAnswer> HolderCalls::owned(const std::string& owner, const HolderCaller& caller,
                                        const HolderRequest& request,
                                        std::vector<OwnedFd> descriptors) {
  switch (request.kind) {
    case Kind::kTake:
      return describe(mounts_.next(request.target, owner), true);
    case Kind::kMount: {
      const auto mounted = mounts_.mount(owner, request);
      if (!mounted) return mounted.error();
      return describe(*mounted, true);
    }
    case Kind::kRegister: {
      const auto mounted = mounts_.enroll(owner, request, std::move(descriptors));
      if (!mounted) return mounted.error();
      return describe(*mounted, false);
    }
    case Kind::kSaveState:
      return outcome(mounts_.saveState(owner, request.target, request.state));
    case Kind::kOpenBacking:
    case Kind::kCloseBacking:
      return ofBacking(owner, request, descriptors);
    default:
      return ofMemory(owner, caller, request, std::move(descriptors));
  }
}

Result<HolderAnswer> HolderCalls::ofMemory(const std::string& owner, const HolderCaller& caller,
                                           const HolderRequest& request,
                                           std::vector<OwnedFd> descriptors) {
  HeldMemory& memory = mounts_.memory();
  switch (request.kind) {
    case Kind::kKeepMemory:
      if (descriptors.size() != 1) {
        return Error{ErrorCode::kInvalidArgument, "memory to be kept comes with its descriptor"};
      }
      return outcome(memory.keep(owner, request, std::move(descriptors.front())));
    case Kind::kOpenFolder: {
      const auto kept = memory.openFolder(owner, request, caller.user, caller.group);
      if (!kept) return kept.error();
      return describe(*kept, true);
    }
    case Kind::kTakeMemory: {
      const auto kept = memory.find(owner, request.name);
      if (!kept) return kept.error();
      return describe(*kept, true);
    }
    case Kind::kListMemory:
      return describe(memory.next(owner, request.name), false);
    case Kind::kDropMemory:
      return outcome(mounts_.dropMemory(owner, request.name));
    default:
      return Error{ErrorCode::kUnsupported, "the holder does not do that"};
  }
}

Result<HolderAnswer> HolderCalls::ofBacking(const std::string& owner, const HolderRequest& request,
                                            const std::vector<OwnedFd>& descriptors) {
  const auto mount = mounts_.mountOf(owner, request.target);
  if (!mount) return mount.error();
  const int device = (*mount)->device.get();
  HolderAnswer answer;
  if (request.kind == Kind::kCloseBacking) {
    // It fails only when the connection has ended, and the id with it.
    [[maybe_unused]] const int closed = ioctl(device, kFuseBackingClose, &request.backingId);
    return answer;
  }
  if (descriptors.size() != 1) {
    return Error{ErrorCode::kInvalidArgument, "a backing file comes as a descriptor"};
  }
  const FuseBackingMap map{.fd = descriptors.front().get(), .flags = 0, .padding = 0};
  const int id = ioctl(device, kFuseBackingOpen, &map);
  if (id <= 0) return errnoError(errno, "passthrough of a file on " + request.target);
  answer.reply.backingId = static_cast<std::uint32_t>(id);
  return answer;
}

HolderAnswer HolderCalls::handOver(std::size_t position) const {
  if (position < mounts_.size()) return describe(mounts_.at(position), true);
  return describe(mounts_.memory().at(position - mounts_.size()), true);
}

HolderAnswer HolderCalls::describe(const HeldMounts::Mount* mount, bool descriptors) const {
  HolderAnswer answer;
  if (mount == nullptr) return answer;
  answer.reply.record = mounts_.describe(*mount, Clock::now());
  // An aborted mount has no device any more.
  if (descriptors && mount->device) {
    answer.descriptors = {mount->device.get(), mount->shared.get()};
  }
  return answer;
}

HolderAnswer HolderCalls::describe(const HeldMemory::Kept* kept, bool descriptors) const {
  HolderAnswer answer;
  if (kept == nullptr) return answer;
  answer.reply.memory = mounts_.describe(*kept, Clock::now());
  if (descriptors) answer.descriptors = {kept->descriptor.get()};
  return answer;
}

}  // namespace hearth
