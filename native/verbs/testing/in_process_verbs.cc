#include "verbs/testing/in_process_verbs.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs/testing/in_process_objects.h"

namespace hearth::testing_verbs {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

template <class T>
T* failedWith(int error) {
  errno = error;
  return nullptr;
}

int newEvents() { return ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE | EFD_NONBLOCK); }

bool has(int mask, int bits) { return (mask & bits) == bits; }

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

Fabric::Fabric() : state_(std::make_unique<State>()) {}
Fabric::~Fabric() = default;

void Fabric::judgeBy(Judge judge) {
  const Lock lock(state_->mutex);
  state_->judge = std::move(judge);
}

void Fabric::judgePostsBy(PostJudge judge) {
  const Lock lock(state_->mutex);
  state_->postJudge = std::move(judge);
}

void Fabric::resume() {
  const Lock lock(state_->mutex);
  for (const auto& [number, pair] : state_->pairs) state_->progress(*pair);
}

void Fabric::endReceiverRetries() {
  const Lock lock(state_->mutex);
  for (const auto& [number, pair] : state_->pairs) {
    if (!pair->waitsForReceive || pair->path.rnr_retry == 7) continue;
    ibv_wc done{};
    done.wr_id = pair->sends.front().request.wr_id;
    done.status = IBV_WC_RNR_RETRY_EXC_ERR;
    pair->sends.pop_front();
    state_->complete(*pair, done, pair->send_cq);
    state_->fail(*pair);
  }
}

void Fabric::setLink(std::uint8_t address, bool up) {
  const Lock lock(state_->mutex);
  Host* const host = state_->hostOf(address);
  host->linkUp = up;
  ibv_async_event event{};
  event.event_type = up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
  event.element.port_num = 1;
  state_->raise(*host, event);
}

void Fabric::remove(std::uint8_t address) {
  const Lock lock(state_->mutex);
  Host* const host = state_->hostOf(address);
  host->gone = true;
  ibv_async_event event{};
  event.event_type = IBV_EVENT_DEVICE_FATAL;
  state_->raise(*host, event);
}

void Fabric::forgeCompletion(std::uint32_t queuePair, std::uint64_t id) {
  const Lock lock(state_->mutex);
  QueuePair& pair = *state_->pairs.at(queuePair);
  ibv_wc forged{};
  forged.wr_id = id;
  state_->complete(pair, forged, pair.send_cq);
}

std::size_t Fabric::objects() const {
  const Lock lock(state_->mutex);
  return state_->objects;
}

InProcessVerbs::InProcessVerbs(Fabric& fabric, std::vector<PortOptions> ports) : fabric_(fabric) {
  const Lock lock(fabric_.state_->mutex);
  for (PortOptions& options : ports) {
    auto host = std::make_unique<Host>();
    std::strncpy(host->name, options.name.c_str(), sizeof(host->name) - 1);
    host->options = std::move(options);
    fabric_.state_->hosts.push_back(host.get());
    ports_.push_back(std::move(host));
  }
}

InProcessVerbs::~InProcessVerbs() {
  const Lock lock(fabric_.state_->mutex);
  for (const auto& host : ports_) std::erase(fabric_.state_->hosts, host.get());
}

ibv_device** InProcessVerbs::getDeviceList(int* count) {
  auto** const list = new ibv_device*[ports_.size() + 1];
  for (std::size_t at = 0; at < ports_.size(); ++at) list[at] = ports_[at].get();
  list[ports_.size()] = nullptr;
  *count = static_cast<int>(ports_.size());
  return list;
}

void InProcessVerbs::freeDeviceList(ibv_device** list) { delete[] list; }

ibv_context* InProcessVerbs::openDevice(ibv_device* device) {
  const Lock lock(fabric_.state_->mutex);
  auto* const host = static_cast<Host*>(device);
  if (host->options.openError != 0) return failedWith<ibv_context>(host->options.openError);
  auto* const context = new Context();
  context->host = host;
  context->device = host;
  context->async_fd = newEvents();
  host->contexts.push_back(context);
  ++fabric_.state_->objects;
  return context;
}

int InProcessVerbs::closeDevice(ibv_context* opened) {
  const Lock lock(fabric_.state_->mutex);
  auto* const context = static_cast<Context*>(opened);
  std::erase(context->host->contexts, context);
  ::close(context->async_fd);
  delete context;
  --fabric_.state_->objects;
  return 0;
}

int InProcessVerbs::queryDevice(ibv_context* context, ibv_device_attr* about) {
  const Host& host = *static_cast<Context*>(context)->host;
  *about = {};
  about->max_qp_wr = host.options.sendRequests;
  about->max_sge = host.options.pieces;
  about->max_cqe = 1 << 16;
  if (host.options.hasWindows) {
    about->max_mw = 1 << 16;
    about->device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  }
  return 0;
}

int InProcessVerbs::queryPort(ibv_context* context, std::uint8_t port, ibv_port_attr* about) {
  const Lock lock(fabric_.state_->mutex);
  const Host& host = *static_cast<Context*>(context)->host;
  if (port != 1) return errno = EINVAL;
  *about = {};
  about->state = host.options.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  about->active_mtu = host.options.mtu;
  about->max_msg_sz = 1u << 30;
  about->gid_tbl_len = 2;
  about->link_layer = IBV_LINK_LAYER_ETHERNET;
  about->active_speed = 64;  // of one lane 50 Gbit/s
  about->active_width = 2;   // four lanes
  return 0;
}

int InProcessVerbs::queryGid(ibv_context* context, std::uint8_t, int index, ibv_gid* gid) {
  *gid = static_cast<Context*>(context)->host->gid();
  if (index == 0) {  // the link-local one
    *gid = {};
    gid->raw[0] = 0xfe;
    gid->raw[1] = 0x80;
    gid->raw[15] = static_cast<Context*>(context)->host->options.address;
  }
  return 0;
}

std::optional<ibv_gid_type> InProcessVerbs::gidType(ibv_context*, std::uint8_t, int) {
  return IBV_GID_TYPE_ROCE_V2;
}

int InProcessVerbs::getAsyncEvent(ibv_context* opened, ibv_async_event* event) {
  const Lock lock(fabric_.state_->mutex);
  auto& context = *static_cast<Context*>(opened);
  eventfd_t one = 0;
  if (context.events.empty() || ::eventfd_read(context.async_fd, &one) != 0) {
    errno = EAGAIN;
    return -1;
  }
  *event = context.events.front();
  context.events.pop_front();
  return 0;
}

void InProcessVerbs::ackAsyncEvent(ibv_async_event*) {}

ibv_pd* InProcessVerbs::allocPd(ibv_context* context) {
  const Lock lock(fabric_.state_->mutex);
  auto* const pd = new ibv_pd();
  pd->context = context;
  ++fabric_.state_->objects;
  return pd;
}

int InProcessVerbs::deallocPd(ibv_pd* pd) {
  const Lock lock(fabric_.state_->mutex);
  delete pd;
  --fabric_.state_->objects;
  return 0;
}

ibv_mr* InProcessVerbs::regMr(ibv_pd* pd, void* address, std::size_t length, int access) {
  const Lock lock(fabric_.state_->mutex);
  Host& host = *static_cast<Context*>(pd->context)->host;
  if (host.lockedBytes + length > host.options.lockableBytes) return failedWith<ibv_mr>(ENOMEM);
  host.lockedBytes += length;
  auto* const region = new Region();
  region->context = pd->context;
  region->pd = pd;
  region->addr = address;
  region->length = length;
  region->access = access;
  region->lkey = region->rkey = fabric_.state_->newKey();
  fabric_.state_->regions[region->lkey] = region;
  ++fabric_.state_->objects;
  return region;
}

int InProcessVerbs::deregMr(ibv_mr* mr) {
  const Lock lock(fabric_.state_->mutex);
  auto* const region = static_cast<Region*>(mr);
  if (region->windows != 0) return EBUSY;
  static_cast<Context*>(mr->context)->host->lockedBytes -= region->length;
  fabric_.state_->regions.erase(region->lkey);
  delete region;
  --fabric_.state_->objects;
  return 0;
}

ibv_mw* InProcessVerbs::allocMw(ibv_pd* pd, ibv_mw_type type) {
  const Lock lock(fabric_.state_->mutex);
  if (!static_cast<Context*>(pd->context)->host->options.hasWindows)
    return failedWith<ibv_mw>(EOPNOTSUPP);
  auto* const window = new MemoryWindow();
  window->context = pd->context;
  window->pd = pd;
  window->type = type;
  window->rkey = fabric_.state_->newKey();
  ++fabric_.state_->objects;
  return window;
}

int InProcessVerbs::deallocMw(ibv_mw* mw) {
  const Lock lock(fabric_.state_->mutex);
  auto* const window = static_cast<MemoryWindow*>(mw);
  if (window->region != nullptr) --window->region->windows;
  std::erase_if(fabric_.state_->windows, [&](const auto& each) { return each.second == window; });
  delete window;
  --fabric_.state_->objects;
  return 0;
}

ibv_comp_channel* InProcessVerbs::createCompChannel(ibv_context* context) {
  const Lock lock(fabric_.state_->mutex);
  auto* const channel = new Channel();
  channel->context = context;
  channel->fd = newEvents();
  ++fabric_.state_->objects;
  return channel;
}

int InProcessVerbs::destroyCompChannel(ibv_comp_channel* channel) {
  const Lock lock(fabric_.state_->mutex);
  ::close(channel->fd);
  delete static_cast<Channel*>(channel);
  --fabric_.state_->objects;
  return 0;
}

ibv_cq* InProcessVerbs::createCq(ibv_context* context, int entries, ibv_comp_channel* channel) {
  const Lock lock(fabric_.state_->mutex);
  auto* const queue = new Queue();
  queue->context = context;
  queue->channel = channel;
  queue->cqe = entries;
  queue->to = static_cast<Channel*>(channel);
  ++fabric_.state_->objects;
  return queue;
}

int InProcessVerbs::destroyCq(ibv_cq* cq) {
  const Lock lock(fabric_.state_->mutex);
  delete static_cast<Queue*>(cq);
  --fabric_.state_->objects;
  return 0;
}

int InProcessVerbs::pollCq(ibv_cq* cq, int most, ibv_wc* completions) {
  const Lock lock(fabric_.state_->mutex);
  auto& from = static_cast<Queue*>(cq)->completions;
  int taken = 0;
  for (; taken < most && !from.empty(); ++taken) {
    completions[taken] = from.front();
    from.pop_front();
  }
  return taken;
}

int InProcessVerbs::reqNotifyCq(ibv_cq* cq) {
  const Lock lock(fabric_.state_->mutex);
  static_cast<Queue*>(cq)->armed = true;
  return 0;
}

int InProcessVerbs::getCqEvent(ibv_comp_channel* from, ibv_cq** cq, void** context) {
  const Lock lock(fabric_.state_->mutex);
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
  const Lock lock(fabric_.state_->mutex);
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
  const Lock lock(fabric_.state_->mutex);
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
  const Lock lock(fabric_.state_->mutex);
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
  const Lock lock(fabric_.state_->mutex);
  auto& pair = *static_cast<QueuePair*>(qp);
  int error = 0;
  for (ibv_send_wr* request = requests; request != nullptr; request = request->next) {
    if (pair.host->gone) {
      error = EIO;
    } else if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) {
      error = EINVAL;
    } else if (pair.sends.size() + pair.unreported >= pair.cap.max_send_wr) {
      error = ENOMEM;
    } else if (request->num_sge > static_cast<int>(pair.cap.max_send_sge)) {
      error = EINVAL;
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
  const Lock lock(fabric_.state_->mutex);
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
