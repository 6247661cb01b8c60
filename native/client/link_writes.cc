// Writes of a link: a range is begun at an agent, its bytes go there in parts, and the agent's
// answer to the commit, which is asked for before the first part, says how the write has ended.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/crc32c.h"
#include "base/generated/constants.h"
#include "client/completion_status.h"
#include "client/link_turns.h"

namespace hearth::gd2fs {
namespace {

ControlMessage messageOf(ClientMessage type, std::vector<std::byte> body) {
  return {static_cast<std::uint16_t>(type), std::move(body)};
}

// The program can read all of it. Kernels before 5.14 do not say.
bool isThere(const MemoryVector& memory) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return std::ranges::all_of(memory.slices(), [page](const MemorySlice& slice) {
    const std::span<std::byte> bytes = slice.bytes();
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) & ~(page - 1);
    const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the page that the bytes begin on.
    const int asked = madvise(reinterpret_cast<void*>(begin), end - begin, MADV_POPULATE_READ);
    return asked == 0 || errno == EINVAL;
  });
}

}  // namespace

struct AgentLink::Sending {
  const std::string& agent;
  const RequestTimeouts timeouts;
  Request& request;
  ContentKey ticket = {};
  std::optional<Status> committed = {};  // the agent's answer
  Status failed = {};                    // of the first part that did not get through
};

Task<void> AgentLink::commit(AgentLink& link, Sending& sending) {
  const Result<ControlMessage> answer = co_await link.transport_->call(
      sending.agent, messageOf(ClientMessage::kCommit, encode(sending.ticket)), sending.timeouts);
  sending.committed = answer.ok() ? Status() : Status(answer.error());
}

Task<void> AgentLink::sendPart(AgentLink& link, Sending& sending, std::uint64_t offset,
                               MemoryVector part) {
  Status sent = Error{ErrorCode::kInvalidArgument, "the memory is not there any more"};
  if (sending.request.failed()) {
    sent = Error{ErrorCode::kCancelled, "the program has given the write up"};
  } else if (!isThere(part)) {
    sending.request.fail(requestStatus(EFAULT));
  } else {
    // The same bytes, if they are sent again: one generation is enough.
    sent =
        co_await link.transport_->write(sending.agent, sending.ticket, offset, 1, std::nullopt,
                                        std::move(part), sending.timeouts, RequestClass::kDemand);
  }
  link.parts_.release(1);
  if (sent.ok() || !sending.failed.ok()) co_return;
  sending.failed = std::move(sent);
  // Else the agent would wait for the part.
  (void)co_await link.transport_->call(
      sending.agent, messageOf(ClientMessage::kAbandon, encode(sending.ticket)), sending.timeouts);
}

Task<Status> AgentLink::writeOnce(const WriteRange& range, const std::string& agent,
                                  const MemoryVector& from, RequestTimeouts timeouts,
                                  Request& request) {
  const Result<ControlMessage> begun =
      co_await transport_->call(agent, messageOf(ClientMessage::kWrite, encode(range)), timeouts);
  if (!begun.ok()) co_return begun.error();
  const Result<ContentKey> ticket = decodeTicket(begun->body);
  if (!ticket.ok()) co_return ticket.error();
  Task<Status> sent = sendRange(*ticket, agent, from, timeouts, request);
  co_return co_await sent;
}

Task<Status> AgentLink::sendRange(ContentKey ticket, const std::string& agent,
                                  const MemoryVector& from, RequestTimeouts timeouts,
                                  Request& request) {
  Sending sending{.agent = agent, .timeouts = timeouts, .request = request, .ticket = ticket};
  Gate parts(reactor());
  parts.spawn(commit(*this, sending));
  MemoryCursor cursor(from);
  for (std::uint64_t offset = 0; offset < from.size(); offset += kChunkBytes) {
    const std::uint64_t size = std::min<std::uint64_t>(kChunkBytes, from.size() - offset);
    co_await parts_.acquire(1);
    if (!sending.failed.ok() || sending.committed) {
      parts_.release(1);
      break;
    }
    parts.spawn(sendPart(*this, sending, offset, cursor.part(size)));
  }
  co_await parts.close();
  // A part may have got through without its answer.
  if (sending.committed->ok() || sending.failed.ok()) co_return *sending.committed;
  co_return sending.failed;
}

template <class Once>
Task<Status> AgentLink::untilWritten(Request& request, Once once) {
  for (Turns turns(*this, request.deadline, false);;) {
    if (agents_.closing.load()) co_return Turns::closed();
    const Status written = co_await once(turns.agent(), turns.timeouts());
    if (written.ok()) {
      turns.answered();
      co_return written;
    }
    if (request.failed()) co_return written;
    const bool again = co_await turns.again(written.error());
    if (!again) co_return agents_.closing.load() ? Status(Turns::closed()) : written;
  }
}

Task<Status> AgentLink::write(WriteRange range, MemoryVector from, Request& request) {
  const auto once = [&](const std::string& agent, RequestTimeouts timeouts) {
    return writeOnce(range, agent, from, timeouts, request);
  };
  Task<Status> writing = untilWritten(request, once);
  co_return co_await writing;
}

Task<Status> AgentLink::putOnce(const PutRequest& put, const std::string& agent,
                                const MemoryVector& from, RequestTimeouts timeouts,
                                Request& request) {
  const Result<ControlMessage> answer =
      co_await transport_->call(agent, messageOf(ClientMessage::kPut, encode(put)), timeouts);
  if (!answer.ok()) co_return answer.error();
  const Result<PutReply> reply = decodePutReply(answer->body);
  if (!reply.ok()) co_return reply.error();
  if (!reply->ticket) co_return Status();
  if (put.value) co_return Error{ErrorCode::kProtocolError, "an agent wants a value that it has"};
  Task<Status> sent = sendRange(*reply->ticket, agent, from, timeouts, request);
  co_return co_await sent;
}

Task<Status> AgentLink::put(ObjectName name, MemoryVector from, Request& request) {
  PutRequest put{.name = std::move(name), .length = from.size(), .value = std::nullopt};
  if (put.length <= kMaxInlineBytes) {
    if (!isThere(from)) {
      request.fail(requestStatus(EFAULT));
      co_return Error{ErrorCode::kInvalidArgument, "the memory is not there any more"};
    }
    InlineValue& value = put.value.emplace();
    for (const MemorySlice& slice : from.slices())
      value.bytes.insert(value.bytes.end(), slice.bytes().begin(), slice.bytes().end());
    value.checksum = crc32c(value.bytes);
  }
  const auto once = [&](const std::string& agent, RequestTimeouts timeouts) {
    return putOnce(put, agent, from, timeouts, request);
  };
  Task<Status> putting = untilWritten(request, once);
  co_return co_await putting;
}

}  // namespace hearth::gd2fs
