// A device of this process, which knows memory by a table: what is not registered it does not
// reach, as an RDMA port would not. For tests of what moves bytes through devices.
#pragma once

#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "memory/memory_vector.h"

namespace hearth::testing_memory {

class TableDevice final : public MemoryDevice, public std::enable_shared_from_this<TableDevice> {
 public:
  explicit TableDevice(std::string name) : name_(std::move(name)) {}

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] Result<std::unique_ptr<MemoryRegistration>> enroll(
      const MemoryRegion& region) override {
    if (region.kind() == MemoryKind::kGpu && !reachesGpus)
      return Error{ErrorCode::kUnsupported, "memory of a GPU is out of reach"};
    if (failures > 0) {
      --failures;
      return Error{ErrorCode::kOutOfSpace, "no more memory may be locked"};
    }
    ++enrolled;
    const std::lock_guard lock(mutex_);
    known_.insert(region.number());
    return std::unique_ptr<MemoryRegistration>(new Registration(shared_from_this(), region));
  }
  // The check of a device before it moves bytes.
  [[nodiscard]] bool knows(const MemorySlice& slice) const {
    const std::lock_guard lock(mutex_);
    return known_.contains(slice.region->number());
  }
  [[nodiscard]] std::size_t knownNow() const {
    const std::lock_guard lock(mutex_);
    return known_.size();
  }

  bool reachesGpus = false;
  std::atomic<int> failures{0};  // of the next enrolments
  std::atomic<int> enrolled{0};

 private:
  struct Registration final : MemoryRegistration {
    Registration(std::shared_ptr<TableDevice> owner, const MemoryRegion& region)
        : device(std::move(owner)), number(region.number()) {}
    ~Registration() override {
      const std::lock_guard lock(device->mutex_);
      device->known_.erase(number);
    }
    const std::shared_ptr<TableDevice> device;
    const std::uint64_t number;
  };

  const std::string name_;
  mutable std::mutex mutex_;
  std::set<std::uint64_t> known_;
};

}  // namespace hearth::testing_memory
