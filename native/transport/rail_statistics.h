// The history of a rail, as the status of the transport reports it. Values.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>

namespace hearth {

// The times that requests took. Bucket n counts requests of less than 2^n microseconds that no
// lower bucket counts; the last one counts all longer ones, too.
struct LatencyHistogram {
  static constexpr std::size_t kBuckets = 24;  // the last begins at 4.2 s
  std::array<std::uint64_t, kBuckets> counts{};
  double seconds = 0;  // all of them together

  void record(std::chrono::nanoseconds took) {
    seconds += std::chrono::duration<double>(took).count();
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(took).count();
    const auto bucket = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(us)));
    ++counts[std::min(bucket, kBuckets - 1)];
  }
  void add(const LatencyHistogram& other) {
    for (std::size_t at = 0; at < kBuckets; ++at) counts[at] += other.counts[at];
    seconds += other.seconds;
  }
  [[nodiscard]] std::uint64_t total() const {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  }
  // In microseconds: `share` (0 to 1) of the requests took less. 0 without requests.
  [[nodiscard]] std::uint64_t below(double share) const {
    const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(total())));
    std::uint64_t seen = 0;
    for (std::size_t at = 0; at < kBuckets; ++at) {
      seen += counts[at];
      if (seen != 0 && seen >= wanted) return std::uint64_t{1} << at;
    }
    return 0;
  }
};

// Traffic between one peer and this agent over one RDMA port of ours.
struct RailStatistics {
  std::string port;     // "mlx5_0/1"
  bool usable = false;  // our reads go over it now
  std::string error;    // why not, or why not before; empty: no read has wanted it yet
  // Our reads, and reads of the peer from us, with the bytes of each.
  std::uint64_t requests = 0, bytesReceived = 0;
  std::uint64_t answers = 0, bytesSent = 0;
  // The bytes sent, by where the device has read them: in the slots of the arena where they lie, or
  // in copies.
  std::uint64_t bytesInPlace = 0, bytesCopied = 0;
  // Our reads that failed here and went elsewhere.
  std::uint64_t retries = 0;
  // How often the port paused, and how often because its endpoint had failed.
  std::uint64_t pauses = 0, failures = 0;
  // Endpoints that were closed because nothing went over them.
  std::uint64_t idleCloses = 0;
  double bytesPerSecond = 0;  // of our reads, as measured last; 0: not yet
  LatencyHistogram latency;   // of our reads that have succeeded

  // Adds another shard's counts over the same port.
  void add(const RailStatistics& other);
};

}  // namespace hearth
