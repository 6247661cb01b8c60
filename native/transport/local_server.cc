#include "transport/local_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <set>
#include <vector>

#include "transport/client_shares.h"
#include "transport/frame_reader.h"
#include "transport/handshake.h"
#include "transport/handshake_limiter.h"
#include "transport/limits.h"
#include "transport/local_socket.h"
#include "transport/socket_limits.h"

namespace hearth {
namespace {

constexpr int kLocalBacklog = 128;
constexpr auto kLocalAcceptPause = std::chrono::milliseconds(100);
constexpr auto kLocalHandshakeTimeout = std::chrono::seconds(3);
// Between two looks at files that were given back and are open.
constexpr auto kLetGoPause = std::chrono::milliseconds(200);
constexpr int kLetGoPauseFactor = 20;  // of the time that a look takes
// How long to wait before the next look at a token's end: clocks are set, and timers have a limit.
constexpr auto kLongestExpiryWait = std::chrono::hours(1);

// The user that connects, for counting: no process can choose it.
std::string userOf(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return "";
  return "user " + std::to_string(credentials.uid);
}

// The next frame, whatever it is; `frame` lives until the reader is used again.
Task<Result<Frame>> nextFrame(FrameReader& reader) {
  for (;;) {
    if (std::optional<Result<Frame>> frame = reader.buffered()) {
      if (!frame->ok() || !(*frame)->header.unknown) co_return std::move(*frame);
      continue;
    }
    const Status filled = co_await reader.fill();
    if (!filled.ok()) co_return filled.error();
  }
}

Task<Status> readPrefaceFrame(FrameReader& reader) {
  const Result<Frame> frame = co_await nextFrame(reader);
  if (!frame.ok()) co_return frame.error();
  if (frame->header.type != FrameType::kPreface)
    co_return Error{ErrorCode::kProtocolError, "a connection must begin with a Preface frame"};
  const Result<Preface> preface = decodeBody<Preface>(frame->body);
  co_return preface.ok() ? Status() : Status(preface.error());
}

class UnixServer final : public LocalServer {
 public:
  UnixServer(Reactor& reactor, LocalServerOptions options, LocalHandler& handler, OwnedFd socket)
      : reactor_(reactor),
        options_(std::move(options)),
        handler_(handler),
        socket_(std::move(socket)),
        limiter_(kHalfOpen, kHalfOpenPerHost),
        limits_(localLimits(openFileLimit(), {kMaxConnections, kMaxFilesInAll})),
        connections_(ClientLimits::shared(limits_.connections)),
        openFiles_(ClientLimits::shared(limits_.files)),
        openBytes_(options_.openBytes),
        gate_(reactor),
        closing_(reactor),
        anyGivenBack_(reactor) {
    gate_.spawn(acceptAll(*this));
    gate_.spawn(letGo(*this));
  }

  void setRevoked(std::shared_ptr<const RevokedTokens> tokens) override {
    revoked_ = std::move(tokens);
    for (const auto& [fd, client] : clients_) {
      if (revoked_ != nullptr && revoked_->covers(*client)) shutdown(fd, SHUT_RDWR);
    }
  }

  Task<void> close() override {
    closing_.set();
    anyGivenBack_.set();
    unlink(options_.path.c_str());
    shutdown(socket_.get(), SHUT_RDWR);  // ends the accept
    for (const int fd : open_) shutdown(fd, SHUT_RDWR);
    co_await gate_.close();
    givenBack_.clear();
    socket_.reset();
  }

 private:
  // A file, and its shares of what clients may have open.
  struct OpenFile {
    std::shared_ptr<PassedFile> file;
    ClientShares::Share place, bytes;
  };
  // State of one open connection.
  struct Session {
    Session(UnixServer& server, OwnedFd connected) : server(server), socket(std::move(connected)) {
      server.open_.insert(fd());
    }
    ~Session() {
      for (auto& [number, file] : files) server.giveBack(std::move(file));
      server.open_.erase(fd());
      server.clients_.erase(fd());
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    [[nodiscard]] int fd() const { return socket.get(); }

    UnixServer& server;
    OwnedFd socket;
    std::shared_ptr<HandshakeLimiter::Slot> slot;
    ClientShares::Share place;
    std::map<std::uint64_t, OpenFile> files;  // by request
  };

  static Task<void> acceptAll(UnixServer& server) {
    for (;;) {
      // A shutdown wakes poll(2) alone: accept(2) on a Unix socket goes on to say EAGAIN.
      co_await server.reactor_.poll(server.socket_.get(), POLLIN);
      if (server.closing_.isSet()) co_return;
      const std::int32_t result = co_await server.reactor_.accept(server.socket_.get());
      if (result >= 0) {
        server.admit(OwnedFd(result));
      } else if (result != -EAGAIN && result != -ECONNABORTED && result != -EINTR) {
        co_await server.closing_.waitUntil(Clock::now() + kLocalAcceptPause);
      }
    }
  }

  void admit(OwnedFd socket) {
    // Clients that have proved nothing yet take no room from those that have.
    if (closing_.isSet() || open_.size() >= limits_.connections + kHalfOpen) return;
    const int fd = socket.get();
    auto session = std::make_unique<Session>(*this, std::move(socket));
    session->slot = limiter_.enter(userOf(fd), Clock::now(), [fd] { shutdown(fd, SHUT_RDWR); });
    if (session->slot) gate_.spawn(serve(*this, std::move(session)));
  }

  static Task<void> serve(UnixServer& server, std::unique_ptr<Session> session) {
    const int fd = session->fd();
    FrameReader reader(server.reactor_, fd);
    Reactor::Timer timer(server.reactor_);
    timer.start(Clock::now() + kLocalHandshakeTimeout, [fd] { shutdown(fd, SHUT_RDWR); });
    const WireOffer offer;
    LocalIdentity self{server.options_.cluster, server.options_.node, server.options_.incarnation,
                       server.options_.secret, offer};
    self.revoked = server.revoked_;
    self.diallerIsOfThisNode = true;
    const Status preface = co_await readPrefaceFrame(reader);
    if (!preface.ok()) co_return;
    const Result<Agreed> agreed = co_await acceptHandshake(server.reactor_, fd, reader, self);
    timer.cancel();
    if (agreed.code() == ErrorCode::kUnauthenticated) session->slot->fail(Clock::now());
    session->slot.reset();
    if (!agreed.ok() || agreed->client == nullptr || server.closing_.isSet()) co_return;
    // Again: the list may have come during the handshake.
    if (!checkClient(*agreed->client, self.node, true, server.revoked_.get()).ok()) co_return;
    server.clients_.emplace(fd, agreed->client);
    session->place = server.connections_.take(agreed->client->client, 1);
    if (!session->place) co_return;
    server.endAtExpiry(timer, fd, agreed->client);
    for (;;) {
      const Result<Frame> frame = co_await nextFrame(reader);
      if (!frame.ok() || agreed->client->expired()) co_return;
      const std::uint64_t number = frame->header.requestId;
      if (frame->header.type == FrameType::kCancel) {
        if (auto file = session->files.extract(number)) server.giveBack(std::move(file.mapped()));
        continue;
      }
      if (frame->header.type != FrameType::kControlRequest) co_return;
      Result<ControlRequest> request = decodeBody<ControlRequest>(frame->body);
      if (!request.ok()) co_return;
      const Status answered =
          co_await answer(server, *session, agreed->client, number, std::move(*request));
      if (!answered.ok()) co_return;
    }
  }

  static Task<Status> answer(UnixServer& server, Session& session,
                             std::shared_ptr<const Capability> client, std::uint64_t number,
                             ControlRequest request) {
    ControlMessage message{request.type, std::move(request.body)};
    Result<LocalAnswer> result = tooManyFiles("the client has");
    OpenFile file;
    if (session.files.size() < kMaxFiles) {
      Task<Result<LocalAnswer>> handling =
          server.handler_.onLocalRequest(client, std::move(message));
      result = co_await handling;
      co_await server.reactor_.enter();
    }
    if (result.ok() && result->file != nullptr) {
      file.file = std::move(result->file);
      const Status fits = server.takeShares(client->client, file);
      if (!fits.ok()) {
        result = fits.error();
        server.giveBack(std::move(file));
      }
    }
    ControlAnswer answer;
    if (result.ok()) {
      answer.type = result->message.type;
      answer.body = std::move(result->message.body);
    } else {
      answer.code = result.code();
      answer.sentence = result.error().message;
    }
    const std::vector<std::byte> frame = encodeFrame(answer, number);
    const OwnedFd passed = result.ok() ? std::move(result->descriptor) : OwnedFd();
    DescriptorMessage sending(frame, passed.get());
    if (!passed) sending.get()->msg_controllen = 0;
    Reactor::Timer late(server.reactor_);
    late.start(Clock::now() + server.options_.sendTimeout,
               [fd = session.fd()] { shutdown(fd, SHUT_RDWR); });
    const std::int32_t sent =
        co_await server.reactor_.sendMessage(session.fd(), sending.get(), MSG_NOSIGNAL);
    // Also of a client that has gone: its descriptor may be on the way to another process.
    if (file.file != nullptr) session.files.insert_or_assign(number, std::move(file));
    if (sent <= 0) co_return Error{ErrorCode::kUnavailable, "the client has gone"};
    const auto rest = std::span(frame).subspan(static_cast<std::size_t>(sent));
    co_return co_await sendAll(server.reactor_, session.fd(), {rest.begin(), rest.end()});
  }

  static Error tooManyFiles(const std::string& holder) {
    return {ErrorCode::kUnavailable, holder + " too many files open; give some back"};
  }

  Status takeShares(const ClientIdentity& client, OpenFile& file) {
    const std::uint64_t size = file.file->size();
    file.place = openFiles_.take(client, 1);
    if (!file.place) return tooManyFiles(holderOf(openFiles_.bound(client, 1)));
    file.bytes = openBytes_.take(client, size);
    if (!file.bytes) return tooManyFiles(holderOf(openBytes_.bound(client, size)));
    return {};
  }

  void giveBack(OpenFile file) {
    if (file.file == nullptr) return;
    givenBack_.push_back(std::move(file));
    anyGivenBack_.set();
  }

  // Lets go of files that were given back as soon as nobody has them open. A client that goes on
  // using one costs a look now and then, a twentieth of one thread's time at most.
  static Task<void> letGo(UnixServer& server) {
    while (!server.closing_.isSet()) {
      co_await server.anyGivenBack_.wait();
      const Clock::time_point begun = Clock::now();
      std::vector<OpenFile> files = std::exchange(server.givenBack_, {});
      server.anyGivenBack_.reset();
      for (OpenFile& file : files) {
        if (server.closing_.isSet()) co_return;
        Task<bool> looking = file.file->isOpen();
        const bool open = co_await looking;
        co_await server.reactor_.enter();
        if (open) server.giveBack(std::move(file));
        file = {};
      }
      const Clock::duration pause =
          std::max<Clock::duration>(kLetGoPause, kLetGoPauseFactor * (Clock::now() - begun));
      if (!server.givenBack_.empty()) co_await server.closing_.waitUntil(Clock::now() + pause);
    }
  }

  // A client whose token has expired has no use for its descriptors.
  void endAtExpiry(Reactor::Timer& timer, int fd, std::shared_ptr<const Capability> client) {
    if (client->expired()) {
      shutdown(fd, SHUT_RDWR);
      return;
    }
    const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::system_clock::now().time_since_epoch());
    const std::uint64_t left = client->expiresAtMs - static_cast<std::uint64_t>(now.count());
    const auto most = std::chrono::milliseconds(kLongestExpiryWait);
    const auto wait = std::chrono::milliseconds(
        std::min<std::uint64_t>(left, static_cast<std::uint64_t>(most.count())));
    timer.start(Clock::now() + wait + std::chrono::milliseconds(1),
                [this, &timer, fd, client] { endAtExpiry(timer, fd, client); });
  }

  Reactor& reactor_;
  const LocalServerOptions options_;
  LocalHandler& handler_;
  OwnedFd socket_;
  HandshakeLimiter limiter_;
  const LocalLimits limits_;
  ClientShares connections_, openFiles_, openBytes_;
  std::vector<OpenFile> givenBack_;  // that may be open
  std::set<int> open_;
  std::map<int, std::shared_ptr<const Capability>> clients_;  // that have proved their token
  std::shared_ptr<const RevokedTokens> revoked_;
  Gate gate_;
  Event closing_, anyGivenBack_;
};

}  // namespace

Result<std::unique_ptr<LocalServer>> LocalServer::listen(Reactor& reactor,
                                                         LocalServerOptions options,
                                                         LocalHandler& handler) {
  const std::string& path = options.path;
  if (path.empty() || path.size() > kMaxLocalPath)
    return Error{ErrorCode::kInvalidArgument,
                 "the path of the clients' socket, '" + path + "', is empty or longer than " +
                     std::to_string(kMaxLocalPath) + " bytes; choose a shorter one"};
  // Binds beside the path, then renames: a client that connects meets the former socket or this
  // one.
  const std::string aside = path + ".new";
  const Result<LocalAddress> address = localSocketAddress(aside);
  if (!address.ok()) return address.error();
  OwnedFd socket = openLocalSocket();
  if (!socket) return errnoError(errno, "socket");
  unlink(aside.c_str());
  // The folder that other programs see; its parents are the agent's.
  mkdir(path.substr(0, path.find_last_of('/') + 1).c_str(), 0755);
  if (bind(socket.get(), address->get(), LocalAddress::kSize) != 0)
    return errnoError(errno, "bind " + path);
  if (chmod(aside.c_str(), 0666) != 0 || ::listen(socket.get(), kLocalBacklog) != 0 ||
      std::rename(aside.c_str(), path.c_str()) != 0) {
    const Error error = errnoError(errno, "listen on " + path);
    unlink(aside.c_str());
    return error;
  }
  return std::unique_ptr<LocalServer>(
      std::make_unique<UnixServer>(reactor, std::move(options), handler, std::move(socket)));
}

}  // namespace hearth
