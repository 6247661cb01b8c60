#include "transport/local_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "transport/frame_reader.h"
#include "transport/handshake.h"
#include "transport/local_socket.h"

namespace hearth {
namespace {

const std::string kAnyIncarnation = "1";
const Error kLinkLost{ErrorCode::kUnavailable,
                      "the connection to the agent of this node has ended"};

}  // namespace

LocalLink::LocalLink(Reactor& reactor, OwnedFd socket, std::function<void()> ended)
    : reactor_(reactor),
      socket_(std::move(socket)),
      watched_(fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0)),
      ended_(std::move(ended)),
      turn_(reactor, 1) {}

Task<Result<std::shared_ptr<LocalLink>>> LocalLink::dial(Reactor& reactor, Gate& gate,
                                                         LocalLinkOptions options,
                                                         std::function<void()> ended) {
  const Result<LocalAddress> address = localSocketAddress(options.path);
  if (!address.ok()) co_return address.error();
  OwnedFd socket = openLocalSocket();
  if (!socket) co_return errnoError(errno, "socket");
  // Connects at once, or the agent's queue is full.
  if (::connect(socket.get(), address->get(), LocalAddress::kSize) != 0) {
    const bool nobody = errno == ENOENT || errno == ECONNREFUSED;
    co_return Error{nobody ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                    errnoError(errno, "connect to " + options.path).message};
  }
  const int fd = socket.get();
  Reactor::Timer timer(reactor);
  timer.start(Clock::now() + options.timeout, [fd] { shutdown(fd, SHUT_RDWR); });
  FrameReader reader(reactor, fd);
  const WireOffer offer;
  const LocalIdentity self{options.cluster, options.client, kAnyIncarnation, {},
                           offer,           &options.token};
  const Result<Agreed> agreed = co_await dialHandshake(reactor, fd, reader, self, Preface{});
  timer.cancel();
  if (!agreed.ok()) co_return agreed.error();
  std::shared_ptr<LocalLink> link(new LocalLink(reactor, std::move(socket), std::move(ended)));
  if (!link->watched_) co_return errnoError(errno, "fcntl");
  if (gate.closed()) co_return kLinkLost;
  gate.spawn(watch(link));
  co_return link;
}

Task<void> LocalLink::watch(std::shared_ptr<LocalLink> link) {
  constexpr std::uint32_t kEnd = POLLRDHUP | POLLHUP | POLLERR;
  std::int32_t events = 0;
  while (events >= 0 && (static_cast<std::uint32_t>(events) & kEnd) == 0)
    events = co_await link->reactor_.poll(link->watched_.get(), POLLRDHUP);
  link->end();
  link->ended_();
}

void LocalLink::end() { shutdown(socket_.get(), SHUT_RDWR); }

Task<Status> LocalLink::receiveAll(std::span<std::byte> into, OwnedFd& descriptor) {
  while (!into.empty()) {
    DescriptorMessage message(into);
    const std::int32_t got =
        co_await reactor_.receiveMessage(socket_.get(), message.get(), MSG_CMSG_CLOEXEC);
    if (got <= 0) co_return kLinkLost;
    if (OwnedFd came = message.descriptor()) descriptor = std::move(came);
    if (message.isCut())
      co_return Error{ErrorCode::kUnavailable,
                      "a descriptor did not arrive; raise the limit of open files"};
    into = into.subspan(static_cast<std::size_t>(got));
  }
  co_return Status();
}

Task<Result<LocalLink::Received>> LocalLink::exchange(std::vector<std::byte> request,
                                                      std::uint64_t number) {
  const Status sent = co_await sendAll(reactor_, socket_.get(), std::move(request));
  if (!sent.ok()) co_return sent.error();
  Received received;
  std::array<std::byte, kFrameHeaderBytes> start;
  const Status begun = co_await receiveAll(start, received.descriptor);
  if (!begun.ok()) co_return begun.error();
  const Result<FrameHeader> header = decodeHeader(start);
  if (!header.ok()) co_return header.error();
  // The other side has proved who it is, and decodeHeader() has compared the length with its limit.
  std::vector<std::byte> body(header->bodyLength);
  const Status rest = co_await receiveAll(body, received.descriptor);
  if (!rest.ok()) co_return rest.error();
  const Status intact = checkBody(*header, body);
  if (!intact.ok()) co_return intact.error();
  if (header->type != FrameType::kControlAnswer || header->requestId != number)
    co_return Error{ErrorCode::kProtocolError, "the agent sent another frame than the answer"};
  Result<ControlAnswer> answer = decodeBody<ControlAnswer>(body);
  if (!answer.ok()) co_return answer.error();
  received.answer = std::move(*answer);
  co_return received;
}

Task<Result<LocalLink::Answer>> LocalLink::ask(ControlMessage request, Clock::time_point deadline) {
  const auto self = shared_from_this();
  co_await turn_.acquire(1);
  asking_ = true;
  Result<Answer> answer = co_await askInTurn(std::move(request), deadline);
  asking_ = false;
  sayGivenBack();
  turn_.release(1);
  co_return answer;
}

Task<Result<LocalLink::Answer>> LocalLink::askInTurn(ControlMessage request,
                                                     Clock::time_point deadline) {
  Reactor::Timer timer(reactor_);
  timer.start(deadline, [this] { end(); });
  const std::uint64_t number = ++lastNumber_;
  ControlRequest asked;
  asked.type = request.type;
  asked.body = std::move(request.body);
  Result<Received> received = co_await exchange(encodeFrame(asked, number), number);
  if (!received.ok()) {
    // The link no longer knows which frame an answer belongs to.
    end();
    co_return Error{ErrorCode::kUnavailable, received.error().message};
  }
  ControlAnswer& got = received->answer;
  if (got.code != ErrorCode::kOk) co_return Error{got.code, got.sentence};
  Answer answer;
  answer.message.type = got.type;
  answer.message.body = std::move(got.body);
  answer.descriptor = std::move(received->descriptor);
  answer.number = number;
  co_return answer;
}

void LocalLink::giveBack(std::uint64_t number) {
  givenBack_.push_back(number);
  if (!asking_) sayGivenBack();
}

void LocalLink::sayGivenBack() {
  for (const std::uint64_t number : std::exchange(givenBack_, {})) {
    const std::vector<std::byte> frame = encodeEmptyFrame(FrameType::kCancel, number);
    const ssize_t sent =
        send(socket_.get(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    // A cut frame would spoil the next one; the agent keeps nothing of a link that ends.
    if (sent != static_cast<ssize_t>(frame.size())) return end();
  }
}

}  // namespace hearth
