// Devices and memory. Queues are in in_process_queues.cc.
#include "verbs/testing/in_process_verbs.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs/testing/in_process_objects.h"

namespace hearth::testing_verbs {

InProcessVerbs::InProcessVerbs(Fabric& fabric, std::vector<PortOptions> ports) : fabric_(fabric) {
  const FabricLock lock(fabric_.state_->mutex);
  for (PortOptions& options : ports) {
    auto host = std::make_unique<Host>();
    std::strncpy(host->name, options.name.c_str(), sizeof(host->name) - 1);
    host->options = std::move(options);
    fabric_.state_->hosts.push_back(host.get());
    ports_.push_back(std::move(host));
  }
}

InProcessVerbs::~InProcessVerbs() {
  const FabricLock lock(fabric_.state_->mutex);
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
  const FabricLock lock(fabric_.state_->mutex);
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
  const FabricLock lock(fabric_.state_->mutex);
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
  const FabricLock lock(fabric_.state_->mutex);
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
  const FabricLock lock(fabric_.state_->mutex);
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
  const FabricLock lock(fabric_.state_->mutex);
  auto* const pd = new ibv_pd();
  pd->context = context;
  ++fabric_.state_->objects;
  return pd;
}

int InProcessVerbs::deallocPd(ibv_pd* pd) {
  const FabricLock lock(fabric_.state_->mutex);
  delete pd;
  --fabric_.state_->objects;
  return 0;
}

ibv_mr* InProcessVerbs::regMr(ibv_pd* pd, void* address, std::size_t length, int access) {
  const FabricLock lock(fabric_.state_->mutex);
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
  const FabricLock lock(fabric_.state_->mutex);
  auto* const region = static_cast<Region*>(mr);
  if (region->windows != 0) return EBUSY;
  static_cast<Context*>(mr->context)->host->lockedBytes -= region->length;
  fabric_.state_->regions.erase(region->lkey);
  delete region;
  --fabric_.state_->objects;
  return 0;
}

ibv_mw* InProcessVerbs::allocMw(ibv_pd* pd, ibv_mw_type type) {
  const FabricLock lock(fabric_.state_->mutex);
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
  const FabricLock lock(fabric_.state_->mutex);
  auto* const window = static_cast<MemoryWindow*>(mw);
  if (window->region != nullptr) --window->region->windows;
  std::erase_if(fabric_.state_->windows, [&](const auto& each) { return each.second == window; });
  delete window;
  --fabric_.state_->objects;
  return 0;
}

}  // namespace hearth::testing_verbs
