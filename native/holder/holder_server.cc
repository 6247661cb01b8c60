#include "holder/holder_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "holder/left_mounts.h"

namespace hearth {
namespace {

constexpr std::size_t kMaxClients = 128;

HolderReply failed(std::uint32_t sequence, const Error& error) {
  HolderReply reply;
  reply.sequence = sequence;
  reply.code = error.code;
  reply.message = error.message;
  return reply;
}

HolderReply answered(std::uint32_t sequence, const Status& status) {
  if (!status) return failed(sequence, status.error());
  HolderReply reply;
  reply.sequence = sequence;
  return reply;
}

Result<OwnedFd> listenAt(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{
        ErrorCode::kInvalidArgument,
        "socket path '" + path + "' is empty or longer than 107 bytes; give a shorter one"};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  OwnedFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errnoError(errno, "create a Unix socket");
  // The lock is ours, so whatever lies here was left by a holder that is gone.
  unlink(path.c_str());
  const mode_t before = umask(0177);
  const int bound = bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int error = errno;
  umask(before);
  if (bound != 0) return errnoError(error, "bind " + path);
  if (listen(socket.get(), 16) != 0) return errnoError(errno, "listen at " + path);
  return socket;
}

}  // namespace

HolderServer::HolderServer(HolderOptions options)
    : options_(std::move(options)), mounts_(options_.agentAbsence) {}

Result<std::unique_ptr<HolderServer>> HolderServer::create(HolderOptions options) {
  std::unique_ptr<HolderServer> server(new HolderServer(std::move(options)));
  const std::string& path = server->options_.socketPath;
  const std::string& volumes = server->options_.volumes;
  const std::string folder = path.substr(0, path.rfind('/'));
  if (!volumes.empty() && folder.starts_with(volumes + "/")) {
    if (Status closed = closeFolder(folder); !closed) return closed.error();
  }
  const std::string lock = path + ".lock";
  server->lock_.reset(open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!server->lock_) return errnoError(errno, "open " + lock);
  if (flock(server->lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return Error{ErrorCode::kInUse,
                 "another hearth-holder serves " + path + "; stop it or choose another --socket"};
  }
  server->wakeup_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->wakeup_) return errnoError(errno, "create an eventfd");
  auto listener = listenAt(path);
  if (!listener) return listener.error();
  server->listener_ = std::move(*listener);
  return server;
}

HolderServer::~HolderServer() {
  if (listener_) unlink(options_.socketPath.c_str());
}

void HolderServer::stop() {
  const std::uint64_t one = 1;
  // Only a full counter makes this fail, and then the loop is awake already.
  [[maybe_unused]] const ssize_t written = ::write(wakeup_.get(), &one, sizeof one);
}

int HolderServer::pollTimeoutMs() const {
  const auto next = mounts_.nextAbort();
  if (next == HeldMounts::Time::max()) return -1;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      next - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count() + 1, 0, 3600 * 1000));
}

void HolderServer::run() {
  for (;;) {
    std::vector<pollfd> waiting{{wakeup_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    std::vector<HolderConnection> ids;
    for (const auto& [id, client] : clients_) {
      waiting.push_back({client.socket.get(), POLLIN, 0});
      ids.push_back(id);
    }
    if (poll(waiting.data(), waiting.size(), pollTimeoutMs()) < 0 && errno != EINTR) {
      options_.log(errnoError(errno, "poll").message);
      break;
    }
    if ((waiting[0].revents & POLLIN) != 0) break;
    // In the order of arrival: an agent that went is seen before the one that takes its place.
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (waiting[i + 2].revents == 0) continue;
      const auto client = clients_.find(ids[i]);
      if (serve(ids[i], client->second)) continue;
      clients_.erase(client);
      mounts_.detach(ids[i], std::chrono::steady_clock::now());
    }
    if ((waiting[1].revents & POLLIN) != 0) acceptClient();
    for (const std::string& line : mounts_.abortAbsent(std::chrono::steady_clock::now())) {
      options_.log(line);
    }
  }
  for (const std::string& line : mounts_.unmountAll()) options_.log(line);
  if (options_.volumes.empty()) return;
  for (const std::string& line : detachLeftMounts(options_.volumes + "/mounts")) options_.log(line);
}

void HolderServer::acceptClient() {
  Client client;
  client.socket.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client.socket) return;
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(client.socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  client.pid = peer.pid;
  if (peer.uid != 0 && peer.uid != geteuid()) {
    const std::string who = "user " + std::to_string(peer.uid);
    options_.log("refused " + who);
    (void)send(
        client,
        failed(0, {ErrorCode::kPermissionDenied, who + " may not use the mount holder; connect "
                                                       "as root or as the holder's user"}),
        nullptr);
    return;
  }
  if (clients_.size() >= kMaxClients) {
    (void)send(client, failed(0, {ErrorCode::kUnavailable, "the holder has too many clients"}),
               nullptr);
    return;
  }
  clients_.emplace(++lastConnection_, std::move(client));
}

bool HolderServer::serve(HolderConnection id, Client& client) {
  std::array<std::byte, kMaxHolderMessage + 1> buffer;
  const ssize_t size = recv(client.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR;
  if (size == 0) return false;  // closed, or an empty message, which the protocol does not have
  const auto request = decodeHolderRequest(std::span(buffer).first(static_cast<std::size_t>(size)));
  if (!request) {
    options_.log("pid " + std::to_string(client.pid) + ": " + request.error().message);
    (void)send(client, failed(0, request.error()), nullptr);
    return false;
  }
  const HeldMounts::Mount* descriptors = nullptr;
  const HolderReply reply = answer(id, client, *request, descriptors);
  return send(client, reply, descriptors);
}

HolderReply HolderServer::answer(HolderConnection id, const Client& client,
                                 const HolderRequest& request,
                                 const HeldMounts::Mount*& descriptors) {
  const auto now = std::chrono::steady_clock::now();
  HolderReply reply;
  reply.sequence = request.sequence;
  if (request.kind == HolderRequestKind::kUnmount) {
    return answered(request.sequence, mounts_.unmount(request.target, request.force));
  }
  if (request.kind == HolderRequestKind::kList) {
    if (const auto* mount = mounts_.next(request.target, ""))
      reply.record = mounts_.describe(*mount, now);
    return reply;
  }
  if (request.kind == HolderRequestKind::kAttach) {
    auto count =
        mounts_.attach(request.owner, id, "the agent with pid " + std::to_string(client.pid));
    if (!count) return failed(request.sequence, count.error());
    reply.count = *count;
    return reply;
  }
  const auto owner = mounts_.ownerOf(id);
  if (!owner) return failed(request.sequence, owner.error());
  if (request.kind == HolderRequestKind::kSaveState) {
    return answered(request.sequence, mounts_.saveState(*owner, request.target, request.state));
  }
  if (request.kind == HolderRequestKind::kTake) {
    descriptors = mounts_.next(request.target, *owner);
  } else {
    const auto mounted = mounts_.mount(*owner, request);
    if (!mounted) return failed(request.sequence, mounted.error());
    descriptors = *mounted;
  }
  if (descriptors != nullptr) reply.record = mounts_.describe(*descriptors, now);
  return reply;
}

bool HolderServer::send(const Client& client, const HolderReply& reply,
                        const HeldMounts::Mount* descriptors) {
  std::vector<std::byte> bytes = encode(reply);
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  if (descriptors != nullptr) {
    const int fds[2] = {descriptors->device.get(), descriptors->shared.get()};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(header), fds, sizeof fds);
  }
  // A client that does not read its replies is closed, not waited for.
  return sendmsg(client.socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

}  // namespace hearth
