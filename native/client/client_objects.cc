// Objects under keys, of a context: each value is a request of its own, which a batch has
// submitted.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/crc32c.h"
#include "client/client_context.h"
#include "client/client_part.h"
#include "client/completion_status.h"
#include "client/kv_batch.h"
#include "memory/guarded_memory.h"

namespace hearth::gd2fs {

int ClientContext::gather(std::span<const xfer_gd2fs_sge> sges, bool writesMemory,
                          ObjectTransfer& into) {
  if (const int bad = gather(sges, into.slices, into.memory); bad != 0) return bad;
  if (writesMemory && into.slices.size() > 1 && overlap(into.slices)) return -EINVAL;
  return measure(into.slices, 0, into.bytes);
}

template <class Begin>
int ClientContext::submitAll(KvBatch& batch, std::size_t count, std::uintptr_t firstId,
                             Begin begin) {
  if (agents_.closing.load()) return -EBADF;
  const std::shared_lock submitting(submitting_);
  if (agents_.closing.load()) return -EBADF;
  std::vector<std::shared_ptr<Request>> requests;
  requests.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the batch knows its requests by numbers.
    auto* const id = reinterpret_cast<void*>(firstId + i);
    requests.push_back(std::make_shared<Request>(batch.shared_from_this(), id, batch.deadline));
  }
  if (const int refused = batch.begin(requests); refused != 0) return refused;
  for (std::size_t i = 0; i < count; ++i) {
    const std::shared_ptr<Request> request = std::move(requests[i]);
    try {
      AgentLink& link = nextLink();
      link.post(begin(link, request, i));
    } catch (const std::bad_alloc&) {
      request->fail(memoryStatus());
    }
  }
  return 0;
}

template <class Begin>
int ClientContext::transferAll(KvBatch& batch, std::vector<ObjectTransfer> transfers, Begin begin) {
  const auto each = [&](AgentLink& link, const std::shared_ptr<Request>& request, std::size_t i) {
    ObjectTransfer& transfer = transfers[i];
    request->use(std::move(transfer.memory));
    for (MemorySlice& slice : transfer.slices) slice.owner = request;
    return begin(link, request, i, std::move(transfer.name),
                 MemoryVector(std::move(transfer.slices)));
  };
  return submitAll(batch, transfers.size(), 0, each);
}

int ClientContext::putObjects(const std::shared_ptr<KvBatch>& batch,
                              std::vector<ObjectTransfer> transfers) {
  const auto begin = [](AgentLink& link, std::shared_ptr<Request> request, std::size_t,
                        ObjectName name, MemoryVector from) {
    return putOn(link, std::move(request), std::move(name), std::move(from));
  };
  return transferAll(*batch, std::move(transfers), begin);
}

int ClientContext::getObjects(const std::shared_ptr<KvBatch>& batch,
                              std::vector<ObjectTransfer> transfers) {
  const auto begin = [&](AgentLink& link, std::shared_ptr<Request> request, std::size_t item,
                         ObjectName name, MemoryVector into) {
    return getOn(*this, link, std::move(request), batch, item, std::move(name), std::move(into));
  };
  return transferAll(*batch, std::move(transfers), begin);
}

int ClientContext::askKeys(const std::shared_ptr<KvBatch>& batch, KeysRequest keys,
                           KeysQuestion question) {
  const auto begin = [&](AgentLink& link, std::shared_ptr<Request> request, std::size_t) {
    return askKeysOn(link, std::move(request), batch, std::move(keys), question);
  };
  return submitAll(*batch, 1, KvBatch::kAllItems, begin);
}

Task<void> ClientContext::putOn(AgentLink& link, std::shared_ptr<Request> request, ObjectName name,
                                MemoryVector from) {
  // The program has given the batch up while this waited for its turn.
  if (request->failed()) co_return;
  Task<Status> putting = link.put(std::move(name), std::move(from), *request);
  const Status put = co_await putting;
  if (!put.ok()) request->fail(statusOf(put.code()));
}

Task<void> ClientContext::getOn(ClientContext& context, AgentLink& link,
                                std::shared_ptr<Request> request, std::shared_ptr<KvBatch> batch,
                                std::size_t item, ObjectName name, MemoryVector into) {
  if (request->failed()) co_return;
  const std::uint64_t inside =
      into.isHost() ? std::min<std::uint64_t>(kMaxInlineBytes, into.size()) : 0;
  const GetRequest asked{name, static_cast<std::uint32_t>(inside)};
  ControlMessage question{static_cast<std::uint16_t>(ClientMessage::kGet), encode(asked)};
  Task<Result<ControlMessage>> asking = link.ask(std::move(question), request->deadline);
  const Result<ControlMessage> answer = co_await asking;
  if (!answer.ok()) co_return request->fail(statusOf(answer.code()));
  const Result<GetReply> reply = decodeGetReply(answer->body);
  if (!reply.ok()) co_return request->fail(statusOf(reply.code()));
  batch->setBytes(item, reply->size);
  if (reply->size > into.size()) co_return request->fail(requestStatus(EMSGSIZE));
  if (request->failed()) co_return;
  // A value that was spoilt on its way is read again, as larger ones are.
  if (reply->value && reply->size <= inside &&
      crc32c(reply->value->bytes) == reply->value->checksum) {
    if (!copyIfThere(into, 0, reply->value->bytes)) request->fail(requestStatus(EFAULT));
    co_return;
  }
  auto file = std::make_shared<const FileOfAgent>(FileOfAgent{objectPath(name), reply->key});
  Task<void> reading = readParts(context, link, std::move(request), std::move(file), nullptr, 0,
                                 reply->size, std::move(into));
  co_await reading;
}

Task<void> ClientContext::askKeysOn(AgentLink& link, std::shared_ptr<Request> request,
                                    std::shared_ptr<KvBatch> batch, KeysRequest keys,
                                    KeysQuestion question) {
  const ClientMessage type =
      question == KeysQuestion::kDelete ? ClientMessage::kDelete : ClientMessage::kExist;
  bool goesOn = true;
  for (std::size_t first = 0; first < keys.keys.size(); first += kMaxKeys) {
    const auto part =
        std::span(keys.keys).subspan(first, std::min(kMaxKeys, keys.keys.size() - first));
    KeysReply reply{std::vector<bool>(part.size())};
    if (goesOn) {
      const KeysRequest asked{keys.space, {part.begin(), part.end()}};
      ControlMessage message{static_cast<std::uint16_t>(type), encode(asked)};
      Task<Result<ControlMessage>> asking = link.ask(std::move(message), request->deadline);
      const Result<ControlMessage> answer = co_await asking;
      if (!answer.ok()) co_return request->fail(statusOf(answer.code()));
      Result<KeysReply> decoded = decodeKeysReply(answer->body);
      if (decoded.ok() && decoded->keys.size() != part.size())
        decoded = Error{ErrorCode::kProtocolError, "an agent has answered for other keys"};
      if (!decoded.ok()) co_return request->fail(statusOf(decoded.code()));
      reply = std::move(*decoded);
    }
    for (std::size_t i = 0; i < part.size(); ++i) {
      const bool there = goesOn && reply.keys[i];
      batch->setStatus(first + i, there ? 0 : ENOENT);
      if (question == KeysQuestion::kPrefix) goesOn = goesOn && there;
    }
    if (request->failed()) co_return;
  }
}

}  // namespace hearth::gd2fs
