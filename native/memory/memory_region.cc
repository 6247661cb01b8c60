#include "memory/memory_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "memory/aligned_mapping.h"

namespace hearth {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

std::uint64_t nextNumber() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

std::size_t roundedUp(std::size_t bytes, std::size_t page) {
  return (bytes + page - 1) / page * page;
}

}  // namespace

MemoryRegion::MemoryRegion(MemoryKind kind, std::span<std::byte> bytes,
                           std::shared_ptr<const void> owner)
    : number_(nextNumber()),
      kind_(kind),
      memory_(bytes.data()),
      address_(reinterpret_cast<std::uintptr_t>(memory_)),
      size_(bytes.size()),
      owner_(std::move(owner)) {}

MemoryRegion::MemoryRegion(std::uint64_t gpuAddress, std::uint64_t size,
                           std::shared_ptr<const void> owner)
    : number_(nextNumber()),
      kind_(MemoryKind::kGpu),
      address_(gpuAddress),
      size_(size),
      owner_(std::move(owner)) {}

MemoryRegion::~MemoryRegion() {
  enrolments_.clear();
  if (mappedBytes_ != 0) ::munmap(bytes().data(), mappedBytes_);
}

std::shared_ptr<MemoryRegion> MemoryRegion::host(std::span<std::byte> bytes,
                                                 std::shared_ptr<const void> owner) {
  return std::shared_ptr<MemoryRegion>(
      new MemoryRegion(MemoryKind::kHost, bytes, std::move(owner)));
}

std::shared_ptr<MemoryRegion> MemoryRegion::gpu(std::uint64_t address, std::uint64_t size,
                                                std::shared_ptr<const void> owner) {
  return std::shared_ptr<MemoryRegion>(new MemoryRegion(address, size, std::move(owner)));
}

Result<std::shared_ptr<MemoryRegion>> MemoryRegion::allocate(std::size_t bytes, PageSize pages) {
  constexpr int kOwn = MAP_PRIVATE | MAP_ANONYMOUS;
  if (pages == PageSize::kSmall) {
    auto region = mapped(MemoryKind::kHost, bytes, kOwn | MAP_NORESERVE);
    if (!region.ok()) return region.error();
    // Fewer and larger entries for processors and devices; a kernel without them does as well.
    ::madvise((*region)->bytes().data(), bytes, MADV_HUGEPAGE);
    (*region)->anonymous_ = true;
    return region;
  }
  bytes = roundedUp(bytes, kHugePageBytes);
  // MAP_HUGETLB alone takes the machine's default size, which may be 1 GiB.
  constexpr int kHuge = MAP_HUGETLB | (21 << MAP_HUGE_SHIFT);
  auto region = mapped(MemoryKind::kHugePage, bytes, kOwn | kHuge);
  if (region.ok() || region.error().code != ErrorCode::kOutOfSpace) return region;
  return Error{ErrorCode::kOutOfSpace,
               "fewer than " + std::to_string(bytes / kHugePageBytes) +
                   " huge pages of 2 MiB are free; set more apart (sysctl vm.nr_hugepages)"};
}

Result<std::shared_ptr<MemoryRegion>> MemoryRegion::map(int file, std::uint64_t offset,
                                                        std::size_t bytes) {
  // Before the size is looked at, which then stays enough.
  const int seals = ::fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "a file is to be mapped that may become shorter while it is in use; make it by "
                 "memfd_create(2) with MFD_ALLOW_SEALING, and seal it with F_SEAL_SHRINK"};
  }
  struct stat about {};
  if (::fstat(file, &about) != 0) return errnoError(errno, "looking at a file to be mapped");
  const auto size = static_cast<std::uint64_t>(about.st_size);
  if (offset > size || bytes > size - offset) {
    return Error{ErrorCode::kInvalidArgument,
                 "a range of a file is to be mapped that ends behind the file's end"};
  }
  auto mapping = AlignedMapping::map(file, offset, bytes, false);
  if (!mapping.ok()) return mapping.error();
  const std::size_t whole = mapping->bytes();
  std::shared_ptr<MemoryRegion> region(
      new MemoryRegion(MemoryKind::kFile, {mapping->release(), bytes}, nullptr));
  region->mappedBytes_ = whole;
  return region;
}

Result<std::shared_ptr<MemoryRegion>> MemoryRegion::mapped(MemoryKind kind, std::size_t bytes,
                                                           int flags) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) {
    const std::string what = "mapping " + std::to_string(bytes) + " bytes of memory";
    if (errno == ENOMEM) return Error{ErrorCode::kOutOfSpace, what + ": there is not so much"};
    return errnoError(errno, what);
  }
  const std::span<std::byte> all(static_cast<std::byte*>(memory), bytes);
  std::shared_ptr<MemoryRegion> region(new MemoryRegion(kind, all, nullptr));
  region->mappedBytes_ = bytes;
  return region;
}

Result<const MemoryRegistration*> MemoryRegion::registrationWith(
    const std::shared_ptr<MemoryDevice>& device) {
  Enrolment* enrolment = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (Enrolment& each : enrolments_) {
      if (each.device == device) enrolment = &each;
    }
    if (enrolment == nullptr) {
      enrolment = &enrolments_.emplace_back();
      enrolment->device = device;
    }
    if (const MemoryRegistration* const done = enrolment->done) return done;
    ++enrolment->underWay;
  }
  auto enrolled = enroll(*enrolment);
  const std::lock_guard lock(mutex_);
  --enrolment->underWay;
  return enrolled;
}

Result<const MemoryRegistration*> MemoryRegion::enroll(Enrolment& enrolment) {
  const std::lock_guard enrolling(enrolment.enrolling);
  if (enrolment.registration == nullptr) {
    auto registration = enrolment.device->enroll(*this);
    if (!registration.ok()) return registration.error().within(enrolment.device->name());
    enrolment.registration = std::move(*registration);
    enrolment.done = enrolment.registration.get();
  }
  return enrolment.done.load();
}

const MemoryRegistration* MemoryRegion::knownTo(const MemoryDevice& device) const {
  const std::lock_guard lock(mutex_);
  for (const Enrolment& each : enrolments_) {
    if (each.device.get() == &device) return each.done;
  }
  return nullptr;
}

bool MemoryRegion::ofAnyDevice() const {
  // One that failed is of no device.
  return std::ranges::any_of(enrolments_, [](const Enrolment& each) {
    return each.done != nullptr || each.underWay != 0;
  });
}

bool MemoryRegion::decommit() {
  const std::lock_guard lock(mutex_);
  if (!anonymous_ || ofAnyDevice()) return false;
  return ::madvise(bytes().data(), size_, MADV_DONTNEED) == 0;
}

bool MemoryRegion::punch(std::uint64_t offset, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  if (kind_ != MemoryKind::kFile || ofAnyDevice()) return false;
  return ::madvise(memory_ + offset, static_cast<std::size_t>(size), MADV_REMOVE) == 0;
}

}  // namespace hearth
