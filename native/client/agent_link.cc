#include "client/agent_link.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "base/content_key.h"
#include "client/link_turns.h"
#include "reactor/blocking_call.h"
#include "wire/authentication.h"

namespace hearth::gd2fs {
namespace {

// Four chunks are enough to keep a link of 100 Gbit/s busy; more are asked for to cover an agent's
// disk.
constexpr std::uint64_t kPartsUnderWay = 16;
// Each is kChunkBytes of pinned memory. No more than a reactor has helper threads: each copies one.
constexpr std::uint64_t kLanesUnderWay = 4;

// In the agents' lists a client has a name of its own, which says nothing about it.
std::string clientName() {
  const Nonce nonce = randomNonce();
  return hexOf(nonce).substr(0, 16) + "-" + std::to_string(getpid());
}

}  // namespace

Task<Result<BytesAnswer>> AgentLink::NoRequests::onRead(std::string, ContentKey, std::uint64_t,
                                                        std::uint32_t, Interest) {
  co_return Error{ErrorCode::kUnsupported, "a client answers nothing"};
}
Task<Result<BytesAnswer>> AgentLink::NoRequests::onReadManifest(std::string, Sha256Digest,
                                                                std::uint64_t, std::uint32_t) {
  co_return Error{ErrorCode::kUnsupported, "a client answers nothing"};
}
Task<Result<ControlMessage>> AgentLink::NoRequests::onControl(std::string, ControlMessage) {
  co_return Error{ErrorCode::kUnsupported, "a client answers nothing"};
}

AgentLink::AgentLink(const ClientOptions& options, AgentList& agents,
                     std::unique_ptr<LentReactor> reactor, std::size_t index)
    : agents_(agents),
      lent_(std::move(reactor)),
      gate_(lent_->reactor()),
      parts_(lent_->reactor(), kPartsUnderWay),
      lanes_(lent_->reactor(), kLanesUnderWay) {
  TransportOptions transport;
  transport.node = clientName();
  transport.incarnation = "1";
  transport.cluster = options.cluster;
  transport.token = options.token;
  transport.offer.features |= static_cast<std::uint64_t>(WireFeature::kWrites);
  transport.shard = static_cast<std::uint32_t>(index);
  transport.shards = static_cast<std::uint32_t>(options.ioThreads);
  transport.streamsPerPeer = options.streams;
  transport.localAddresses = options.nics;
  // Threads begin with different NICs.
  if (!options.nics.empty())
    std::ranges::rotate(transport.localAddresses,
                        transport.localAddresses.begin() +
                            static_cast<std::ptrdiff_t>(index % options.nics.size()));
  transport_ = PeerTransport::create(lent_->reactor(), std::move(transport), handler_);
  static_cast<void>(agentsNow());
}

std::shared_ptr<const AgentList::Agents> AgentLink::agentsNow() {
  std::shared_ptr<const AgentList::Agents> now = agents_.now();
  if (now != known_) transport_->setPeers(*now);
  known_ = now;
  return now;
}

Result<std::unique_ptr<AgentLink>> AgentLink::start(const ClientOptions& options, AgentList& agents,
                                                    std::size_t index) {
  Result<std::unique_ptr<LentReactor>> reactor = LentReactor::create();
  if (!reactor.ok()) return reactor.error();
  std::unique_ptr<AgentLink> link(new AgentLink(options, agents, std::move(*reactor), index));
  link->thread_ = std::thread(
      [running = link.get()] { running->lent_->run([&] { return running->underWay() == 0; }); });
  pthread_setname_np(link->thread_.native_handle(), ("gd2fs-" + std::to_string(index)).c_str());
  return link;
}

void AgentLink::end() {
  if (!thread_.joinable()) return;
  lent_->stop();
  thread_.join();
}

void AgentLink::post(Task<void> task) {
  std::function<void()> begin = [this, held = std::make_shared<Task<void>>(std::move(task))] {
    gate_.spawn(count(*this, std::move(*held)));
  };
  // Before the post: a thread that lends the reactor sees that something is under way.
  ++underWay_;
  try {
    reactor().post(std::move(begin));
  } catch (const std::bad_alloc&) {
    --underWay_;
    throw;
  }
}

Task<void> AgentLink::count(AgentLink& link, Task<void> task) {
  co_await task;
  --link.underWay_;
}

Task<Result<ControlMessage>> AgentLink::ask(ControlMessage message, Clock::time_point deadline,
                                            bool once) {
  for (Turns turns(*this, deadline, once);;) {
    if (agents_.closing.load()) co_return Turns::closed();
    Result<ControlMessage> answer =
        co_await transport_->call(turns.agent(), message, turns.timeouts());
    if (answer.ok()) {
      turns.answered();
      co_return answer;
    }
    const bool again = co_await turns.again(answer.error());
    if (!again) co_return agents_.closing.load() ? Turns::closed() : answer.error();
  }
}

Task<Result<ResolvedPath>> AgentLink::resolve(std::string path, Clock::time_point deadline) {
  const ControlMessage message{static_cast<std::uint16_t>(ClientMessage::kResolve),
                               encodePath(path)};
  Task<Result<ControlMessage>> asking = ask(message, deadline);
  const Result<ControlMessage> answer = co_await asking;
  if (!answer.ok()) co_return answer.error();
  co_return decodeResolvedPath(answer->body);
}

Task<Status> AgentLink::readOnce(const FileOfAgent& file, const std::string& agent,
                                 std::uint64_t offset, const MemoryVector& into,
                                 RequestTimeouts timeouts) {
  std::vector<std::uint32_t> checksums;
  Status read = co_await transport_->read(agent, file.key, offset, into, checksums, timeouts,
                                          RequestClass::kDemand);
  if (read.code() != ErrorCode::kTryElsewhere) co_return read;
  // An agent that has not resolved the path for us yet, or has forgotten it.
  ControlMessage message{static_cast<std::uint16_t>(ClientMessage::kResolve),
                         encodePath(file.path)};
  const Result<ControlMessage> answer =
      co_await transport_->call(agent, std::move(message), timeouts);
  if (!answer.ok()) co_return answer.error();
  const Result<ResolvedPath> resolved = decodeResolvedPath(answer->body);
  if (!resolved.ok()) co_return resolved.error();
  if (resolved->key != file.key)
    co_return Error{ErrorCode::kConflict, "the path has come to lead to other bytes"};
  read = co_await transport_->read(agent, file.key, offset, into, checksums, timeouts,
                                   RequestClass::kDemand);
  co_return read;
}

Task<Status> AgentLink::read(const FileOfAgent& file, std::uint64_t offset, MemoryVector into,
                             Clock::time_point deadline) {
  for (Turns turns(*this, deadline, false);;) {
    if (agents_.closing.load()) co_return Turns::closed();
    const Status read = co_await readOnce(file, turns.agent(), offset, into, turns.timeouts());
    if (read.ok()) {
      turns.answered();
      co_return read;
    }
    const bool again = co_await turns.again(read.error());
    if (!again) co_return agents_.closing.load() ? Status(Turns::closed()) : read;
  }
}

Task<bool> AgentLink::closeHere() {
  co_await transport_->close();
  co_await gate_.close();
  co_return true;
}

void AgentLink::close() {
  lent_->takeBack();
  runOn(reactor(), closeHere());
}

}  // namespace hearth::gd2fs
