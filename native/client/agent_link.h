// One thread that moves bytes: a reactor, connections to the agents, and requests that are asked
// again, of another agent or over another connection, until they are answered or late.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/agent_list.h"
#include "client/client_options.h"
#include "client/request.h"
#include "reactor/lent_reactor.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"
#include "wire/client_message.h"
#include "wire/object_message.h"

namespace hearth::gd2fs {

// A file as the program asked for it.
struct FileOfAgent {
  std::string path;
  ContentKey key;
};

class AgentLink {
 public:
  // `index` of `count` threads. kUnsupported, kIoError when the kernel gives no reactor. `agents`
  // must remain live while the result is used.
  [[nodiscard]] static Result<std::unique_ptr<AgentLink>> start(const ClientOptions& options,
                                                                AgentList& agents,
                                                                std::size_t index);
  ~AgentLink() { end(); }

  [[nodiscard]] Reactor& reactor() { return lent_->reactor(); }
  // Any thread. The part that threads run which wait for this link alone.
  [[nodiscard]] LentReactor& lent() { return *lent_; }
  // Any thread: runs the task on this thread; dropped unstarted when the link has closed, and when
  // this throws std::bad_alloc.
  void post(Task<void> task);
  // Any thread. Tasks that have not ended.
  [[nodiscard]] std::size_t underWay() const { return underWay_.load(); }

  // The rest is on this thread. Asks one agent after the other until one answers. kNotFound,
  // kPermissionDenied, ...: what an agent has said; kUnavailable, kUnauthenticated when none
  // answers, or takes the token, until `deadline`; `once`: each agent is asked once at most.
  [[nodiscard]] Task<Result<ControlMessage>> ask(ControlMessage message, Clock::time_point deadline,
                                                 bool once = false);
  [[nodiscard]] Task<Result<ResolvedPath>> resolve(std::string path, Clock::time_point deadline);
  // Fills `into` with [offset, offset + its size) of the file; inside one chunk, offset on a block.
  // kConflict when the path has come to lead to other bytes that the agent knows alone.
  [[nodiscard]] Task<Status> read(const FileOfAgent& file, std::uint64_t offset, MemoryVector into,
                                  Clock::time_point deadline);
  // Writes all of `from`, as long as the range, into the file of a volume, by the request's
  // deadline. Fails the request where memory is not there. In link_writes.cc.
  [[nodiscard]] Task<Status> write(WriteRange range, MemoryVector from, Request& request);
  // Makes all of `from` the value of the key, unless it has one; likewise.
  [[nodiscard]] Task<Status> put(ObjectName name, MemoryVector from, Request& request);
  // Parts of requests that are under way at a time.
  [[nodiscard]] Semaphore& parts() { return parts_; }
  // The same of those that go through pinned memory.
  [[nodiscard]] Semaphore& lanes() { return lanes_; }

  // Ends connections and requests, with kCancelled, and waits for them. Not on this thread.
  void close();
  // Ends the thread; after close(). The reactor remains, and does nothing any more.
  void end();

 private:
  class Turns;  // link_turns.h
  AgentLink(const ClientOptions& options, AgentList& agents, std::unique_ptr<LentReactor> reactor,
            std::size_t index);
  [[nodiscard]] Task<Status> readOnce(const FileOfAgent& file, const std::string& agent,
                                      std::uint64_t offset, const MemoryVector& into,
                                      RequestTimeouts timeouts);
  // A range at one agent.
  struct Sending;
  [[nodiscard]] Task<Status> writeOnce(const WriteRange& range, const std::string& agent,
                                       const MemoryVector& from, RequestTimeouts timeouts,
                                       Request& request);
  // All of `from`, which is as long as the ticket's range.
  [[nodiscard]] Task<Status> sendRange(ContentKey ticket, const std::string& agent,
                                       const MemoryVector& from, RequestTimeouts timeouts,
                                       Request& request);
  [[nodiscard]] Task<Status> putOnce(const PutRequest& put, const std::string& agent,
                                     const MemoryVector& from, RequestTimeouts timeouts,
                                     Request& request);
  // `once(agent, timeouts)` at one agent after the other, until one has done it, the request has
  // failed or is late.
  template <class Once>
  [[nodiscard]] Task<Status> untilWritten(Request& request, Once once);
  static Task<void> commit(AgentLink& link, Sending& sending);
  static Task<void> sendPart(AgentLink& link, Sending& sending, std::uint64_t offset,
                             MemoryVector part);
  // The agents of now; connections to others end.
  [[nodiscard]] std::shared_ptr<const AgentList::Agents> agentsNow();
  [[nodiscard]] Task<bool> closeHere();
  static Task<void> count(AgentLink& link, Task<void> task);

  // Agents ask clients for nothing.
  class NoRequests final : public PeerHandler {
    Task<Result<BytesAnswer>> onRead(std::string, ContentKey, std::uint64_t, std::uint32_t,
                                     Interest) override;
    Task<Result<BytesAnswer>> onReadManifest(std::string, Sha256Digest, std::uint64_t,
                                             std::uint32_t) override;
    Task<Result<ControlMessage>> onControl(std::string, ControlMessage) override;
  };

  AgentList& agents_;
  NoRequests handler_;
  std::atomic<std::size_t> underWay_{0};
  std::unique_ptr<LentReactor> lent_;
  Gate gate_;
  Semaphore parts_, lanes_;
  std::unique_ptr<PeerTransport> transport_;
  std::shared_ptr<const AgentList::Agents> known_;  // that the transport has
  std::thread thread_;
};

}  // namespace hearth::gd2fs
