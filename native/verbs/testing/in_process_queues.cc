// Completion queues and queue pairs of the library inside the process.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "verbs/testing/in_process_objects.h"
#include "verbs/testing/in_process_verbs.h"

namespace hearth::testing_verbs {
namespace {

bool has(int mask, int bits) { return (mask & bits) == bits; }

std::uint64_t inlineBytesOf(const ibv_send_wr& request) {
  std::uint64_t bytes = 0;
  if ((request.send_flags & IBV_SEND_INLINE) != 0)
    for (int at = 0; at < request.num_sge; ++at) bytes += request.sg_list[at].length;
  return bytes;
}

// As the InfiniBand specification has it: which state may follow, with which attributes.
bool isTransition(ibv_qp_state from, ibv_qp_state to, int mask) {
  switch (to) {
    case IBV_QPS_INIT:
      return from == IBV_QPS_RESET &&
             has(mask, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    case IBV_QPS_RTR:
      return from == IBV_QPS_INIT &&
             has(mask, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    case IBV_QPS_RTS:
      return from == IBV_QPS_RTR && has(mask, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    case IBV_QPS_ERR:
      return true;
    default:
      return false;
  }
}

}  // namespace

ibv_comp_channel* InProcessVerbs::createCompChannel(ibv_context* context) {
  const FabricLock lock(fabric_.state_->mutex);
  auto* const channel = new Channel();
  channel->context = context;
  channel->fd = newEvents();
  ++fabric_.state_->objects;
  return channel;
}

int InProcessVerbs::destroyCompChannel(ibv_comp_channel* channel) {
  const FabricLock lock(fabric_.state_->mutex);
  ::close(channel->fd);
  delete static_cast<Channel*>(channel);
  --fabric_.state_->objects;
  return 0;
}

ibv_cq* InProcessVerbs::createCq(ibv_context* context, int entries, ibv_comp_channel* channel) {
  const FabricLock lock(fabric_.state_->mutex);
  auto* const queue = new Queue();
  queue->context = context;
  queue->channel = channel;
  queue->cqe = entries;
  queue->to = static_cast<Channel*>(channel);
  ++fabric_.state_->objects;
  return queue;
}

int InProcessVerbs::destroyCq(ibv_cq* cq) {
  const FabricLock lock(fabric_.state_->mutex);
  delete static_cast<Queue*>(cq);
  --fabric_.state_->objects;
  return 0;
}

int InProcessVerbs::pollCq(ibv_cq* cq, int most, ibv_wc* completions) {
  const FabricLock lock(fabric_.state_->mutex);
  auto& from = static_cast<Queue*>(cq)->completions;
  int taken = 0;
  for (; taken < most && !from.empty(); ++taken) {
    completions[taken] = from.front();
    from.pop_front();
  }
  return taken;
}

int InProcessVerbs::reqNotifyCq(ibv_cq* cq) {
  const FabricLock lock(fabric_.state_->mutex);
  static_cast<Queue*>(cq)->armed = true;
  return 0;
}

int InProcessVerbs::getCqEvent(ibv_comp_channel* from, ibv_cq** cq, void** context) {
  const FabricLock lock(fabric_.state_->mutex);
  auto& channel = *static_cast<Channel*>(from);
  eventfd_t one = 0;
  if (channel.events.empty() || ::eventfd_read(channel.fd, &one) != 0) {
    errno = EAGAIN;
    return -1;
  }
  *cq = channel.events.front();
  *context = nullptr;
  channel.events.pop_front();
  return 0;
}

void InProcessVerbs::ackCqEvents(ibv_cq*, unsigned) {}

ibv_qp* InProcessVerbs::createQp(ibv_pd* pd, ibv_qp_init_attr* about) {
  const FabricLock lock(fabric_.state_->mutex);
  Host& host = *static_cast<Context*>(pd->context)->host;
  if (about->qp_type != IBV_QPT_RC || about->cap.max_inline_data > host.options.inlineBytes ||
      about->cap.max_send_wr > static_cast<std::uint32_t>(host.options.sendRequests) ||
      about->cap.max_send_sge > static_cast<std::uint32_t>(host.options.pieces))
    return failedWith<ibv_qp>(EINVAL);
  auto* const pair = new QueuePair();
  pair->context = pd->context;
  pair->pd = pd;
  pair->send_cq = about->send_cq;
  pair->recv_cq = about->recv_cq;
  pair->qp_type = about->qp_type;
  pair->qp_num = fabric_.state_->nextNumber++;
  pair->state = IBV_QPS_RESET;
  pair->host = &host;
  pair->cap = about->cap;
  fabric_.state_->pairs[pair->qp_num] = pair;
  ++fabric_.state_->objects;
  return pair;
}

int InProcessVerbs::modifyQp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  const FabricLock lock(fabric_.state_->mutex);
  auto& pair = *static_cast<QueuePair*>(qp);
  if (pair.host->gone) return EIO;
  if (!has(mask, IBV_QP_STATE) || !isTransition(pair.state, attributes->qp_state, mask))
    return EINVAL;
  if (attributes->qp_state == IBV_QPS_ERR) {
    fabric_.state_->fail(pair);
    return 0;
  }
  if (attributes->qp_state == IBV_QPS_RTR) {
    pair.path = *attributes;
  } else if (attributes->qp_state == IBV_QPS_RTS) {
    pair.path.sq_psn = attributes->sq_psn;
    pair.path.rnr_retry = attributes->rnr_retry;
  }
  pair.state = attributes->qp_state;
  return 0;
}

int InProcessVerbs::destroyQp(ibv_qp* qp) {
  const FabricLock lock(fabric_.state_->mutex);
  auto* const pair = static_cast<QueuePair*>(qp);
  for (ibv_cq* cq : {pair->send_cq, pair->recv_cq}) {
    std::erase_if(static_cast<Queue*>(cq)->completions,
                  [&](const ibv_wc& each) { return each.qp_num == pair->qp_num; });
  }
  for (Context* context : pair->host->contexts) {
    std::erase_if(context->events, [&](const ibv_async_event& event) {
      return event.event_type == IBV_EVENT_QP_ACCESS_ERR && event.element.qp == pair;
    });
  }
  fabric_.state_->pairs.erase(pair->qp_num);
  delete pair;
  --fabric_.state_->objects;
  return 0;
}

int InProcessVerbs::postSend(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad) {
  const FabricLock lock(fabric_.state_->mutex);
  auto& pair = *static_cast<QueuePair*>(qp);
  int error = 0;
  for (ibv_send_wr* request = requests; request != nullptr; request = request->next) {
    if (pair.host->gone) {
      error = EIO;
    } else if ((pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) ||
               request->num_sge > static_cast<int>(pair.cap.max_send_sge) ||
               inlineBytesOf(*request) > pair.cap.max_inline_data) {
      error = EINVAL;
    } else if (pair.sends.size() + pair.unreported >= pair.cap.max_send_wr) {
      error = ENOMEM;
    } else if (fabric_.state_->postJudge && pair.state == IBV_QPS_RTS) {
      error = fabric_.state_->postJudge(pair.qp_num, request->opcode);
    }
    if (error != 0) {
      *bad = request;
      break;
    }
    SendWork work;
    work.request = *request;
    work.pieces.assign(request->sg_list, request->sg_list + request->num_sge);
    if ((request->send_flags & IBV_SEND_INLINE) != 0) {
      for (const ibv_sge& piece : work.pieces) {
        const auto* const from = reinterpret_cast<const std::byte*>(piece.addr);
        work.inlined.insert(work.inlined.end(), from, from + piece.length);
      }
    }
    pair.sends.push_back(std::move(work));
  }
  if (pair.state == IBV_QPS_ERR) {
    fabric_.state_->fail(pair);
  } else {
    fabric_.state_->progress(pair);
  }
  return error;
}

int InProcessVerbs::postRecv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  const FabricLock lock(fabric_.state_->mutex);
  auto& pair = *static_cast<QueuePair*>(qp);
  for (ibv_recv_wr* request = requests; request != nullptr; request = request->next) {
    if (pair.host->gone || pair.receives.size() >= pair.cap.max_recv_wr) {
      *bad = request;
      return pair.host->gone ? EIO : ENOMEM;
    }
    pair.receives.push_back(
        {request->wr_id, {request->sg_list, request->sg_list + request->num_sge}});
  }
  if (pair.state == IBV_QPS_ERR) fabric_.state_->fail(pair);
  for (const auto& [number, other] : fabric_.state_->pairs) {
    if (!other->waitsForReceive || other->path.dest_qp_num != pair.qp_num) continue;
    other->waitsForReceive = false;
    fabric_.state_->progress(*other);
  }
  return 0;
}

}  // namespace hearth::testing_verbs
