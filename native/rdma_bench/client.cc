#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/clock.h"
#include "base/processor_time.h"
#include "rdma_bench/measurement.h"
#include "verbs/window.h"

namespace hearth::rdma_bench {
namespace {

// Steps of the path, in the order in which they are tried, and what to look at when one fails.
constexpr const char* kNoRoute =
    "the ports cannot be connected; both GIDs have to be of one network and one type (GID index)";
constexpr const char* kNothingArrives =
    "no packet comes back over this path; look at the route between both GIDs, at firewalls (RoCE "
    "v2 is UDP port 4791), and at the GID indices: networks route IPv4 and IPv6 GIDs of RoCE v2 "
    "only";
constexpr const char* kSmallArrive =
    "packets without bytes arrive, and full ones do not; the MTU of a switch or interface between "
    "the ports is less than that of the ports";

Error at(const char* step, const PortSummary& here, const PortSummary& there, const Error& error) {
  return {error.code, std::string(step) + " [here " + here.device + " " + here.gid + " " +
                          here.gidType + ", there " + there.device + " " + there.gid + " " +
                          there.gidType + "]: " + error.message};
}

class Client {
 public:
  Client(const std::shared_ptr<Verbs>& verbs, Control& control, const MeasuringOptions& options)
      : verbs_(verbs), control_(control), options_(options) {}

  Result<Report> run() {
    for (const auto step : {&Client::open, &Client::meet, &Client::prove}) {
      if (const Status done = (this->*step)(); !done.ok()) return done.error();
    }
    for (const std::uint32_t bytes : options_.sizes) {
      Row row{.bytes = bytes};
      if (const Status written = measureWrites(row); !written.ok()) return written.error();
      if (const Status answered = measureAnswers(row); !answered.ok()) return answered.error();
      report_.rows.push_back(row);
    }
    if (const Status ended = control_.send("end"); !ended.ok()) return ended.error();
    return std::move(report_);
  }

 private:
  Status open() {
    for (const std::uint32_t bytes : options_.sizes) {
      if (bytes == 0 || bytes > kMostBytes)
        return Error{ErrorCode::kInvalidArgument, "a write is of 1 to 268435456 bytes"};
      mostBytes_ = std::max(mostBytes_, bytes);
    }
    auto port =
        BenchPort::open(verbs_, options_.port, [this](const Endpoint::Message&) { ++answers_; });
    if (!port.ok()) return port.error();
    port_ = std::move(*port);
    port_->spins = options_.spins;
    report_.here = port_->summary();
    // The proof writes two packets.
    mostBytes_ = std::max(mostBytes_, 2 * report_.here.mtuBytes);
    auto memory = port_->memory(std::uint64_t{mostBytes_} * slotsFor(mostBytes_));
    if (!memory.ok()) return memory.error();
    memory_ = std::move(*memory);
    // Not every device takes messages inline.
    auto question = port_->memory(sizeof(Asked));
    if (!question.ok()) return question.error();
    question_ = std::move(*question);
    return {};
  }

  [[nodiscard]] std::uint32_t slotsFor(std::uint32_t bytes) const {
    return std::clamp<std::uint32_t>(kMostBytes / bytes, 1, std::max(options_.depth, 1u));
  }

  Result<std::string> receive() {
    Result<std::string> line = control_.receive();
    if (!line.ok()) return line;
    if (const auto failure = failureOf(*line)) return failure->within("other side");
    return line;
  }

  Status meet() {
    const EndpointAddress& ours = port_->endpoint().address();
    Status greeted = control_.send("hello 1 " + hexOf(ours) + " " + std::to_string(mostBytes_));
    if (!greeted.ok()) return greeted;
    const Result<std::string> line = receive();
    if (!line.ok()) return line.error();
    std::istringstream words(*line);
    std::string hello, version, hex, rest;
    words >> hello >> version >> hex >> std::ws;
    std::getline(words, rest);
    if (hello != "hello" || version != "1")
      return Error{ErrorCode::kProtocolError, "the server speaks another protocol"};
    const Result<PortSummary> there = decodePortSummary(rest);
    if (!there.ok()) return there.error();
    report_.there = *there;
    const Result<EndpointAddress> theirs = endpointAddressOf(hex);
    if (!theirs.ok()) return theirs.error();
    const Result<std::uint32_t> mtu = agreedMtu(ours, *theirs);
    if (!mtu.ok()) return failed(kNoRoute, mtu.error());
    report_.mtuBytes = *mtu;
    if (const Status connected = port_->endpoint().connect(*theirs); !connected.ok())
      return failed(kNoRoute, connected.error());
    const Result<std::string> answer = receive();
    if (!answer.ok()) return failed(kNoRoute, answer.error());
    return {};
  }

  [[nodiscard]] Error failed(const char* step, const Error& error) const {
    return at(step, report_.here, report_.there, error);
  }

  // A message and an answer without bytes, then one of two full packets.
  Status prove() {
    if (const Status opened = openWindow(); !opened.ok()) return opened;
    if (const Status small = ask(0); !small.ok()) return failed(kNothingArrives, small.error());
    const Status full = ask(2 * report_.mtuBytes);
    return full.ok() ? full : failed(kSmallArrive, full.error());
  }

  Status openWindow() {
    auto window = Window::create(port_->endpoint());
    if (!window.ok()) return window.error();
    window_ = std::move(*window);
    std::optional<Result<std::uint32_t>> key;
    window_->open({memory_, 0, memory_->size()},
                  [&key](Result<std::uint32_t> opened) { key = std::move(opened); });
    Status waited = port_->await(control_, [&key] { return key.has_value(); });
    if (!waited.ok()) port_->endpoint().fail(waited.error());  // the callback refers to this frame
    if (!waited.ok()) return waited;
    if (!key->ok()) return key->error();
    key_ = **key;
    return {};
  }

  // Until all bytes have come.
  Status ask(std::uint32_t bytes) {
    const Asked asked{memory_->address(), key_, bytes};
    std::memcpy(question_->bytes().data(), &asked, sizeof(asked));
    auto transfer = std::make_unique<Transfer>();
    transfer->kind = Transfer::Kind::kSend;
    transfer->local = MemorySlice{question_, 0, sizeof(asked)};
    bool isSent = false;
    Status sent;
    transfer->settled = [&](Status status) {
      isSent = true;
      sent = std::move(status);
    };
    std::vector<std::unique_ptr<Transfer>> batch;
    batch.push_back(std::move(transfer));
    const std::uint64_t before = answers_;
    port_->endpoint().post(std::move(batch));
    Status waited = port_->await(
        control_, [&] { return isSent && (answers_ != before || !sent.ok()); }, {},
        bytes <= kPolledBytes ? kPollFor : Clock::duration::zero());
    // The callback refers to this frame.
    if (!waited.ok()) port_->endpoint().fail(waited.error());
    if (!waited.ok() || !sent.ok()) return waited.ok() ? sent : waited;
    port_->endpoint().addCredit(1);
    return {};
  }

  Status measureWrites(Row& row) {
    const std::uint32_t slots = slotsFor(row.bytes);
    std::ranges::fill(memory_->bytes(), std::byte{0});
    std::ostringstream order;
    order << "write " << row.bytes << ' ' << slots << ' ' << options_.perSize.count() << ' '
          << memory_->address() << ' ' << key_;
    const double processor = processorSeconds();
    if (const Status sent = control_.send(order.str()); !sent.ok()) return sent;
    const Result<std::string> line = receive();
    if (!line.ok()) return line.error();
    const double used = processorSeconds() - processor;
    std::istringstream words(*line);
    std::string wrote;
    double count = 0, nanoseconds = 0, processorNanoseconds = 0;
    words >> wrote >> count >> nanoseconds >> processorNanoseconds;
    if (!words || wrote != "wrote" || count < slots || nanoseconds <= 0)
      return Error{ErrorCode::kProtocolError, "the server says: " + *line};
    const double gigabytes = count * row.bytes / 1e9;
    row.bytesPerSecond = gigabytes * 1e18 / nanoseconds;
    row.serverSecondsPerGigabyte = processorNanoseconds / 1e9 / gigabytes;
    row.clientSecondsPerGigabyte = used / gigabytes;
    return compare(row.bytes, slots);
  }

  Status compare(std::uint32_t bytes, std::uint32_t slots) const {
    const std::span<const std::byte> memory = memory_->bytes();
    for (std::uint64_t at = 0; at < std::uint64_t{bytes} * slots; ++at) {
      if (memory[at] == patternAt(at % bytes)) continue;
      return Error{ErrorCode::kCorrupt, "byte " + std::to_string(at % bytes) + " of a write of " +
                                            std::to_string(bytes) + " differs from what was sent"};
    }
    return {};
  }

  Status measureAnswers(Row& row) {
    const auto ends = Clock::now() + options_.perSize;
    std::vector<double> microseconds;
    while (microseconds.size() < options_.answers) {
      const auto started = Clock::now();
      if (started >= ends && !microseconds.empty()) break;
      if (const Status answered = ask(row.bytes); !answered.ok()) return answered;
      microseconds.push_back(static_cast<double>((Clock::now() - started).count()) / 1e3);
    }
    row.answers = static_cast<std::uint32_t>(microseconds.size());
    if (microseconds.empty()) return {};
    std::ranges::sort(microseconds);
    row.medianMicroseconds = microseconds[microseconds.size() / 2];
    row.p99Microseconds = microseconds[microseconds.size() * 99 / 100];
    return {};
  }

  const std::shared_ptr<Verbs> verbs_;
  Control& control_;
  const MeasuringOptions options_;
  Report report_;
  std::uint32_t mostBytes_ = 0, key_ = 0;
  std::uint64_t answers_ = 0;
  std::unique_ptr<BenchPort> port_;
  std::shared_ptr<MemoryRegion> memory_, question_;
  std::unique_ptr<Window> window_;  // ends before the port
};

}  // namespace

Result<Report> measure(const std::shared_ptr<Verbs>& verbs, Control& control,
                       const MeasuringOptions& options) {
  Client client(verbs, control, options);
  Result<Report> report = client.run();
  if (!report.ok()) static_cast<void>(control.send(failureLine(report.error())));
  return report;
}

}  // namespace hearth::rdma_bench
