// Counters of a mount's work, kept by its threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace hearth {

inline constexpr std::size_t kFuseOpcodes = 64;

struct FuseStatistics {
  std::uint64_t reads = 0;        // answered with bytes by the daemon
  std::uint64_t bytes = 0;        // in these answers
  std::uint64_t parkedReads = 0;  // reads that had to wait for bytes
  std::uint64_t interruptedReads = 0;
  std::uint64_t failedReads = 0;
  std::uint64_t passthroughOpens = 0;
  std::uint64_t daemonOpens = 0;
  std::array<std::uint64_t, kFuseOpcodes> operations{};  // by opcode; 0: unknown ones
};

struct FuseCounters {
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> parkedReads{0};
  std::atomic<std::uint64_t> interruptedReads{0};
  std::atomic<std::uint64_t> failedReads{0};
  std::atomic<std::uint64_t> passthroughOpens{0};
  std::atomic<std::uint64_t> daemonOpens{0};
  std::array<std::atomic<std::uint64_t>, kFuseOpcodes> operations{};

  void operation(std::uint32_t opcode) { ++operations[opcode < kFuseOpcodes ? opcode : 0]; }

  [[nodiscard]] FuseStatistics snapshot() const {
    FuseStatistics now;
    now.reads = reads;
    now.bytes = bytes;
    now.parkedReads = parkedReads;
    now.interruptedReads = interruptedReads;
    now.failedReads = failedReads;
    now.passthroughOpens = passthroughOpens;
    now.daemonOpens = daemonOpens;
    for (std::size_t i = 0; i < kFuseOpcodes; ++i) now.operations[i] = operations[i];
    return now;
  }
};

}  // namespace hearth
