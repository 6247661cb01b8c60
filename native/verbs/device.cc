#include "verbs/device.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tuple>

namespace hearth {
namespace {

// The local device may write into registered memory; others only through a window.
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;
// A queue pair has no use for more: deeper queues only delay the news of a failure.
constexpr std::uint32_t kMostSendRequests = 512;
constexpr std::uint32_t kMostReceives = 512;
constexpr std::uint32_t kMostPieces = 16;
constexpr std::uint32_t kMostCompletions = 1u << 16;
constexpr int kMostGids = 256;  // a queue pair names its entry by one byte

std::uint64_t laneBitsPerSecond(std::uint8_t speed) {
  constexpr std::uint64_t kMega = 1'000'000;
  switch (speed) {
    case 1:
      return 2'500 * kMega;
    case 2:
      return 5'000 * kMega;
    case 4:
    case 8:
      return 10'000 * kMega;
    case 16:
      return 14'000 * kMega;
    case 32:
      return 25'000 * kMega;
    case 64:
      return 50'000 * kMega;
    case 128:
      return 100'000 * kMega;
    default:
      return 0;
  }
}

std::uint64_t lanesOf(std::uint8_t width) {
  switch (width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

class VerbsRegistration final : public MemoryRegistration {
 public:
  VerbsRegistration(std::shared_ptr<RdmaDevice> device, ibv_mr* region)
      : device_(std::move(device)), region_(region) {}
  ~VerbsRegistration() override { device_->verbs().deregMr(region_); }
  [[nodiscard]] ibv_mr* region() const { return region_; }

 private:
  const std::shared_ptr<RdmaDevice> device_;
  ibv_mr* const region_;
};

}  // namespace

Result<std::shared_ptr<RdmaDevice>> RdmaDevice::open(std::shared_ptr<Verbs> verbs,
                                                     ibv_device* device, std::uint8_t port) {
  std::shared_ptr<RdmaDevice> opened(new RdmaDevice(std::move(verbs)));
  opened->portNumber_ = port;
  opened->name_ = std::string(device->name) + "/" + std::to_string(port);
  const auto failed = [&](const char* what) { return errnoError(errno, opened->name_ + what); };
  errno = ENODEV;
  opened->context_ = opened->verbs_->openDevice(device);
  if (opened->context_ == nullptr) return failed(": opening /dev/infiniband/uverbs*");
  const int flags = ::fcntl(opened->context_->async_fd, F_GETFL);
  if (flags < 0 || ::fcntl(opened->context_->async_fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return failed(": preparing the descriptor of events");
  opened->pd_ = opened->verbs_->allocPd(opened->context_);
  if (opened->pd_ == nullptr) return failed(": allocating a protection domain");
  const Status described = opened->describe(device);
  if (!described.ok()) return described.error().within(opened->name_);
  return opened;
}

RdmaDevice::~RdmaDevice() {
  if (pd_ != nullptr) verbs_->deallocPd(pd_);
  if (context_ != nullptr) verbs_->closeDevice(context_);
}

Status RdmaDevice::describe(ibv_device* device) {
  ibv_device_attr about{};
  if (verbs_->queryDevice(context_, &about) != 0) return errnoError(errno, "asking for its limits");
  limits_.sendRequests = std::min<std::uint32_t>(about.max_qp_wr, kMostSendRequests);
  limits_.receives = std::min<std::uint32_t>(about.max_qp_wr, kMostReceives);
  limits_.pieces = std::min<std::uint32_t>(about.max_sge, kMostPieces);
  limits_.completions = std::min<std::uint32_t>(about.max_cqe, kMostCompletions);
  constexpr unsigned kType2 = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  limits_.hasWindows = (about.device_cap_flags & kType2) != 0 && about.max_mw > 0;

  ibv_port_attr port{};
  if (verbs_->queryPort(context_, portNumber_, &port) != 0)
    return errnoError(errno, "asking for the port");
  if (port.state != IBV_PORT_ACTIVE) {
    return Error{ErrorCode::kUnavailable,
                 "the port is not active; check the cable, the switch and, on InfiniBand, the "
                 "subnet manager"};
  }
  limits_.messageBytes = port.max_msg_sz;
  port_.link =
      port.link_layer == IBV_LINK_LAYER_ETHERNET ? LinkLayer::kEthernet : LinkLayer::kInfiniBand;
  port_.lid = port.lid;
  port_.mtuBytes = 128u << port.active_mtu;
  port_.bitsPerSecond = laneBitsPerSecond(port.active_speed) * lanesOf(port.active_width);
  readGids(port.gid_tbl_len);
  readPlace(device);
  if (const GidEntry* const best = preferredGid(port_.gids)) {
    gid_ = *best;
  } else if (port_.link == LinkLayer::kEthernet) {
    return Error{ErrorCode::kUnsupported,
                 "the port has no GID; give its network interface an IP address"};
  }
  return {};
}

void RdmaDevice::readGids(int count) {
  for (int index = 0; index < std::min(count, kMostGids); ++index) {
    ibv_gid gid{};
    if (verbs_->queryGid(context_, portNumber_, index, &gid) != 0) continue;
    GidEntry entry{.index = static_cast<std::uint8_t>(index)};
    std::memcpy(entry.gid.data(), gid.raw, entry.gid.size());
    if (std::ranges::all_of(entry.gid, [](auto byte) { return byte == 0; })) continue;
    const auto type = verbs_->gidType(context_, portNumber_, index);
    // InfiniBand has one type. A library that cannot tell is older than RoCE v1's end.
    if (port_.link == LinkLayer::kInfiniBand || type == IBV_GID_TYPE_IB) {
      entry.type = port_.link == LinkLayer::kInfiniBand ? GidType::kInfiniBand : GidType::kRoceV1;
    } else {
      entry.type = type == IBV_GID_TYPE_ROCE_V2 ? GidType::kRoceV2 : GidType::kRoceV1;
    }
    port_.gids.push_back(entry);
  }
}

Status RdmaDevice::useGid(int index) {
  std::string known;
  for (const GidEntry& entry : port_.gids) {
    if (entry.index == index) {
      gid_ = entry;
      return {};
    }
    known += (known.empty() ? "" : ", ") + std::to_string(entry.index) + " is " + textOf(entry.gid);
  }
  return Error{ErrorCode::kNotFound,
               name_ + " has no GID of index " + std::to_string(index) + "; " + known};
}

void RdmaDevice::readPlace(ibv_device* device) {
  if (device->ibdev_path[0] == '\0') return;
  const std::filesystem::path place = std::filesystem::path(device->ibdev_path) / "device";
  std::error_code ignored;
  port_.pciPath = std::filesystem::canonical(place, ignored).filename().string();
  std::ifstream(place / "numa_node") >> port_.numaNode;
}

Result<std::unique_ptr<MemoryRegistration>> RdmaDevice::enroll(const MemoryRegion& region) {
  if (!region.isHost())
    return Error{ErrorCode::kUnsupported, "this build registers no memory of GPUs"};
  const int access = kAccess | (limits_.hasWindows ? IBV_ACCESS_MW_BIND : 0);
  errno = ENOMEM;
  ibv_mr* const known = verbs_->regMr(pd_, region.bytes().data(), region.size(), access);
  if (known == nullptr) {
    if (errno == ENOMEM) {
      return Error{ErrorCode::kOutOfSpace,
                   "the device may not pin " + std::to_string(region.size()) +
                       " bytes; raise the limit of locked memory (RLIMIT_MEMLOCK, CAP_IPC_LOCK)"};
    }
    return errnoError(errno, "registering memory");
  }
  return std::unique_ptr<MemoryRegistration>(new VerbsRegistration(shared_from_this(), known));
}

ibv_mr* RdmaDevice::registeredAs(const MemoryRegion& region) const {
  const MemoryRegistration* const known = region.knownTo(*this);
  return known == nullptr ? nullptr : static_cast<const VerbsRegistration*>(known)->region();
}

std::vector<std::uint32_t> RdmaDevice::takeEvents() {
  std::vector<std::uint32_t> failed;
  ibv_async_event event{};
  while (verbs_->getAsyncEvent(context_, &event) == 0) {
    switch (event.event_type) {
      case IBV_EVENT_DEVICE_FATAL:
        state_ = State::kFailed;
        break;
      case IBV_EVENT_PORT_ERR:
        if (event.element.port_num == portNumber_ && state_ == State::kActive)
          state_ = State::kDown;
        break;
      case IBV_EVENT_PORT_ACTIVE:
        if (event.element.port_num == portNumber_ && state_ == State::kDown)
          state_ = State::kActive;
        break;
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
        failed.push_back(event.element.qp->qp_num);
        break;
      default:  // of path migration, shared receive queues and tables, which are not used
        break;
    }
    verbs_->ackAsyncEvent(&event);
  }
  return failed;
}

Devices openDevices(const std::shared_ptr<Verbs>& verbs, int near) {
  Devices found;
  int count = 0;
  errno = 0;
  ibv_device** const list = verbs->getDeviceList(&count);
  if (list == nullptr) {
    found.refused.push_back({"", errnoError(errno, "listing RDMA devices (module ib_uverbs)")});
    return found;
  }
  for (int at = 0; at < count; ++at) {
    // A device has one port or two; the first failure that is not the port's ends the loop.
    for (std::uint8_t port = 1; port <= 2; ++port) {
      auto device = RdmaDevice::open(verbs, list[at], port);
      if (device.ok()) {
        found.usable.push_back(std::move(*device));
      } else if (port == 1 || device.error().code != ErrorCode::kInvalidArgument) {
        found.refused.push_back(
            {std::string(list[at]->name) + "/" + std::to_string(port), device.error()});
      }
    }
  }
  verbs->freeDeviceList(list);
  std::ranges::stable_sort(found.usable, [near](const auto& a, const auto& b) {
    const auto rank = [near](const RdmaDevice& device) {
      return std::tuple(near >= 0 && device.port().numaNode != near, ~device.port().bitsPerSecond);
    };
    return rank(*a) < rank(*b);
  });
  return found;
}

}  // namespace hearth
