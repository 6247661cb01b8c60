// Chooses between the direct and the bounced path by how fast either has been.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

#include "gpu/device_files.h"
#include "gpu/opened_file.h"

namespace hearth {

// Any thread. Slices of like size and direction are one class, measured on their own. Both paths
// get kTrials slices of each class; then the faster one gets all of them but one in
// kRemeasureEvery, so that a change of the machine is noticed.
class PathChoice {
 public:
  static constexpr std::uint64_t kTrials = 16;
  static constexpr std::uint64_t kRemeasureEvery = 256;

  // kDirect or kBounced for the next slice.
  [[nodiscard]] TransferPath next(FileUse use, std::size_t bytes);
  // How long one lane was busy with one slice.
  void record(FileUse use, TransferPath path, std::size_t bytes, std::chrono::nanoseconds busy);
  // "bounced is faster for slices of this size (6.1 against 2.4 GB/s a lane)"; empty while nothing
  // is decided.
  [[nodiscard]] std::string reason(FileUse use, std::size_t bytes) const;

 private:
  struct Speed {
    std::uint64_t slices = 0;
    double bytesPerSecond = 0;  // the mean, in which later slices weigh more
  };
  struct Class {
    std::uint64_t asked = 0;
    Speed direct, bounced;
  };
  [[nodiscard]] static std::size_t classOf(FileUse use, std::size_t bytes);

  static constexpr std::size_t kSizes = 4;
  mutable std::mutex mutex_;
  std::array<Class, 2 * kSizes> classes_;
};

}  // namespace hearth
