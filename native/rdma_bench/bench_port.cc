#include "rdma_bench/bench_port.h"

#include <poll.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <utility>

namespace hearth::rdma_bench {
namespace {

constexpr const char* kFailed = "failed ";
constexpr std::uint32_t kCompletions = 1024;

std::string_view nameOf(GidType type) {
  switch (type) {
    case GidType::kInfiniBand:
      return "InfiniBand";
    case GidType::kRoceV1:
      return "RoCEv1";
    case GidType::kRoceV2:
      return "RoCEv2";
  }
  return "unknown";
}

// A name without a port means any port of the device.
bool isChosen(std::string_view port, const std::string& choice) {
  return choice.empty() || port == choice || port.substr(0, port.find('/')) == choice;
}

Result<std::shared_ptr<RdmaDevice>> chosenDevice(const std::shared_ptr<Verbs>& verbs,
                                                 const PortChoice& choice) {
  const Devices found = openDevices(verbs);
  for (const std::shared_ptr<RdmaDevice>& device : found.usable) {
    if (!isChosen(device->name(), choice.device)) continue;
    if (choice.gidIndex < 0) return device;
    const Status used = device->useGid(choice.gidIndex);
    if (!used.ok()) return used.error();
    return device;
  }
  std::string why =
      choice.device.empty() ? "no RDMA port can be used" : choice.device + " cannot be used";
  for (const Devices::Refusal& refusal : found.refused)
    why += "; " + (refusal.port.empty() ? "" : refusal.port + ": ") + refusal.reason.message;
  if (found.refused.empty() && found.usable.empty())
    why += "; there is no RDMA device here (`hearth doctor rdma`)";
  for (const std::shared_ptr<RdmaDevice>& device : found.usable)
    why += "; there is " + std::string(device->name());
  return Error{ErrorCode::kNotFound, why};
}

}  // namespace

std::string encode(const PortSummary& port) {
  std::ostringstream words;
  words << port.device << ' ' << port.gid << ' ' << port.gidType << ' '
        << (port.pci.empty() ? "-" : port.pci) << ' ' << port.gidIndex << ' ' << port.numaNode
        << ' ' << port.mtuBytes << ' ' << port.bitsPerSecond;
  return words.str();
}

Result<PortSummary> decodePortSummary(const std::string& words) {
  std::istringstream text(words);
  PortSummary port;
  text >> port.device >> port.gid >> port.gidType >> port.pci >> port.gidIndex >> port.numaNode >>
      port.mtuBytes >> port.bitsPerSecond;
  if (!text) return Error{ErrorCode::kProtocolError, "the other side describes no port"};
  if (port.pci == "-") port.pci.clear();
  return port;
}

std::string failureLine(const Error& error) {
  return kFailed + std::to_string(static_cast<int>(error.code)) + " " + error.message;
}

std::optional<Error> failureOf(const std::string& line) {
  if (!line.starts_with(kFailed)) return std::nullopt;
  std::istringstream text(line.substr(std::string_view(kFailed).size()));
  int code = 0;
  std::string message;
  text >> code >> std::ws;
  std::getline(text, message);
  return Error{static_cast<ErrorCode>(code), message};
}

Result<std::unique_ptr<BenchPort>> BenchPort::open(const std::shared_ptr<Verbs>& verbs,
                                                   const PortChoice& choice,
                                                   Endpoint::OnMessage onMessage) {
  auto device = chosenDevice(verbs, choice);
  if (!device.ok()) return device.error();
  std::unique_ptr<BenchPort> made(new BenchPort(std::move(*device)));
  auto queue = CompletionQueue::create(made->device_, kCompletions);
  if (!queue.ok()) return queue.error();
  made->queue_ = std::move(*queue);
  auto endpoint = Endpoint::create(made->device_, *made->queue_, {}, std::move(onMessage));
  if (!endpoint.ok()) return endpoint.error();
  made->endpoint_ = std::move(*endpoint);
  return made;
}

Result<std::shared_ptr<MemoryRegion>> BenchPort::memory(std::uint64_t bytes) {
  auto region = MemoryRegion::allocate(bytes);
  if (!region.ok()) return region.error();
  const auto known = (*region)->registrationWith(device_);
  if (!known.ok()) return known.error();
  return std::move(*region);
}

Status BenchPort::takeLine(Control& control,
                           const std::function<Status(const std::string&)>& onLine,
                           bool& hasTaken) {
  const Result<std::optional<std::string>> line = control.received();
  if (!line.ok()) return line.error();
  hasTaken = line->has_value();
  if (!hasTaken) return {};
  if (const std::optional<Error> failure = failureOf(**line)) return failure->within("other side");
  if (!onLine) return Error{ErrorCode::kProtocolError, "the other side says: " + **line};
  return onLine(**line);
}

Status BenchPort::rest(Control& control) {
  if (const Status armed = queue_->arm(); !armed.ok()) return armed.error();
  if (queue_->poll() != 0) return {};
  std::array<pollfd, 2> waiting{pollfd{.fd = queue_->descriptor(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = control.descriptor(), .events = POLLIN, .revents = 0}};
  if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR)
    return errnoError(errno, "waiting for a completion");
  if (waiting[0].revents != 0) queue_->takeEvents();
  return {};
}

Status BenchPort::await(Control& control, const std::function<bool()>& reached,
                        const std::function<Status(const std::string&)>& onLine,
                        Clock::duration pollFor) {
  // A system call now and then costs little beside a completion.
  constexpr unsigned kPollsPerLine = 1024;
  Clock::time_point polledUntil = Clock::now() + pollFor;
  for (unsigned polls = 1; !reached(); ++polls) {
    const bool isIdle = queue_->poll() == 0;
    if (endpoint_->failure().code() != ErrorCode::kOk) return endpoint_->failure();
    if (!isIdle) polledUntil = Clock::now() + pollFor;
    if (!isIdle || reached()) continue;
    const bool isPolling = spins || Clock::now() < polledUntil;
    if (isPolling && polls % kPollsPerLine != 0) continue;
    bool hasTaken = false;
    if (const Status taken = takeLine(control, onLine, hasTaken); !taken.ok()) return taken;
    if (isPolling || hasTaken) continue;
    if (const Status rested = rest(control); !rested.ok()) return rested;
  }
  return {};
}

PortSummary BenchPort::summary() const {
  const PortDescription& port = device_->port();
  return {.device = std::string(device_->name()),
          .gid = textOf(device_->gid().gid),
          .gidType = std::string(nameOf(device_->gid().type)),
          .pci = port.pciPath,
          .gidIndex = device_->gid().index,
          .numaNode = port.numaNode,
          .mtuBytes = port.mtuBytes,
          .bitsPerSecond = port.bitsPerSecond};
}

}  // namespace hearth::rdma_bench
