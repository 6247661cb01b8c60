#include "holder/holder_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "holder/fuse_mount.h"
#include "holder/holder_socket.h"
#include "holder/holder_successor.h"
#include "holder/peer_process.h"
#include "holder/stale_mounts.h"
#include "holder/touched_memory.h"

namespace hearth {
namespace {

constexpr std::size_t kMaxClients = 128;
// A client refused for want of descriptors keeps the listening socket readable; the holder looks at
// the socket again after this pause.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

HolderHello helloOf(const HolderOptions& options) {
  HolderHello hello;
  hello.release = options.release;
  hello.touchBytes = options.touchBytes;
  // Without a number agents cannot distinguish a new holder from the one before, which costs them
  // nothing.
  [[maybe_unused]] const ssize_t got = getrandom(&hello.instance, sizeof hello.instance, 0);
  return hello;
}

int millisecondsTo(HeldMounts::Time when) {
  if (when == HeldMounts::Time::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - Clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 3600 * 1000));
}

}  // namespace

HolderServer::HolderServer(HolderOptions options)
    : options_(std::move(options)),
      mounts_(options_.agentAbsence, options_.callDeadline, options_.touchBytes),
      calls_(mounts_, helloOf(options_)) {}

Result<std::unique_ptr<HolderServer>> HolderServer::create(HolderOptions options) {
  std::unique_ptr<HolderServer> server(new HolderServer(std::move(options)));
  const std::string& path = server->options_.socketPath;
  const std::string& volumes = server->options_.volumes;
  const std::string folder = path.substr(0, path.rfind('/'));
  if (!volumes.empty() && folder.starts_with(volumes + "/")) {
    if (Status closed = closeFolder(folder); !closed) return closed.error();
  }
  // Before anything is taken over: what fails now costs nothing.
  server->wakeup_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->wakeup_) return errnoError(errno, "create an eventfd");
  if (Status listens = server->listenOrTakeOver(); !listens) return listens.error();
  return server;
}

Status HolderServer::listenOrTakeOver() {
  const std::string& path = options_.socketPath;
  if (options_.takeOver) {
    auto taken = takeOver(path, mounts_);
    if (!taken) return taken.error();
    listener_ = std::move(*taken);
  }
  if (!listener_.lock) {
    auto lock = lockHolder(path, std::chrono::milliseconds(0));
    if (!lock) return lock.error();
    listener_.lock = std::move(*lock);
  }
  if (listener_.socket) return {};
  auto socket = listenAsHolder(path);
  if (!socket) return socket.error();
  listener_.socket = std::move(*socket);
  return {};
}

HolderServer::~HolderServer() {
  if (listener_.socket) unlink(options_.socketPath.c_str());
}

void HolderServer::stop() {
  const std::uint64_t one = 1;
  // Only a full counter makes this fail, and then the loop is awake already.
  [[maybe_unused]] const ssize_t written = ::write(wakeup_.get(), &one, sizeof one);
}

bool HolderServer::mayAccept() const { return !acceptsAt_ || Clock::now() >= *acceptsAt_; }

int HolderServer::pollTimeoutMs() const {
  auto next = std::min(mounts_.nextAbort(), mounts_.nextUnserved(Clock::now()));
  if (successor_ != 0) next = std::min(next, successorUntil_);
  if (successor_ == 0 && !mayAccept()) next = std::min(next, *acceptsAt_);
  if (endsAt_ && successor_ == 0) next = std::min(next, *endsAt_);
  for (const auto& [id, client] : clients_) {
    if (client.walked && successor_ == 0) next = std::min(next, client.walked->walk.until);
  }
  return millisecondsTo(next);
}

void HolderServer::run() {
  while (serveOnce()) {
    // A successor that has everything may be about to say so: its mounts must not be detached.
    const bool ends = endsAt_ && successor_ == 0;
    if (ends && (!mounts_.anyAttached() || Clock::now() >= *endsAt_)) break;
    for (const std::string& line : mounts_.abortAbsent(Clock::now())) options_.log(line);
    for (const std::string& line : mounts_.endUnserved(Clock::now())) options_.log(line);
  }
  endWalks();
  if (!handedOver_) detachAll();
}

void HolderServer::endWalks() {
  const Error error{ErrorCode::kUnavailable, "this mount holder ends; ask the next one"};
  for (auto& [id, client] : clients_) {
    if (!client.walked) continue;
    (void)send(client, {HolderCalls::failed(client.walked->request.sequence, error), {}});
    mounts_.calls().abandon(client.walked->walk);
    client.walked.reset();
  }
}

bool HolderServer::serveOnce() {
  const bool accepts = successor_ == 0 && mayAccept();
  // Without its eventfd once that has fired, which would keep poll() awake.
  std::vector<pollfd> waiting{{endsAt_ ? -1 : wakeup_.get(), POLLIN, 0},
                              {accepts ? listener_.socket.get() : -1, POLLIN, 0}};
  std::vector<Waited> waited;
  for (const auto& [id, client] : clients_) waitForClient(id, client, waiting, waited);
  for (const int device : mounts_.unservedDevices()) waiting.push_back({device, POLLIN, 0});
  if (poll(waiting.data(), waiting.size(), pollTimeoutMs()) < 0 && errno != EINTR) {
    options_.log(errnoError(errno, "poll").message);
    return false;
  }
  if ((waiting[0].revents & POLLIN) != 0) endsAt_ = Clock::now() + options_.endTimeout;
  // In the order of arrival: an agent that went is seen before the one that takes its place.
  for (std::size_t i = 0; i < waited.size(); ++i) {
    if (successor_ != 0 && waited[i].id != successor_) continue;
    serveClient(waited[i], waiting[i + 2].revents);
    if (handedOver_) return false;
  }
  if (successor_ != 0 && Clock::now() >= successorUntil_) {
    options_.log("the holder that was to take over did not do so in time; this one goes on");
    endClient(successor_);
  }
  if ((waiting[1].revents & POLLIN) != 0) acceptClient();
  return true;
}

void HolderServer::waitForClient(HolderConnection id, const Client& client,
                                 std::vector<pollfd>& waiting, std::vector<Waited>& waited) const {
  if (successor_ != 0 && id != successor_) return;
  // While its path is walked, for its end alone, which poll() reports unasked.
  waiting.push_back({client.socket.get(), static_cast<short>(client.walked ? 0 : POLLIN), 0});
  waited.push_back({id, false});
  if (!client.walked) return;
  waiting.push_back({client.walked->walk.channel.get(), POLLIN, 0});
  waited.push_back({id, true});
}

void HolderServer::serveClient(Waited waited, short events) {
  const auto found = clients_.find(waited.id);
  if (found == clients_.end()) return;  // ended by what was served just before
  Client& client = found->second;
  bool stays = true;
  if (waited.walk) {
    if (events != 0 || Clock::now() >= client.walked->walk.until)
      stays = serveWalked(waited.id, client);
  } else if (events != 0) {
    stays = !client.walked && serve(waited.id, client);
  }
  if (!stays) endClient(waited.id);
}

void HolderServer::endClient(HolderConnection id) {
  const auto client = clients_.find(id);
  if (client->second.walked) mounts_.calls().abandon(client->second.walked->walk);
  clients_.erase(client);
  mounts_.detach(id, Clock::now());
  if (successor_ == id) successor_ = 0;
}

void HolderServer::acceptClient() {
  Client client;
  client.socket.reset(
      accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client.socket) {
    // The client that was there may have gone: then no client waits.
    if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED) return;
    if (!acceptsAt_) options_.log(errnoError(errno, "accept waiting clients").message);
    acceptsAt_ = Clock::now() + kAcceptPause;
    return;
  }
  acceptsAt_.reset();
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(client.socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  client.pid = peer.pid;
  client.user = peer.uid;
  client.group = peer.gid;
  client.process = processOf(client.socket.get(), peer.pid);
  if (peer.uid != 0 && peer.uid != geteuid()) {
    const std::string who = "user " + std::to_string(peer.uid);
    options_.log("refused " + who);
    const Error error{ErrorCode::kPermissionDenied, who +
                                                        " may not use the mount holder; connect "
                                                        "as root or as the holder's user"};
    (void)send(client, {HolderCalls::failed(0, error), {}});
    return;
  }
  if (clients_.size() >= kMaxClients) {
    const Error error{ErrorCode::kUnavailable, "the holder has too many clients"};
    (void)send(client, {HolderCalls::failed(0, error), {}});
    return;
  }
  clients_.emplace(++lastConnection_, std::move(client));
}

bool HolderServer::serve(HolderConnection id, Client& client) {
  auto datagram = receiveDatagram(client.socket.get(), MSG_DONTWAIT);
  if (datagram.code() == ErrorCode::kDeadlineExceeded) return true;
  // Closed, or an empty message, which the protocol does not have.
  if (datagram.ok() && datagram->bytes.empty()) return false;
  const auto request = datagram.ok() ? decodeHolderRequest(datagram->bytes)
                                     : Result<HolderRequest>(datagram.error());
  if (!request) {
    options_.log("pid " + std::to_string(client.pid) + ": " + request.error().message);
    (void)send(client, {HolderCalls::failed(0, request.error()), {}});
    return false;
  }
  if (!needsWalk(*request)) {
    return reply(id, client, *request, std::move(datagram->descriptors));
  }
  auto walk = begin(id, *request, datagram->descriptors);
  if (!walk) return send(client, {HolderCalls::failed(request->sequence, walk.error()), {}});
  client.walked.emplace(*request, std::move(datagram->descriptors), std::move(*walk));
  return true;
}

bool HolderServer::needsWalk(const HolderRequest& request) const {
  if (!request.unsupported.empty()) return false;
  switch (request.kind) {
    case HolderRequestKind::kMount:
    case HolderRequestKind::kTouchMemory:
    case HolderRequestKind::kTouchFile:
      return true;
    case HolderRequestKind::kUnmount:
      return !mounts_.hasGone(request.target);  // else there is nothing to walk to
    case HolderRequestKind::kSaveState:
    case HolderRequestKind::kOpenBacking:
    case HolderRequestKind::kCloseBacking:
      return !mounts_.has(request.target);
    default:
      return false;
  }
}

bool HolderServer::touches(const HolderRequest& request) {
  return request.kind == HolderRequestKind::kTouchMemory ||
         request.kind == HolderRequestKind::kTouchFile;
}

Result<ChildCalls::Running> HolderServer::begin(HolderConnection id, const HolderRequest& request,
                                                const std::vector<OwnedFd>& descriptors) {
  return touches(request) ? mounts_.beginTouch(id, request, descriptors)
                          : beginWalk(mounts_.calls(), request.target);
}

bool HolderServer::serveTouched(const Client& client, Walked touched) {
  const std::uint32_t sequence = touched.request.sequence;
  const auto huge = finishTouch(mounts_.calls(), std::move(touched.walk));
  if (!huge) return send(client, {HolderCalls::failed(sequence, huge.error()), {}});
  HolderAnswer answer;
  answer.reply.sequence = sequence;
  answer.reply.hugeBytes = *huge;
  return send(client, answer);
}

bool HolderServer::serveWalked(HolderConnection id, Client& client) {
  Walked walked = std::move(*client.walked);
  client.walked.reset();
  HolderRequest& request = walked.request;
  if (touches(request)) return serveTouched(client, std::move(walked));
  auto canonical = finishWalk(mounts_.calls(), std::move(walked.walk));
  const bool mounts = request.kind == HolderRequestKind::kMount;
  const bool hangs = canonical.code() == ErrorCode::kDeadlineExceeded;
  if (hangs || (mounts && !canonical)) {
    return send(client, {HolderCalls::failed(request.sequence, canonical.error()), {}});
  }
  // The holder knows its mounts by canonical path, even after something else came to lie over that
  // path.
  if (canonical && (mounts || !mounts_.has(request.target))) request.target = *canonical;
  return reply(id, client, request, std::move(walked.descriptors));
}

bool HolderServer::reply(HolderConnection id, const Client& client, const HolderRequest& request,
                         std::vector<OwnedFd> descriptors) {
  const HolderAnswer answer =
      this->answer({id, client.pid, client.user, client.group, client.process.get()}, request,
                   std::move(descriptors));
  if (!send(client, answer)) return false;
  // Not before its answer is on its way: no other process has the mounts until then.
  if (finishesHandOver(request, answer)) releaseMounts();
  return true;
}

HolderAnswer HolderServer::answer(const HolderCaller& caller, const HolderRequest& request,
                                  std::vector<OwnedFd> descriptors) {
  if (const Status noted = noteHandOver(caller.id, request); !noted) {
    return {HolderCalls::failed(request.sequence, noted.error()), {}};
  }
  HolderAnswer answer = calls_.answer(caller, request, std::move(descriptors));
  const bool socket = request.kind == HolderRequestKind::kHandOverSocket;
  if (socket && answer.reply.code == ErrorCode::kOk) {
    answer.descriptors = {listener_.lock.get(), listener_.socket.get()};
  }
  return answer;
}

Status HolderServer::noteHandOver(HolderConnection id, const HolderRequest& request) {
  if (!request.unsupported.empty()) return {};
  if (request.kind == HolderRequestKind::kHandOver && successor_ == 0) {
    successor_ = id;
    successorUntil_ = Clock::now() + options_.handOverTimeout;
  }
  const bool continues = request.kind == HolderRequestKind::kHandOverSocket ||
                         request.kind == HolderRequestKind::kHandOverDone;
  // A successor that has taken nothing would leave all mounts without a descriptor.
  if (continues && successor_ != id) {
    return Error{ErrorCode::kInvalidArgument,
                 "this connection has taken nothing over; ask for what there is first"};
  }
  return {};
}

bool HolderServer::finishesHandOver(const HolderRequest& request, const HolderAnswer& answer) {
  return request.unsupported.empty() && request.kind == HolderRequestKind::kHandOverDone &&
         answer.reply.code == ErrorCode::kOk;
}

// The other one listens at the path from now on, so that stays.
void HolderServer::releaseMounts() {
  mounts_.forgetAll();
  listener_ = {};
  handedOver_ = true;
  options_.log("another holder has taken over");
}

void HolderServer::detachAll() {
  const bool attached = mounts_.anyAttached();
  for (const std::string& line : mounts_.unmountUnserved()) options_.log(line);
  if (attached) {
    options_.log("an agent is still connected; it passes its mounts to the next holder");
    return;
  }
  if (options_.volumes.empty()) return;
  const std::string folder = options_.volumes + "/mounts";
  for (const std::string& line : detachStaleMounts(mounts_.calls(), folder)) options_.log(line);
}

bool HolderServer::send(const Client& client, const HolderAnswer& answer) {
  // A client that does not read its replies is closed, not waited for.
  return sendDatagram(client.socket.get(), encode(answer.reply), answer.descriptors, MSG_DONTWAIT);
}

}  // namespace hearth
