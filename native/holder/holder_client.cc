#include "holder/holder_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace hearth {
namespace {

constexpr char kNoHolder[] = "; is hearth-holder running?";

Error lost(int error, const char* what) {
  if (error == EAGAIN || error == EWOULDBLOCK) {
    return {ErrorCode::kDeadlineExceeded, "the mount holder does not answer in time"};
  }
  return errnoError(error, what);
}

}  // namespace

Result<std::unique_ptr<HolderClient>> HolderClient::connect(const std::string& socketPath,
                                                            std::chrono::milliseconds deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socketPath.empty() || socketPath.size() >= sizeof address.sun_path) {
    return Error{ErrorCode::kInvalidArgument,
                 "holder socket '" + socketPath + "' is empty or longer than 107 bytes"};
  }
  std::memcpy(address.sun_path, socketPath.c_str(), socketPath.size() + 1);
  OwnedFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return errnoError(errno, "create a Unix socket");
  const timeval limit{deadline.count() / 1000, (deadline.count() % 1000) * 1000};
  if (setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) {
    return errnoError(errno, "set the holder socket's deadline");
  }
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) {
      return Error{ErrorCode::kUnavailable, "no mount holder at " + socketPath + kNoHolder};
    }
    return errnoError(errno, "connect to the mount holder at " + socketPath);
  }
  return std::unique_ptr<HolderClient>(new HolderClient(std::move(socket)));
}

Result<std::vector<HeldMount>> HolderClient::attach(const std::string& owner) {
  HolderRequest request;
  request.kind = HolderRequestKind::kAttach;
  request.owner = owner;
  if (auto attached = call(std::move(request)); !attached) return attached.error();
  std::vector<HeldMount> mounts;
  for (std::string after;;) {
    HolderRequest take;
    take.kind = HolderRequestKind::kTake;
    take.target = after;
    auto answer = call(std::move(take));
    if (!answer) return answer.error();
    if (!answer->reply.record) return mounts;
    auto mount = held(std::move(*answer));
    if (!mount) return mount.error();
    after = mount->record.target;
    mounts.push_back(std::move(*mount));
  }
}

Result<HeldMount> HolderClient::mount(const HolderMountRequest& wanted) {
  if (wanted.blob.size() > kMaxHolderBlob || wanted.source.size() > kMaxHolderText ||
      wanted.target.size() > kMaxHolderPath || wanted.selinuxContext.size() > kMaxHolderText) {
    return Error{ErrorCode::kInvalidArgument,
                 "mount request: a value is longer than the holder takes"};
  }
  HolderRequest request;
  request.kind = HolderRequestKind::kMount;
  request.target = wanted.target;
  request.source = wanted.source;
  request.blob = wanted.blob;
  request.selinuxContext = wanted.selinuxContext;
  request.readAheadKiB = wanted.readAheadKiB;
  auto answer = call(std::move(request));
  if (!answer) return answer.error();
  return held(std::move(*answer));
}

Status HolderClient::saveState(const std::string& target, const std::string& state) {
  HolderRequest request;
  request.kind = HolderRequestKind::kSaveState;
  request.target = target;
  request.state = state;
  const auto answer = call(std::move(request));
  return answer ? Status() : Status(answer.error());
}

Status HolderClient::unmount(const std::string& target, bool force) {
  HolderRequest request;
  request.kind = HolderRequestKind::kUnmount;
  request.target = target;
  request.force = force;
  const auto answer = call(std::move(request));
  return answer ? Status() : Status(answer.error());
}

Result<std::vector<HolderRecord>> HolderClient::list() {
  std::vector<HolderRecord> records;
  for (;;) {
    HolderRequest request;
    request.kind = HolderRequestKind::kList;
    if (!records.empty()) request.target = records.back().target;
    auto answer = call(std::move(request));
    if (!answer) return answer.error();
    if (!answer->reply.record) return records;
    records.push_back(std::move(*answer->reply.record));
  }
}

Result<HeldMount> HolderClient::held(Answer answer) {
  if (!answer.reply.record || answer.descriptors.size() != 2) {
    return Error{ErrorCode::kProtocolError, "the mount holder's answer has no mount in it"};
  }
  return HeldMount{std::move(*answer.reply.record), std::move(answer.descriptors[0]),
                   std::move(answer.descriptors[1])};
}

Result<HolderClient::Answer> HolderClient::call(HolderRequest request) {
  const std::lock_guard lock(mutex_);
  if (broken_) {
    return Error{ErrorCode::kUnavailable,
                 "the connection to the mount holder is lost; connect again"};
  }
  request.sequence = ++sequence_;
  const std::vector<std::byte> bytes = encode(request);
  if (send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    broken_ = true;
    return lost(errno, "send to the mount holder");
  }
  auto answer = receive();
  // An answer that comes late would be taken for that of the next request.
  if (!answer) {
    broken_ = true;
    return answer.error();
  }
  const HolderReply& reply = answer->reply;
  if (reply.code != ErrorCode::kOk) return Error{reply.code, reply.message};
  if (reply.sequence != request.sequence) {
    broken_ = true;
    return Error{ErrorCode::kProtocolError, "the mount holder answered another request"};
  }
  return answer;
}

Result<HolderClient::Answer> HolderClient::receive() {
  std::array<std::byte, kMaxHolderMessage + 1> buffer;
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return lost(errno, "receive from the mount holder");
  Answer answer;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      answer.descriptors.emplace_back(fd);
    }
  }
  if (size == 0) {
    return Error{ErrorCode::kUnavailable,
                 std::string("the mount holder closed the connection") + kNoHolder};
  }
  if ((message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0) {
    return Error{ErrorCode::kUnavailable,
                 "the mount holder's descriptors did not arrive; raise the limit of open files"};
  }
  auto reply = decodeHolderReply(std::span(buffer).first(static_cast<std::size_t>(size)));
  if (!reply) return reply.error();
  answer.reply = std::move(*reply);
  return answer;
}

bool HolderClient::alive() {
  const std::lock_guard lock(mutex_);
  if (broken_) return false;
  pollfd end{socket_.get(), POLLRDHUP, 0};
  return poll(&end, 1, 0) == 0;
}

}  // namespace hearth
