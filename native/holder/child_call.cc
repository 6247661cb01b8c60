#include "holder/child_call.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <span>

#include "base/byte_codec.h"
#include "base/clock.h"
#include "holder/holder_socket.h"

namespace hearth {
namespace {

// Where the child keeps its end of the channel: above the standard descriptors.
constexpr int kChannel = 3;

[[noreturn]] void runChild(pid_t parent, OwnedFd channel, int kept,
                           const std::function<ChildAnswer()>& work) {
  endWithParent(parent);
  // Neither comes into the way of the other.
  const int descriptor = kept < 0 ? -1 : fcntl(kept, F_DUPFD, ChildCalls::kDescriptor + 1);
  // A child that hangs must not keep connections and files of ours alive.
  if (channel.get() != kChannel) dup2(channel.get(), kChannel);
  if (descriptor >= 0) dup2(descriptor, ChildCalls::kDescriptor);
  close_range(descriptor < 0 ? kChannel + 1 : ChildCalls::kDescriptor + 1, ~0U, 0);
  const ChildAnswer answer = work();
  const int given = answer.descriptor.get();
  // One byte more, because an empty datagram would be the end of the channel.
  const std::string bytes = answer.bytes + '\0';
  const bool sent = sendDatagram(kChannel, std::as_bytes(std::span(bytes)),
                                 std::span(&given, given >= 0 ? 1U : 0U), 0);
  _exit(sent ? 0 : 1);
}

}  // namespace

void endWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

ChildCalls::~ChildCalls() {
  for (const pid_t child : hung_) waitpid(child, nullptr, WNOHANG);
}

Result<ChildAnswer> ChildCalls::run(const std::string& what,
                                    const std::function<ChildAnswer()>& work) {
  auto running = start(what, work, kMaxHung, -1);
  if (!running) return running.error();
  return finish(std::move(*running));
}

Result<ChildCalls::Running> ChildCalls::begin(const std::string& what,
                                              const std::function<ChildAnswer()>& work,
                                              int descriptor) {
  return start(what, work, kMaxHung / 2, descriptor);
}

Result<ChildCalls::Running> ChildCalls::start(const std::string& what,
                                              const std::function<ChildAnswer()>& work,
                                              std::size_t most, int descriptor) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(hung_, [](pid_t child) { return waitpid(child, nullptr, WNOHANG) != 0; });
    if (running_ + hung_.size() >= most) {
      return Error{ErrorCode::kUnavailable,
                   what + ": " + std::to_string(running_ + hung_.size()) +
                       " earlier calls have not ended; look for a file system that does not "
                       "answer (kernel log)"};
    }
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return errnoError(errno, "make a channel to a child process");
  }
  Running running{what, OwnedFd(ends[0]), 0, Clock::now() + deadline_};
  OwnedFd theirs(ends[1]);
  const pid_t parent = getpid();
  running.child = fork();
  if (running.child == 0) runChild(parent, std::move(theirs), descriptor, work);
  if (running.child < 0) return errnoError(errno, "start a child process");
  const std::lock_guard lock(mutex_);
  ++running_;
  return running;
}

Result<ChildAnswer> ChildCalls::finish(Running running) {
  auto answer = await(running);
  reap(running.child, answer.ok());
  return answer;
}

Result<ChildAnswer> ChildCalls::await(const Running& running) const {
  const std::string& what = running.what;
  pollfd wait{running.channel.get(), POLLIN, 0};
  int ready = 0;
  do {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(running.until - Clock::now());
    ready = poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    return Error{ErrorCode::kDeadlineExceeded,
                 what + " did not end within " + std::to_string(deadline_.count()) +
                     " ms; its file system does not answer (look at the kernel log)"};
  }
  auto datagram = receiveDatagram(running.channel.get(), MSG_DONTWAIT);
  if (!datagram) return datagram.error();
  if (datagram->bytes.empty()) {
    return Error{ErrorCode::kInternal, what + ": the child process ended without an answer"};
  }
  ChildAnswer answer;
  answer.bytes.assign(reinterpret_cast<const char*>(datagram->bytes.data()),
                      datagram->bytes.size() - 1);
  if (!datagram->descriptors.empty()) answer.descriptor = std::move(datagram->descriptors.front());
  return answer;
}

void ChildCalls::reap(pid_t child, bool answered) {
  if (!answered) kill(child, SIGKILL);
  pid_t ended = 0;
  do {
    ended = waitpid(child, nullptr, answered ? 0 : WNOHANG);
  } while (ended < 0 && errno == EINTR);
  const std::lock_guard lock(mutex_);
  --running_;
  if (ended == 0) hung_.push_back(child);
}

ChildAnswer ChildCalls::packed(const Status& status) {
  ByteWriter out;
  out.u16(static_cast<std::uint16_t>(status.code()));
  out.text(status.ok() ? "" : status.error().message);
  const std::vector<std::byte> bytes = out.take();
  return {{reinterpret_cast<const char*>(bytes.data()), bytes.size()}, {}};
}

Status ChildCalls::unpacked(const ChildAnswer& answer) {
  ByteReader in(std::as_bytes(std::span(answer.bytes)));
  const auto code = static_cast<ErrorCode>(in.u16());
  const std::string message = in.text();
  if (code == ErrorCode::kOk) return {};
  return Error{code, message};
}

Status ChildCalls::runStatus(const std::string& what, const std::function<Status()>& work) {
  const auto answer = run(what, [&work] { return packed(work()); });
  return answer ? unpacked(*answer) : Status(answer.error());
}

}  // namespace hearth
