#include "verbs/endpoint.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>

namespace hearth {
namespace {

// In the id of a work request: it is a receive, and the other bits are its number.
constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;
// A packet that is lost is sent again after 4.096 us * 2^12 = 17 ms, four times: a path that has
// died is noticed within the 250 ms that a slice may lose.
constexpr std::uint8_t kAckTimeout = 12;
constexpr std::uint8_t kRetries = 4;
// A receiver without a receive is asked again after 5 ms, six times. Seven would be for ever.
constexpr std::uint8_t kReceiverTimer = 18;
constexpr std::uint8_t kReceiverRetries = 6;

std::uint32_t randomPacketNumber() {
  thread_local std::minstd_rand random(std::random_device{}());
  return static_cast<std::uint32_t>(random()) & 0xffffff;
}

ibv_mtu mtuOf(std::uint32_t bytes) {
  int code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && (128u << code) < bytes) ++code;
  return static_cast<ibv_mtu>(code);
}

Error errorOf(const ibv_wc& completion) {
  switch (completion.status) {
    case IBV_WC_RETRY_EXC_ERR:
      return {ErrorCode::kUnavailable, "the other RDMA port does not answer"};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {ErrorCode::kUnavailable, "the other RDMA endpoint posts no receives"};
    case IBV_WC_REM_ACCESS_ERR:
      return {ErrorCode::kPermissionDenied, "the key does not open that memory of the other side"};
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return {ErrorCode::kProtocolError, "the other RDMA endpoint refused a request as malformed"};
    case IBV_WC_WR_FLUSH_ERR:
      return {ErrorCode::kUnavailable, "the RDMA endpoint failed before this request"};
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
      return {ErrorCode::kInternal, "the RDMA device refused a request of ours (status " +
                                        std::to_string(completion.status) + ")"};
    default:
      return {ErrorCode::kUnavailable, "an RDMA request failed (status " +
                                           std::to_string(completion.status) + ", vendor's " +
                                           std::to_string(completion.vendor_err) + ")"};
  }
}

bool takesReceive(const Transfer& transfer) {
  return transfer.kind == Transfer::Kind::kSend || transfer.immediate.has_value();
}

}  // namespace

OpenedMemory::~OpenedMemory() {
  if (window != nullptr) device->verbs().deallocMw(window);
}

// The work requests of some transfers, linked in order.
class Endpoint::Chain {
 public:
  explicit Chain(Endpoint& endpoint) : endpoint_(endpoint) {}

  struct Entry {
    ibv_send_wr request{};
    std::size_t firstPiece = 0;
    std::size_t transfer = 0;
    bool last = false;
  };

  void add(std::unique_ptr<Transfer> transfer, std::size_t count) {
    const Transfer& of = *transfer;
    transfers.push_back(std::move(transfer));
    const std::span<const MemorySlice> slices = of.local.slices();
    const std::size_t most = endpoint_.device_->limits().pieces;
    const bool isInline =
        of.kind == Transfer::Kind::kSend && of.local.size() <= endpoint_.options_.inlineBytes;
    std::uint64_t remote = of.remoteAddress;
    for (std::size_t at = 0; at < count; ++at) {
      Entry entry;
      entry.firstPiece = pieces.size();
      entry.transfer = transfers.size() - 1;
      entry.last = at + 1 == count;
      const auto part = slices.subspan(std::min(at * most, slices.size()));
      std::uint64_t bytes = 0;
      for (const MemorySlice& slice : part.first(std::min(most, part.size()))) {
        bytes += slice.size;
        addPiece(slice, isInline);
      }
      entry.request.num_sge = static_cast<int>(pieces.size() - entry.firstPiece);
      describe(entry, of, remote);
      if (isInline) entry.request.send_flags |= IBV_SEND_INLINE;
      remote += bytes;
      entries.push_back(entry);
    }
  }

  // No entry may be added afterwards.
  void link() {
    for (std::size_t at = 0; at < entries.size(); ++at) {
      ibv_send_wr& request = entries[at].request;
      const bool lastOfAll = at + 1 == entries.size();
      request.next = lastOfAll ? nullptr : &entries[at + 1].request;
      request.sg_list = pieces.data() + entries[at].firstPiece;
      request.wr_id = endpoint_.nextSequence_++;
      if (++endpoint_.sinceSignal_ >= endpoint_.options_.signalEvery || lastOfAll) {
        endpoint_.sinceSignal_ = 0;
        request.send_flags |= IBV_SEND_SIGNALED;
      }
    }
  }

  // The number of the entry whose request this is; none: it is not of this chain.
  [[nodiscard]] std::optional<std::size_t> indexOf(const ibv_send_wr* request,
                                                   std::size_t from) const {
    for (std::size_t at = from; at < entries.size(); ++at)
      if (&entries[at].request == request) return at;
    return std::nullopt;
  }

  std::vector<std::unique_ptr<Transfer>> transfers;
  std::vector<Entry> entries;
  std::vector<ibv_sge> pieces;

 private:
  void addPiece(const MemorySlice& slice, bool isInline) {
    const ibv_mr* const known = isInline ? nullptr : endpoint_.device_->registeredAs(*slice.region);
    pieces.push_back({.addr = slice.region->address() + slice.offset,
                      .length = static_cast<std::uint32_t>(slice.size),
                      .lkey = known == nullptr ? 0 : known->lkey});
  }

  void describe(Entry& entry, const Transfer& of, std::uint64_t remote) const {
    ibv_send_wr& request = entry.request;
    switch (of.kind) {
      case Transfer::Kind::kWrite:
        request.opcode = IBV_WR_RDMA_WRITE;
        request.wr.rdma = {.remote_addr = remote, .rkey = of.remoteKey};
        if (entry.last && of.immediate) {
          request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
          request.imm_data = htobe32(*of.immediate);
        }
        break;
      case Transfer::Kind::kSend:
        request.opcode = of.immediate ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
        if (of.immediate) request.imm_data = htobe32(*of.immediate);
        break;
      case Transfer::Kind::kOpen: {
        const MemorySlice& memory = of.window->memory;
        request.opcode = IBV_WR_BIND_MW;
        request.bind_mw.mw = of.window->window;
        request.bind_mw.rkey = of.window->key;
        request.bind_mw.bind_info = {.mr = endpoint_.device_->registeredAs(*memory.region),
                                     .addr = memory.region->address() + memory.offset,
                                     .length = memory.size,
                                     .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
        break;
      }
      case Transfer::Kind::kClose:
        request.opcode = IBV_WR_LOCAL_INV;
        request.invalidate_rkey = of.window->key;
        break;
    }
  }

  Endpoint& endpoint_;
};

Endpoint::Endpoint(std::shared_ptr<Device> device, CompletionQueue& completions,
                   EndpointOptions options, OnMessage onMessage)
    : device_(std::move(device)),
      completions_(completions),
      options_(options),
      onMessage_(std::move(onMessage)) {
  const DeviceLimits& limits = device_->limits();
  options_.sendRequests = std::clamp(options_.sendRequests, 2u, limits.sendRequests);
  options_.receives = std::clamp(options_.receives, 1u, limits.receives);
  options_.signalEvery =
      std::clamp(options_.signalEvery, 1u, std::max(options_.sendRequests / 2, 1u));
}

Result<std::unique_ptr<Endpoint>> Endpoint::create(std::shared_ptr<Device> device,
                                                   CompletionQueue& completions,
                                                   EndpointOptions options, OnMessage onMessage) {
  std::unique_ptr<Endpoint> made(
      new Endpoint(std::move(device), completions, options, std::move(onMessage)));
  const std::string name(made->device_->name());
  if (const Status status = made->createQueuePair(); !status.ok())
    return status.error().within(name);
  if (const Status status = made->postReceives(); !status.ok()) return status.error().within(name);
  return made;
}

Endpoint::~Endpoint() {
  onFailure_ = {};
  fail({ErrorCode::kCancelled, "the RDMA endpoint was closed"});
  if (pair_ != nullptr) {
    completions_.remove(pair_->qp_num);
    // From here on the device uses nothing of it.
    device_->verbs().destroyQp(pair_);
  }
  completions_.release(reserved_);
}

Status Endpoint::createQueuePair() {
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
               .max_inline_data = options_.inlineBytes};
  errno = ENOMEM;
  pair_ = device_->verbs().createQp(device_->pd(), &about);
  if (pair_ == nullptr && options_.inlineBytes != 0) {
    // Some devices refuse what exceeds their room for inline data, instead of granting less.
    about.cap.max_inline_data = options_.inlineBytes = 0;
    pair_ = device_->verbs().createQp(device_->pd(), &about);
  }
  if (pair_ == nullptr) return errnoError(errno, "creating a queue pair");
  options_.inlineBytes = std::min(options_.inlineBytes, about.cap.max_inline_data);
  completions_.add(pair_->qp_num, *this);

  const PortDescription& port = device_->port();
  address_ = {.link = port.link,
              .lid = port.lid,
              .mtuBytes = port.mtuBytes,
              .gid = device_->gid().gid,
              .queuePair = pair_->qp_num,
              .firstPacket = randomPacketNumber(),
              .receives = options_.receives,
              .receiveBytes = options_.receiveBytes};
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_->portNumber();
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;  // as windows allow it
  return modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                "INIT");
}

Status Endpoint::modify(ibv_qp_attr& attributes, int mask, const char* to) {
  const int error = device_->verbs().modifyQp(pair_, &attributes, mask);
  if (error == 0) return {};
  return errnoError(error < 0 ? errno : error,
                    std::string("taking a queue pair to the state ") + to);
}

Status Endpoint::postReceives() {
  auto memory = MemoryRegion::allocate(std::size_t{options_.receives} * options_.receiveBytes);
  if (!memory.ok()) return memory.error();
  receives_ = std::move(*memory);
  const auto known = receives_->registrationWith(device_);
  if (!known.ok()) return known.error();
  for (std::uint32_t index = 0; index < options_.receives; ++index)
    if (!postReceive(index)) return errnoError(errno, "posting a receive");
  return {};
}

bool Endpoint::postReceive(std::uint32_t index) {
  ibv_sge piece{.addr = receives_->address() + std::uint64_t{index} * options_.receiveBytes,
                .length = options_.receiveBytes,
                .lkey = device_->registeredAs(*receives_)->lkey};
  ibv_recv_wr request{};
  request.wr_id = kReceiveBit | index;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  const int error = device_->verbs().postRecv(pair_, &request, &bad);
  if (error != 0) errno = error < 0 ? errno : error;
  return error == 0;
}

Status Endpoint::connect(const EndpointAddress& theirs) {
  if (state_ != State::kInitial)
    return Error{ErrorCode::kInvalidArgument, "the endpoint has been connected before"};
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
  const Status receiving =
      modify(attributes,
             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
             "RTR (is the address of the other port reachable?)");
  if (!receiving.ok()) return receiving;
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = kAckTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kReceiverRetries;
  attributes.sq_psn = address_.firstPacket;
  attributes.max_rd_atomic = 1;
  const Status sending = modify(attributes,
                                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
                                "RTS");
  if (!sending.ok()) return sending;
  credit_ = theirs.receives;
  state_ = State::kReady;
  return {};
}

void Endpoint::settle(Transfer& transfer, const Status& status) {
  if (const auto settled = std::exchange(transfer.settled, {})) settled(status);
}

void Endpoint::post(std::vector<std::unique_ptr<Transfer>> batch) {
  for (std::unique_ptr<Transfer>& transfer : batch) {
    if (state_ == State::kReady) {
      waiting_.push_back(std::move(transfer));
    } else {
      settle(*transfer,
             state_ == State::kFailed
                 ? failure_
                 : Status(Error{ErrorCode::kUnavailable, "the RDMA endpoint is not connected"}));
    }
  }
  pump();
}

void Endpoint::addCredit(std::uint32_t receives) {
  credit_ += receives;
  pump();
}

std::size_t Endpoint::requestsOf(const Transfer& transfer, Status& why) const {
  const std::span<const MemorySlice> slices = transfer.local.slices();
  const DeviceLimits& limits = device_->limits();
  if (transfer.kind == Transfer::Kind::kOpen || transfer.kind == Transfer::Kind::kClose) return 1;
  const bool isSend = transfer.kind == Transfer::Kind::kSend;
  const bool isInline = isSend && transfer.local.size() <= options_.inlineBytes;
  const bool isKnown = std::ranges::all_of(slices, [this](const MemorySlice& slice) {
    return device_->registeredAs(*slice.region) != nullptr;
  });
  if (!isInline && !isKnown) {
    why = Error{ErrorCode::kUnsupported, "the RDMA device does not know this memory"};
    return 0;
  }
  const std::size_t count =
      std::max<std::size_t>(1, (slices.size() + limits.pieces - 1) / limits.pieces);
  if (transfer.local.size() > limits.messageBytes || (isSend && count > 1) ||
      count >= options_.sendRequests) {
    why = Error{ErrorCode::kInvalidArgument, "the transfer is too large for the RDMA endpoint"};
    return 0;
  }
  return count;
}

void Endpoint::pump() {
  if (std::exchange(pumping_, true)) return;
  while (state_ == State::kReady && !waiting_.empty()) {
    Chain chain(*this);
    while (!waiting_.empty()) {
      Status why;
      const std::size_t count = requestsOf(*waiting_.front(), why);
      // One place is kept for a marker.
      if (inFlight_.size() + chain.entries.size() + count >= options_.sendRequests) break;
      const bool takes = count != 0 && takesReceive(*waiting_.front());
      if (takes && credit_ == 0) break;
      std::unique_ptr<Transfer> transfer = std::move(waiting_.front());
      waiting_.pop_front();
      if (count == 0) {
        settle(*transfer, why);
        continue;
      }
      credit_ -= takes ? 1 : 0;
      chain.add(std::move(transfer), count);
    }
    if (chain.entries.empty()) break;
    postChain(chain);
  }
  pumping_ = false;
}

void Endpoint::postChain(Chain& chain) {
  chain.link();
  std::size_t at = 0;
  while (at < chain.entries.size() && state_ == State::kReady) {
    ibv_send_wr* bad = nullptr;
    const int error = device_->verbs().postSend(pair_, &chain.entries[at].request, &bad);
    std::optional<std::size_t> stopped = chain.entries.size();
    if (error != 0) stopped = chain.indexOf(bad, at);
    if (!stopped) {
      fail({ErrorCode::kInternal, "the RDMA device does not say which requests it has taken"});
      break;
    }
    for (; at < *stopped; ++at) {
      Chain::Entry& entry = chain.entries[at];
      std::unique_ptr<Transfer>& owner = chain.transfers[entry.transfer];
      const bool signalled = (entry.request.send_flags & IBV_SEND_SIGNALED) != 0;
      ++counts_.requests;
      counts_.signalled += signalled ? 1 : 0;
      inFlight_.push_back({entry.request.wr_id, owner.get(), signalled});
      if (entry.last) inFlight_.back().last = std::move(owner);
    }
    if (error == 0) break;
    const std::size_t refusedIndex = chain.entries[at].transfer;
    std::unique_ptr<Transfer> refused = std::move(chain.transfers[refusedIndex]);
    if (takesReceive(*refused)) ++credit_;
    settle(*refused, errnoError(error < 0 ? errno : error, "posting to an RDMA device"));
    // The device may have its first requests.
    if (!inFlight_.empty() && inFlight_.back().transfer == refused.get()) {
      ++counts_.partialPosts;
      inFlight_.back().last = std::move(refused);
    }
    while (at < chain.entries.size() && chain.entries[at].transfer == refusedIndex) ++at;
  }
  for (const std::unique_ptr<Transfer>& left : chain.transfers)
    if (left) settle(*left, failure_);
  if (state_ != State::kReady || inFlight_.empty() || inFlight_.back().signalled) return;
  if (const int error = postMarker(); error != 0)
    fail(errnoError(error, "posting to an RDMA device"));
}

int Endpoint::postMarker() {
  ibv_send_wr request{};
  request.wr_id = nextSequence_++;
  request.opcode = IBV_WR_RDMA_WRITE;  // of no bytes: no key is looked at
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = device_->verbs().postSend(pair_, &request, &bad);
  if (error != 0) return error < 0 ? errno : error;
  sinceSignal_ = 0;
  ++counts_.markers;
  inFlight_.push_back({request.wr_id, nullptr, true});
  return 0;
}

void Endpoint::onCompletion(const ibv_wc& completion) {
  // Opcodes of failed completions are not valid: the id tells the two queues apart.
  if ((completion.wr_id & kReceiveBit) != 0) {
    onReceived(completion);
  } else {
    onSent(completion);
  }
}

void Endpoint::onReceived(const ibv_wc& completion) {
  const std::uint64_t index = completion.wr_id & ~kReceiveBit;
  if (completion.status != IBV_WC_SUCCESS) return fail(errorOf(completion));
  const bool isMessage = completion.opcode == IBV_WC_RECV;
  if (index >= options_.receives || (isMessage && completion.byte_len > options_.receiveBytes))
    return fail({ErrorCode::kInternal, "the RDMA device completed a receive that is unknown"});
  Message message;
  if (isMessage) {
    message.bytes = receives_->bytes().subspan(index * options_.receiveBytes, completion.byte_len);
  }
  if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0)
    message.immediate = be32toh(completion.imm_data);
  if (state_ != State::kFailed) onMessage_(message);
  if (state_ == State::kFailed) return;
  if (!postReceive(static_cast<std::uint32_t>(index))) fail(errnoError(errno, "posting a receive"));
}

void Endpoint::onSent(const ibv_wc& completion) {
  const auto found = std::ranges::lower_bound(inFlight_, completion.wr_id, {},
                                              [](const Request& each) { return each.sequence; });
  if (found == inFlight_.end() || found->sequence != completion.wr_id)
    return fail({ErrorCode::kInternal, "the RDMA device completed a request that is unknown"});
  const auto before = static_cast<std::size_t>(found - inFlight_.begin());
  const bool wasPumping = std::exchange(pumping_, true);
  if (completion.status == IBV_WC_SUCCESS) {
    retire(before + 1, Status());
  } else {
    const Error error = errorOf(completion);
    // A request whose failure is its own ends those before it with success; a flush says nothing of
    // them.
    retire(before, completion.status == IBV_WC_WR_FLUSH_ERR ? Status(error) : Status());
    retire(1, error);
    fail(error);
  }
  pumping_ = wasPumping;
  pump();
}

void Endpoint::retire(std::size_t count, const Status& status) {
  for (; count != 0; --count) {
    const Request request = std::move(inFlight_.front());
    inFlight_.pop_front();
    if (request.transfer == nullptr) continue;
    // Of one that was refused in the middle the end has been told.
    if (status.ok() && request.last) {
      if (request.transfer->kind == Transfer::Kind::kWrite && request.transfer->settled)
        counts_.bytesWritten += request.transfer->local.size();
      settle(*request.transfer, status);
    } else if (!status.ok()) {
      settle(*request.transfer, status);
    }
  }
}

void Endpoint::fail(Error reason) {
  if (state_ == State::kFailed) return;
  state_ = State::kFailed;
  failure_ = std::move(reason);
  if (pair_ != nullptr) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    // A device that is gone cannot; then the end of the endpoint releases what is under way.
    static_cast<void>(device_->verbs().modifyQp(pair_, &attributes, IBV_QP_STATE));
    // Requests that succeeded unsignalled are not flushed; the flush of a marker ends them.
    if (!inFlight_.empty() && !inFlight_.back().signalled) static_cast<void>(postMarker());
  }
  for (const Request& request : inFlight_)
    if (request.transfer != nullptr) settle(*request.transfer, failure_);
  for (const std::unique_ptr<Transfer>& transfer : std::exchange(waiting_, {}))
    settle(*transfer, failure_);
  if (onFailure_) onFailure_();
}

}  // namespace hearth
