// Memory that bytes are moved into and out of, described once: what backs it, where it lies, whose
// it is. Whoever moves bytes takes parts of regions (memory_vector.h), and a device that has to
// know memory before has a region registered when it first meets it, not for every part.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>

#include "base/memory_kind.h"
#include "base/result.h"
#include "memory/memory_device.h"

namespace hearth {

enum class PageSize { kSmall, kHuge };

// Any thread. What is in the memory is the business of those who use its parts.
class MemoryRegion {
 public:
  // Memory of the caller's, that processors reach; `owner` lives for as long as the region does.
  // Null: the memory outlives it.
  [[nodiscard]] static std::shared_ptr<MemoryRegion> host(
      std::span<std::byte> bytes, std::shared_ptr<const void> owner = nullptr);
  // Memory of its own, zeros, of which room is taken when it is touched; the kernel may give it
  // large pages. `kHuge`: of the pages that the administrator has set apart (vm.nr_hugepages),
  // whose room is taken at once; `bytes` is rounded up to such pages, and kOutOfSpace says how many
  // are missing. Errors: kOutOfSpace, kInvalidArgument for none.
  [[nodiscard]] static Result<std::shared_ptr<MemoryRegion>> allocate(
      std::size_t bytes, PageSize pages = PageSize::kSmall);
  // A range of a file of memfd_create(2), as every process sees it that maps the same: memory that
  // outlives its process. With MFD_HUGETLB it is of huge pages; of others the kernel may give it
  // large ones. The descriptor stays the caller's.
  // `offset` is on a page of the file's. kInvalidArgument when the file ends before the range does,
  // or is not sealed against shrinking (F_SEAL_SHRINK): whoever has the file could cut it, and who
  // then touches what is missing, or receives into it, ends by SIGBUS. No other files can be
  // sealed, also not those that have a name in a mounted hugetlbfs or tmpfs.
  [[nodiscard]] static Result<std::shared_ptr<MemoryRegion>> map(int file, std::uint64_t offset,
                                                                 std::size_t bytes);
  // Memory of a GPU, which processors do not reach; `address` as its driver gives it.
  [[nodiscard]] static std::shared_ptr<MemoryRegion> gpu(std::uint64_t address, std::uint64_t size,
                                                         std::shared_ptr<const void> owner);
  ~MemoryRegion();
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  // Of no other region of this process, also not of one that has gone.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] MemoryKind kind() const { return kind_; }
  [[nodiscard]] std::uint64_t address() const { return address_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  // Processors reach it.
  [[nodiscard]] bool isHost() const { return kind_ != MemoryKind::kGpu; }
  // All of it when isHost(), else nothing.
  [[nodiscard]] std::span<std::byte> bytes() const {
    return {memory_, isHost() ? static_cast<std::size_t>(size_) : 0};
  }

  // The device's registration of this region. The first call has the device enroll the region and
  // takes as long, so no event loop calls it; a device does so once, and different devices do so at
  // the same time. After a failure the next call tries again. The registration lives as long as the
  // region.
  [[nodiscard]] Result<const MemoryRegistration*> registrationWith(
      const std::shared_ptr<MemoryDevice>& device);
  // The same without waiting: null when no call has succeeded yet.
  [[nodiscard]] const MemoryRegistration* knownTo(const MemoryDevice& device) const;

  // Discards the contents: the room may go to others until a touch brings zeros. False: nothing was
  // done, because the region does not own its memory, or because a device knows it and would go on
  // with pages that are no longer here.
  bool decommit();
  // The same for whole pages of a region that is a file's, [offset, offset + size) inside it: for
  // everybody who has the file. The file has other pages there when it is touched next, so what is
  // still on its way into or out of those that it had does no harm. False: nothing was done, as a
  // device knows the region.
  bool punch(std::uint64_t offset, std::uint64_t size);

 private:
  // One a device, from the moment that its enrolment begins.
  struct Enrolment {
    std::shared_ptr<MemoryDevice> device;
    std::mutex enrolling;
    int underWay = 0;  // calls that wait for it
    std::atomic<const MemoryRegistration*> done{nullptr};
    std::unique_ptr<MemoryRegistration> registration;
  };

  // Host memory.
  MemoryRegion(MemoryKind kind, std::span<std::byte> bytes, std::shared_ptr<const void> owner);
  [[nodiscard]] Result<const MemoryRegistration*> enroll(Enrolment& enrolment);
  MemoryRegion(std::uint64_t gpuAddress, std::uint64_t size, std::shared_ptr<const void> owner);
  [[nodiscard]] static Result<std::shared_ptr<MemoryRegion>> mapped(MemoryKind kind,
                                                                    std::size_t bytes, int flags);
  // With the mutex held.
  [[nodiscard]] bool ofAnyDevice() const;

  const std::uint64_t number_;
  const MemoryKind kind_;
  std::byte* const memory_ = nullptr;  // null: of a GPU
  const std::uint64_t address_, size_;
  const std::shared_ptr<const void> owner_;
  std::size_t mappedBytes_ = 0;  // by us, in whole pages of their kind
  bool anonymous_ = false;       // and of small pages
  mutable std::mutex mutex_;
  std::list<Enrolment> enrolments_;
};

}  // namespace hearth
