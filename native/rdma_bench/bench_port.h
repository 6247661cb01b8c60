// One side of a measurement: a port with an endpoint and memory, and the loop that waits for what
// the port and the other side bring. One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "rdma_bench/control.h"
#include "verbs/completion_queue.h"
#include "verbs/device.h"
#include "verbs/endpoint.h"

namespace hearth::rdma_bench {

struct PortChoice {
  std::string device;  // "mlx5_0" or "mlx5_0/1"; empty: the fastest
  int gidIndex = -1;   // -1: the one that Hearth prefers
};

// A side's message to the other one about its port, and the report of both.
struct PortSummary {
  std::string device, gid, gidType, pci;
  int gidIndex = 0, numaNode = -1;
  std::uint32_t mtuBytes = 0;
  std::uint64_t bitsPerSecond = 0;
  bool operator==(const PortSummary&) const = default;
};
// Words without spaces, separated by one space each.
[[nodiscard]] std::string encode(const PortSummary& port);
// kProtocolError.
[[nodiscard]] Result<PortSummary> decodePortSummary(const std::string& words);

// How the client asks for an answer: a message of the endpoint. The server writes so many bytes to
// the address, and tells the client with an immediate.
struct Asked {
  std::uint64_t address = 0;
  std::uint32_t key = 0, bytes = 0;
};

class BenchPort {
 public:
  // kNotFound: there is no such port, or none that can be used; the message says why each cannot.
  [[nodiscard]] static Result<std::unique_ptr<BenchPort>> open(const std::shared_ptr<Verbs>& verbs,
                                                               const PortChoice& choice,
                                                               Endpoint::OnMessage onMessage);
  // Memory that the port knows. kOutOfSpace: it may not be pinned.
  [[nodiscard]] Result<std::shared_ptr<MemoryRegion>> memory(std::uint64_t bytes);

  // Takes completions and lines until `reached` holds. Fails when the endpoint fails, when the
  // other side says "failed CODE MESSAGE", or closes the connection. Lines go to `onLine`; none
  // may come where it is null. Polls for `pollFor` after each completion before it waits for an
  // event, which wakes this thread later than a short answer comes.
  [[nodiscard]] Status await(Control& control, const std::function<bool()>& reached,
                             const std::function<Status(const std::string&)>& onLine = {},
                             Clock::duration pollFor = Clock::duration::zero());

  [[nodiscard]] PortSummary summary() const;
  [[nodiscard]] Endpoint& endpoint() { return *endpoint_; }
  [[nodiscard]] const RdmaDevice& device() const { return *device_; }
  bool spins = false;  // polls without rest

 private:
  explicit BenchPort(std::shared_ptr<RdmaDevice> device) : device_(std::move(device)) {}
  [[nodiscard]] Status takeLine(Control& control,
                                const std::function<Status(const std::string&)>& onLine,
                                bool& hasTaken);
  [[nodiscard]] Status rest(Control& control);

  const std::shared_ptr<RdmaDevice> device_;
  std::unique_ptr<CompletionQueue> queue_;
  std::unique_ptr<Endpoint> endpoint_;  // ends before the queue
};

// A line that names an error, and the error of such a line.
[[nodiscard]] std::string failureLine(const Error& error);
[[nodiscard]] std::optional<Error> failureOf(const std::string& line);

}  // namespace hearth::rdma_bench
