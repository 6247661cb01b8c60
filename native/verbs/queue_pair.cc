#include "verbs/queue_pair.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace hearth {
namespace {

// A packet that is lost is sent again after 4.096 us * 2^12 = 17 ms, four times: a path that has
// died is noticed within the 250 ms that a slice may lose.
constexpr std::uint8_t kAckTimeout = 12;
constexpr std::uint8_t kRetries = 4;
// A receiver without a receive is asked again after 5 ms, six times. Seven would be for ever.
constexpr std::uint8_t kReceiverTimer = 18;
constexpr std::uint8_t kReceiverRetries = 6;

// Of 24 bits that no earlier one tells: a stranger who could guess it could inject packets.
Result<std::uint32_t> randomPacketNumber() {
  std::uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number)
    return errnoError(errno, "asking the kernel for a packet number");
  return number & 0xffffff;
}

ibv_mtu mtuOf(std::uint32_t bytes) {
  int code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && (128u << code) < bytes) ++code;
  return static_cast<ibv_mtu>(code);
}

}  // namespace

QueuePair::QueuePair(std::shared_ptr<RdmaDevice> device, CompletionQueue& completions,
                     EndpointOptions options)
    : device_(std::move(device)), completions_(completions), options_(options) {
  const DeviceLimits& limits = device_->limits();
  options_.sendRequests = std::clamp(options_.sendRequests, 2u, limits.sendRequests);
  options_.receives = std::clamp(options_.receives, 1u, limits.receives);
  options_.signalEvery =
      std::clamp(options_.signalEvery, 1u, std::max(options_.sendRequests / 2, 1u));
}

Result<std::unique_ptr<QueuePair>> QueuePair::create(std::shared_ptr<RdmaDevice> device,
                                                     CompletionQueue& completions,
                                                     CompletionQueue::Taker& taker,
                                                     EndpointOptions options) {
  std::unique_ptr<QueuePair> made(new QueuePair(std::move(device), completions, options));
  const std::string name(made->device_->name());
  if (const Status status = made->createPair(taker); !status.ok())
    return status.error().within(name);
  if (const Status status = made->postReceives(); !status.ok()) return status.error().within(name);
  return made;
}

QueuePair::~QueuePair() {
  if (pair_ != nullptr) {
    completions_.remove(pair_->qp_num);
    device_->verbs().destroyQp(pair_);
  }
  completions_.release(reserved_);
}

Status QueuePair::createPair(CompletionQueue::Taker& taker) {
  const std::uint32_t entries = options_.sendRequests + options_.receives;
  if (!completions_.reserve(entries))
    return Error{ErrorCode::kOutOfSpace, "the completion queue has no room for an endpoint"};
  reserved_ = entries;
  ibv_qp_init_attr about{};
  about.send_cq = about.recv_cq = completions_.queue();
  about.qp_type = IBV_QPT_RC;
  about.sq_sig_all = 0;
  about.cap = {.max_send_wr = options_.sendRequests,
               .max_recv_wr = options_.receives,
               .max_send_sge = device_->limits().pieces,
               .max_recv_sge = 1,
               .max_inline_data = options_.unregisteredBytes};
  pair_ = createWith(about);
  if (pair_ == nullptr) return errnoError(errno, "creating a queue pair");
  completions_.add(pair_->qp_num, taker);
  inlineBytes_ = std::min(options_.unregisteredBytes, about.cap.max_inline_data);
  if (inlineBytes_ < options_.unregisteredBytes) {
    auto copies =
        RegisteredPool::create(device_, options_.sendRequests, options_.unregisteredBytes);
    if (!copies.ok()) return copies.error();
    copies_ = std::move(*copies);
  }

  const Result<std::uint32_t> firstPacket = randomPacketNumber();
  if (!firstPacket.ok()) return firstPacket.error();
  const PortDescription& port = device_->port();
  address_ = {.link = port.link,
              .lid = port.lid,
              .mtuBytes = port.mtuBytes,
              .gid = device_->gid().gid,
              .queuePair = pair_->qp_num,
              .firstPacket = *firstPacket,
              .receives = options_.receives,
              .receiveBytes = options_.receiveBytes};
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_->portNumber();
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;  // as windows allow it
  return modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                "INIT");
}

ibv_qp* QueuePair::createWith(ibv_qp_init_attr& about) {
  const ibv_qp_cap wanted = about.cap;
  // Some devices refuse what exceeds their room for inline bytes, instead of granting less.
  for (std::uint32_t bytes = options_.unregisteredBytes;; bytes /= 2) {
    about.cap = wanted;
    about.cap.max_inline_data = bytes;
    errno = ENOMEM;
    ibv_qp* const made = device_->verbs().createQp(device_->pd(), &about);
    if (made != nullptr || bytes == 0) return made;
  }
}

Status QueuePair::modify(ibv_qp_attr& attributes, int mask, const char* to) {
  const int error = device_->verbs().modifyQp(pair_, &attributes, mask);
  if (error == 0) return {};
  return errnoError(error < 0 ? errno : error,
                    std::string("taking a queue pair to the state ") + to);
}

Status QueuePair::postReceives() {
  auto memory = MemoryRegion::allocate(std::size_t{options_.receives} * options_.receiveBytes);
  if (!memory.ok()) return memory.error();
  receives_ = std::move(*memory);
  const auto known = receives_->registrationWith(device_);
  if (!known.ok()) return known.error();
  for (std::uint32_t index = 0; index < options_.receives; ++index)
    if (Status posted = postReceive(index); !posted.ok()) return posted;
  return {};
}

Status QueuePair::postReceive(std::uint32_t index) {
  ibv_sge piece{.addr = receives_->address() + std::uint64_t{index} * options_.receiveBytes,
                .length = options_.receiveBytes,
                .lkey = device_->registeredAs(*receives_)->lkey};
  ibv_recv_wr request{};
  request.wr_id = kReceiveBit | index;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = device_->verbs().postRecv(pair_, &request, &bad);
  if (error == 0) return {};
  return errnoError(error < 0 ? errno : error, "posting a receive");
}

Status QueuePair::connect(const EndpointAddress& theirs) {
  const Result<std::uint32_t> mtu = agreedMtu(address_, theirs);
  if (!mtu.ok()) return mtu.error();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtuOf(*mtu);
  attributes.dest_qp_num = theirs.queuePair;
  attributes.rq_psn = theirs.firstPacket;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kReceiverTimer;
  ibv_ah_attr& path = attributes.ah_attr;
  path.port_num = device_->portNumber();
  path.dlid = theirs.lid;
  path.is_global = theirs.link == LinkLayer::kEthernet ? 1 : 0;
  if (path.is_global != 0) {
    std::memcpy(path.grh.dgid.raw, theirs.gid.data(), theirs.gid.size());
    path.grh.sgid_index = device_->gid().index;
    path.grh.hop_limit = 64;
  }
  Status receiving = modify(attributes,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                            "RTR (is the address of the other port reachable?)");
  if (!receiving.ok()) return receiving;
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = kAckTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kReceiverRetries;
  attributes.sq_psn = address_.firstPacket;
  attributes.max_rd_atomic = 1;
  return modify(attributes,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                "RTS");
}

void QueuePair::abort() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  // A device that is gone cannot; then the end of this object releases what is posted.
  static_cast<void>(device_->verbs().modifyQp(pair_, &attributes, IBV_QP_STATE));
}

int QueuePair::post(ibv_send_wr* requests, ibv_send_wr** bad) {
  const int error = device_->verbs().postSend(pair_, requests, bad);
  return error < 0 ? errno : error;
}

}  // namespace hearth
