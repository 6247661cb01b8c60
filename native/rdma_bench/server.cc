#include <cstring>
#include <sstream>

#include "base/clock.h"
#include "base/processor_time.h"
#include "rdma_bench/measurement.h"

namespace hearth::rdma_bench {
namespace {

struct WriteOrder {
  std::uint32_t bytes = 0, slots = 0;
  std::uint64_t milliseconds = 0, address = 0;
  std::uint32_t key = 0;
};

class Server {
 public:
  Server(const std::shared_ptr<Verbs>& verbs, Control& control)
      : verbs_(verbs), control_(control) {}

  Status run(const PortChoice& choice, bool spins) {
    auto port = BenchPort::open(
        verbs_, choice, [this](const Endpoint::Message& message) { answer(message.bytes); });
    if (!port.ok()) return port.error();
    port_ = std::move(*port);
    port_->spins = spins;
    if (const Status met = meet(); !met.ok()) return met;
    return port_->await(
        control_, [this] { return hasEnded_; },
        [this](const std::string& line) { return obey(line); }, kPollFor);
  }

 private:
  Status meet() {
    const Result<std::string> line = control_.receive();
    if (!line.ok()) return line.error();
    std::istringstream words(*line);
    std::string hello, hex;
    int version = 0;
    std::uint64_t bytes = 0;
    words >> hello >> version >> hex >> bytes;
    if (!words || hello != "hello" || version != 1)
      return Error{ErrorCode::kProtocolError, "the client speaks another protocol"};
    if (bytes == 0 || bytes > kMostBytes)
      return Error{ErrorCode::kInvalidArgument, "a write is of 1 to 268435456 bytes"};
    const Result<EndpointAddress> theirs = endpointAddressOf(hex);
    if (!theirs.ok()) return theirs.error();
    auto memory = port_->memory(bytes);
    if (!memory.ok()) return memory.error();
    source_ = std::move(*memory);
    for (std::uint64_t at = 0; at < bytes; ++at) source_->bytes()[at] = patternAt(at);
    Status greeted = control_.send("hello 1 " + hexOf(port_->endpoint().address()) + " " +
                                   encode(port_->summary()));
    if (!greeted.ok()) return greeted;
    if (const Status connected = port_->endpoint().connect(*theirs); !connected.ok())
      return connected;
    return control_.send("connected");
  }

  void answer(std::span<const std::byte> message) {
    Asked asked;
    if (message.size() != sizeof(asked)) return;
    std::memcpy(&asked, message.data(), sizeof(asked));
    if (asked.bytes > source_->size()) return;
    port_->endpoint().addCredit(1);  // the client has taken the answer before this one
    post(asked.address, asked.key, asked.bytes, 1, {});
  }

  void post(std::uint64_t address, std::uint32_t key, std::uint32_t bytes,
            std::optional<std::uint32_t> immediate, std::function<void(Status)> settled) {
    auto transfer = std::make_unique<Transfer>();
    if (bytes != 0) transfer->local = MemorySlice{source_, 0, bytes};
    transfer->remoteAddress = address;
    transfer->remoteKey = key;
    transfer->immediate = immediate;
    transfer->settled = std::move(settled);
    std::vector<std::unique_ptr<Transfer>> batch;
    batch.push_back(std::move(transfer));
    port_->endpoint().post(std::move(batch));
  }

  Status obey(const std::string& line) {
    if (line == "end") {
      hasEnded_ = true;
      return {};
    }
    std::istringstream words(line);
    std::string verb;
    WriteOrder order;
    words >> verb >> order.bytes >> order.slots >> order.milliseconds >> order.address >> order.key;
    if (!words || verb != "write" || order.slots == 0 || order.bytes > source_->size())
      return Error{ErrorCode::kProtocolError, "the client says: " + line};
    return write(order);
  }

  // Keeps one write under way into each slot until the time is over.
  Status write(const WriteOrder& order) {
    const auto started = Clock::now();
    const auto ends = started + std::chrono::milliseconds(order.milliseconds);
    const double processor = processorSeconds();
    std::uint64_t count = 0, underWay = 0;
    std::function<void(std::uint32_t)> next = [&](std::uint32_t slot) {
      ++underWay;
      post(order.address + std::uint64_t{slot} * order.bytes, order.key, order.bytes, std::nullopt,
           [&, slot](const Status& status) {
             --underWay;
             if (!status.ok()) return;
             ++count;
             if (Clock::now() < ends) next(slot);
           });
    };
    for (std::uint32_t slot = 0; slot < order.slots; ++slot) next(slot);
    Status written = port_->await(control_, [&] { return underWay == 0; });
    if (!written.ok()) {
      // The callbacks refer to this frame.
      port_->endpoint().fail(written.error());
      return written;
    }
    const auto took = std::chrono::nanoseconds(Clock::now() - started);
    const auto used = static_cast<std::uint64_t>((processorSeconds() - processor) * 1e9);
    return control_.send("wrote " + std::to_string(count) + " " + std::to_string(took.count()) +
                         " " + std::to_string(used));
  }

  const std::shared_ptr<Verbs> verbs_;
  Control& control_;
  std::unique_ptr<BenchPort> port_;
  std::shared_ptr<MemoryRegion> source_;
  bool hasEnded_ = false;
};

}  // namespace

Status serve(const std::shared_ptr<Verbs>& verbs, Control& control, const PortChoice& choice,
             bool spins) {
  Server server(verbs, control);
  const Status served = server.run(choice, spins);
  // Nobody hears it where the client has gone.
  if (!served.ok()) static_cast<void>(control.send(failureLine(served.error())));
  return served;
}

}  // namespace hearth::rdma_bench
