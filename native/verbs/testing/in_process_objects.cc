#include "verbs/testing/in_process_objects.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace hearth::testing_verbs {
namespace {

ibv_wc_opcode completedAs(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_BIND_MW:
      return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
      return IBV_WC_LOCAL_INV;
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return IBV_WC_SEND;
    default:
      return IBV_WC_RDMA_WRITE;
  }
}

bool inside(std::uint64_t address, std::uint64_t bytes, std::uint64_t begin, std::uint64_t size) {
  return address >= begin && bytes <= size && address - begin <= size - bytes;
}

}  // namespace

int newEvents() { return ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE | EFD_NONBLOCK); }

ibv_gid Host::gid() const {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = 10;
  gid.raw[15] = options.address;
  return gid;
}

Host* Fabric::State::hostOf(std::uint8_t address) {
  for (Host* host : hosts)
    if (host->options.address == address) return host;
  return nullptr;
}

void Fabric::State::complete(QueuePair& pair, const ibv_wc& completion, ibv_cq* queue) {
  auto& into = *static_cast<Queue*>(queue);
  into.completions.push_back(completion);
  into.completions.back().qp_num = pair.qp_num;
  if (!into.armed || into.to == nullptr) return;
  into.armed = false;
  into.to->events.push_back(&into);
  ::eventfd_write(into.to->fd, 1);
}

void Fabric::State::raise(Host& host, ibv_async_event event) {
  for (Context* context : host.contexts) {
    context->events.push_back(event);
    ::eventfd_write(context->async_fd, 1);
  }
}

void Fabric::State::fail(QueuePair& pair) {
  if (pair.host->gone) return;
  pair.state = IBV_QPS_ERR;
  pair.waitsForReceive = false;
  for (const SendWork& work : std::exchange(pair.sends, {})) {
    ibv_wc flushed{};
    flushed.wr_id = work.request.wr_id;
    flushed.status = IBV_WC_WR_FLUSH_ERR;
    complete(pair, flushed, pair.send_cq);
  }
  for (const QueuePair::Receive& receive : std::exchange(pair.receives, {})) {
    ibv_wc flushed{};
    flushed.wr_id = receive.id;
    flushed.status = IBV_WC_WR_FLUSH_ERR;
    complete(pair, flushed, pair.recv_cq);
  }
}

void Fabric::State::progress(QueuePair& pair) {
  while (pair.state == IBV_QPS_RTS && !pair.sends.empty() && !pair.host->gone) {
    const SendWork& work = pair.sends.front();
    const Verdict verdict = judge ? judge(pair.qp_num, work.request.opcode) : Verdict{};
    if (verdict.held) return;
    bool waits = false;
    ibv_wc done{};
    done.status = verdict.status == IBV_WC_SUCCESS ? execute(pair, work, waits) : verdict.status;
    if (waits) {
      pair.waitsForReceive = true;
      return;
    }
    done.wr_id = work.request.wr_id;
    done.opcode = completedAs(work.request.opcode);
    const bool signalled = (work.request.send_flags & IBV_SEND_SIGNALED) != 0;
    pair.sends.pop_front();
    ++counts.requests;
    counts.completions += done.status != IBV_WC_SUCCESS || signalled ? 1 : 0;
    if (done.status != IBV_WC_SUCCESS) {
      complete(pair, done, pair.send_cq);
      fail(pair);
    } else if (signalled) {
      pair.unreported = 0;
      complete(pair, done, pair.send_cq);
    } else {
      ++pair.unreported;
    }
  }
}

QueuePair* Fabric::State::peerOf(const QueuePair& pair) const {
  const auto found = pairs.find(pair.path.dest_qp_num);
  if (found == pairs.end()) return nullptr;
  QueuePair& peer = *found->second;
  const bool receives = peer.state == IBV_QPS_RTR || peer.state == IBV_QPS_RTS;
  const ibv_gid gid = peer.host->gid();
  const bool addressed = std::memcmp(gid.raw, pair.path.ah_attr.grh.dgid.raw, sizeof(gid.raw)) == 0;
  const bool mutual = peer.path.dest_qp_num == pair.qp_num &&
                      peer.path.rq_psn == pair.path.sq_psn &&
                      peer.path.path_mtu == pair.path.path_mtu;
  const bool linked = pair.host->linkUp && peer.host->linkUp && !peer.host->gone;
  return receives && addressed && mutual && linked ? &peer : nullptr;
}

ibv_wc_status Fabric::State::execute(QueuePair& pair, const SendWork& work, bool& waits) {
  if (work.request.opcode == IBV_WR_BIND_MW) return bind(pair, work.request);
  if (work.request.opcode == IBV_WR_LOCAL_INV)
    return invalidate(pair, work.request.invalidate_rkey);
  std::vector<std::byte> bytes;
  if (const ibv_wc_status gathered = gather(pair, work, bytes); gathered != IBV_WC_SUCCESS)
    return gathered;
  QueuePair* const peer = peerOf(pair);
  if (peer == nullptr) return IBV_WC_RETRY_EXC_ERR;
  if (work.request.opcode != IBV_WR_RDMA_WRITE && peer->receives.empty()) {
    waits = true;
    return IBV_WC_SUCCESS;
  }
  return deliver(*peer, work, bytes);
}

ibv_wc_status Fabric::State::gather(const QueuePair& pair, const SendWork& work,
                                    std::vector<std::byte>& bytes) const {
  if ((work.request.send_flags & IBV_SEND_INLINE) != 0) {
    bytes = work.inlined;
    return IBV_WC_SUCCESS;
  }
  for (const ibv_sge& piece : work.pieces) {
    const auto found = regions.find(piece.lkey);
    if (found == regions.end() || found->second->pd != pair.pd ||
        !inside(piece.addr, piece.length, reinterpret_cast<std::uintptr_t>(found->second->addr),
                found->second->length))
      return IBV_WC_LOC_PROT_ERR;
    const auto* const from = reinterpret_cast<const std::byte*>(piece.addr);
    bytes.insert(bytes.end(), from, from + piece.length);
  }
  return IBV_WC_SUCCESS;
}

bool Fabric::State::opens(const QueuePair& target, std::uint32_t key, std::uint64_t address,
                          std::uint64_t bytes) const {
  if (const auto window = windows.find(key); window != windows.end()) {
    return window->second->queuePair == target.qp_num &&
           inside(address, bytes, window->second->address, window->second->bytes);
  }
  const auto region = regions.find(key);
  return region != regions.end() && region->second->pd == target.pd &&
         (region->second->access & IBV_ACCESS_REMOTE_WRITE) != 0 &&
         inside(address, bytes, reinterpret_cast<std::uintptr_t>(region->second->addr),
                region->second->length);
}

ibv_wc_status Fabric::State::deliver(QueuePair& target, const SendWork& work,
                                     const std::vector<std::byte>& bytes) {
  const ibv_send_wr& request = work.request;
  const bool isWrite =
      request.opcode == IBV_WR_RDMA_WRITE || request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (isWrite && !bytes.empty()) {
    if (!opens(target, request.wr.rdma.rkey, request.wr.rdma.remote_addr, bytes.size())) {
      ibv_async_event event{};
      event.event_type = IBV_EVENT_QP_ACCESS_ERR;
      event.element.qp = &target;
      raise(*target.host, event);
      fail(target);
      return IBV_WC_REM_ACCESS_ERR;
    }
    std::ranges::copy(bytes, reinterpret_cast<std::byte*>(request.wr.rdma.remote_addr));
  }
  if (request.opcode == IBV_WR_RDMA_WRITE) return IBV_WC_SUCCESS;
  const QueuePair::Receive receive = std::move(target.receives.front());
  target.receives.pop_front();
  ibv_wc received{};
  received.wr_id = receive.id;
  received.opcode = isWrite ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  received.byte_len = static_cast<std::uint32_t>(bytes.size());
  if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM || request.opcode == IBV_WR_SEND_WITH_IMM) {
    received.wc_flags = IBV_WC_WITH_IMM;
    received.imm_data = request.imm_data;
  }
  if (!isWrite) {
    if (receive.pieces.empty() || receive.pieces.front().length < bytes.size()) {
      received.status = IBV_WC_LOC_LEN_ERR;
      complete(target, received, target.recv_cq);
      fail(target);
      return IBV_WC_REM_INV_REQ_ERR;
    }
    std::ranges::copy(bytes, reinterpret_cast<std::byte*>(receive.pieces.front().addr));
  }
  complete(target, received, target.recv_cq);
  return IBV_WC_SUCCESS;
}

ibv_wc_status Fabric::State::bind(QueuePair& pair, const ibv_send_wr& request) {
  auto& window = *static_cast<MemoryWindow*>(request.bind_mw.mw);
  const ibv_mw_bind_info& info = request.bind_mw.bind_info;
  auto* const region = static_cast<Region*>(info.mr);
  const bool allowed = region != nullptr && window.region == nullptr && region->pd == pair.pd &&
                       (region->access & IBV_ACCESS_MW_BIND) != 0 &&
                       (request.bind_mw.rkey >> 8) == (window.rkey >> 8) &&
                       inside(info.addr, info.length,
                              reinterpret_cast<std::uintptr_t>(region->addr), region->length);
  if (!allowed) return IBV_WC_MW_BIND_ERR;
  ++region->windows;
  window.region = region;
  window.address = info.addr;
  window.bytes = info.length;
  window.queuePair = pair.qp_num;
  windows[request.bind_mw.rkey] = &window;
  return IBV_WC_SUCCESS;
}

ibv_wc_status Fabric::State::invalidate(QueuePair& pair, std::uint32_t key) {
  const auto found = windows.find(key);
  if (found == windows.end() || found->second->queuePair != pair.qp_num) return IBV_WC_LOC_PROT_ERR;
  --found->second->region->windows;
  found->second->region = nullptr;
  windows.erase(found);
  return IBV_WC_SUCCESS;
}

}  // namespace hearth::testing_verbs
