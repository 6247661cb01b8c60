#include "gpu/path_choice.h"

#include <cstdio>

namespace hearth {
namespace {

constexpr double kWeightOfNew = 0.125;

}  // namespace

std::size_t PathChoice::classOf(FileUse use, std::size_t bytes) {
  constexpr std::size_t kLimits[] = {64UL << 10, 256UL << 10, 1UL << 20};
  std::size_t size = 0;
  while (size < kSizes - 1 && bytes > kLimits[size]) ++size;
  return use == FileUse::kRead ? size : kSizes + size;
}

TransferPath PathChoice::next(FileUse use, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Class& of = classes_[classOf(use, bytes)];
  const std::uint64_t turn = of.asked++;
  if (turn < 2 * kTrials) return turn % 2 == 0 ? TransferPath::kDirect : TransferPath::kBounced;
  const bool directIsFaster = of.direct.bytesPerSecond >= of.bounced.bytesPerSecond;
  const bool wantsFaster = turn % kRemeasureEvery != 0;
  return directIsFaster == wantsFaster ? TransferPath::kDirect : TransferPath::kBounced;
}

void PathChoice::record(FileUse use, TransferPath path, std::size_t bytes,
                        std::chrono::nanoseconds busy) {
  const double seconds = std::chrono::duration<double>(busy).count();
  if (seconds <= 0) return;
  const std::lock_guard lock(mutex_);
  Class& of = classes_[classOf(use, bytes)];
  Speed& speed = path == TransferPath::kDirect ? of.direct : of.bounced;
  const double now = static_cast<double>(bytes) / seconds;
  speed.bytesPerSecond += (now - speed.bytesPerSecond) * (speed.slices == 0 ? 1 : kWeightOfNew);
  ++speed.slices;
}

std::string PathChoice::reason(FileUse use, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const Class& of = classes_[classOf(use, bytes)];
  if (of.direct.slices == 0 || of.bounced.slices == 0) return "";
  char text[128];
  std::snprintf(text, sizeof text,
                "by measurement for slices of this size: bounced %.2f, direct %.2f GB/s a lane",
                of.bounced.bytesPerSecond / 1e9, of.direct.bytesPerSecond / 1e9);
  return text;
}

}  // namespace hearth
