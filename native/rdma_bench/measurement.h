// A measurement between two processes: the server writes into a window of the client's memory, as
// a holder of a slice does for its reader, and the client asks for answers and compares bytes. The
// server's memory is open to nobody.
//
//   client                                server
//   hello 1 PORT ADDRESS BYTES       ->
//                                    <-   hello 1 PORT ADDRESS
//   connected                        ->   connects
//                                    <-   connected
//   write SIZE SLOTS MS ADDRESS KEY  ->   writes for so long
//                                    <-   wrote COUNT NANOSECONDS PROCESSOR_NANOSECONDS
//   end                              ->
//   and messages of the endpoint (Asked) for single answers, in between
//
// Each side runs in one thread, and blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rdma_bench/bench_port.h"

namespace hearth::rdma_bench {

struct MeasuringOptions {
  PortChoice port;
  std::vector<std::uint32_t> sizes{4096, 64 << 10, 1 << 20, 4 << 20};  // bytes of one write
  std::uint32_t depth = 16;                                            // writes under way
  std::chrono::milliseconds perSize{1000};  // of writes, and at most of answers
  std::uint32_t answers = 1000;             // at most, of each size
  bool spins = false;
};

struct Row {
  std::uint32_t bytes = 0;
  double bytesPerSecond = 0;
  double serverSecondsPerGigabyte = 0, clientSecondsPerGigabyte = 0;  // of processors
  std::uint32_t answers = 0;
  double medianMicroseconds = 0, p99Microseconds = 0;  // from asking to the last byte
};

struct Report {
  PortSummary here, there;
  std::uint32_t mtuBytes = 0;  // of packets
  std::vector<Row> rows;
};

// The client's side. Bytes that differ from those that were sent are kCorrupt. An error says which
// step of the path it is of, and what to look at.
[[nodiscard]] Result<Report> measure(const std::shared_ptr<Verbs>& verbs, Control& control,
                                     const MeasuringOptions& options);

// The server's side of one client, until the client has ended.
[[nodiscard]] Status serve(const std::shared_ptr<Verbs>& verbs, Control& control,
                           const PortChoice& choice, bool spins);

[[nodiscard]] std::string jsonOf(const Report& report);

// Shared by both sides.
inline constexpr std::uint64_t kMostBytes = 256 << 20;  // of memory a side
// Answers of at most so many bytes are polled for, so long.
inline constexpr std::uint32_t kPolledBytes = 64 << 10;
inline constexpr std::chrono::microseconds kPollFor{50};
// Byte `at` of what the server writes.
[[nodiscard]] std::byte patternAt(std::uint64_t at);
[[nodiscard]] std::string hexOf(const EndpointAddress& address);
// kProtocolError.
[[nodiscard]] Result<EndpointAddress> endpointAddressOf(const std::string& hex);

}  // namespace hearth::rdma_bench
