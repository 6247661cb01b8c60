// Paces the bytes that clients' advice brings while others read from this agent, so that a pod
// whose advice is fetched and let go of without end leaves readers the processors, the memory and
// the disks. Advice brings one byte for kReadPerAdvised bytes that others read, but at least
// kMinBytesPerSecond; pods whose advice waits have equal parts. While nobody else reads, advice
// brings what it can; the reads of a pod do not hold back its own advice. The agent does not see
// reads of views, of passed descriptors and of files opened by passthrough. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "fetch/token_bucket.h"
#include "wire/capability.h"

namespace hearth {

class AdvicePace {
 public:
  static constexpr std::uint64_t kReadPerAdvised = 31;
  static constexpr std::uint64_t kMinBytesPerSecond = std::uint64_t{32} << 20;
  // Reads are counted over this time.
  static constexpr Clock::duration kWindow = std::chrono::milliseconds(100);
  // After so long without a read or a piece of advice a pod is forgotten.
  static constexpr Clock::duration kIdle = std::chrono::seconds(1);

  // `readOfMounts`: bytes that mounts have read since the start; called on any thread.
  explicit AdvicePace(std::function<std::uint64_t()> readOfMounts)
      : readOfMounts_(std::move(readOfMounts)) {}
  AdvicePace(const AdvicePace&) = delete;
  AdvicePace& operator=(const AdvicePace&) = delete;

  // The client reads `bytes`. Takes no lock while no advice is under way.
  void noteRead(const ClientIdentity& client, std::uint64_t bytes, Clock::time_point now);
  // Zero: the client's advice may bring `bytes`, and they are counted as brought. Else the time to
  // wait before the next call.
  [[nodiscard]] Clock::duration tryTake(const ClientIdentity& client, std::uint64_t bytes,
                                        Clock::time_point now);

 private:
  struct Reader {
    std::uint64_t bytes = 0, bytesBefore = 0;  // in this window, and in the last one
    Clock::time_point last;
  };
  struct Adviser {
    TokenBucket bucket{0};
    Clock::time_point asked;
  };

  // The functions below need mutex_.
  void count(const std::string& pod, std::uint64_t bytes, Clock::time_point now);
  void begin(Clock::time_point now);
  void endWindow(Clock::time_point now);
  // Bytes a second for all advice, by what readers other than `pod` read; 0: no limit.
  [[nodiscard]] std::uint64_t rateBeside(const std::string& pod) const;

  const std::function<std::uint64_t()> readOfMounts_;
  std::atomic<bool> counting_{false};
  std::mutex mutex_;
  Clock::time_point asked_;        // by any pod, last
  Clock::time_point windowBegan_;  // of this window
  Clock::duration lastWindow_{};   // its length; zero: there was none
  std::uint64_t mountsBefore_ = 0;
  std::map<std::string, Reader> readers_;  // by pod; mounts have the empty name
  std::map<std::string, Adviser> advisers_;
};

}  // namespace hearth
