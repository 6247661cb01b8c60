#include "fuse/open_counts.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>

namespace hearth {
namespace {

constexpr std::uint64_t kMagic = 0x31434f4854524148;  // "HARTHOC1"
constexpr std::size_t kMinBytes = 4096;

// Fibonacci hashing: neighbours in the manifest do not fill neighbouring slots.
std::size_t slotOf(std::uint64_t node, std::size_t slots) {
  return static_cast<std::size_t>((node * 0x9e3779b97f4a7c15ULL) >> 32) % slots;
}

}  // namespace

// Atomics, because a reader in another process (or after SIGKILL) must see a slot's counts only
// with its node.
struct OpenCounts::Header {
  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> overflowed;
};

struct OpenCounts::Slot {
  std::atomic<std::uint64_t> node;
  std::atomic<std::uint32_t> cached;
  std::atomic<std::uint32_t> passthrough;
  std::atomic<std::int32_t> backingId;
  std::uint32_t zero;

  [[nodiscard]] bool used() const { return cached != 0 || passthrough != 0; }
};

Result<std::unique_ptr<OpenCounts>> OpenCounts::map(const OwnedFd& memory) {
  static_assert(sizeof(Slot) == 24 && sizeof(Header) == 16);
  struct stat info {};
  if (fstat(memory.get(), &info) != 0) return errnoError(errno, "size of the open counts");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < kMinBytes)
    return Error{ErrorCode::kProtocolError, "the memory for open counts is too small"};
  void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (mapped == MAP_FAILED) return errnoError(errno, "map the open counts");
  std::unique_ptr<OpenCounts> counts(new OpenCounts(mapped, size));
  Header& header = *counts->header_;
  if (header.magic != kMagic) {
    if (header.magic != 0) {
      return Error{ErrorCode::kProtocolError,
                   "the open counts of the mount have another format; unmount and mount it again"};
    }
    header.magic = kMagic;
  }
  return counts;
}

OpenCounts::OpenCounts(void* memory, std::size_t size)
    : memory_(memory),
      size_(size),
      header_(static_cast<Header*>(memory)),
      slots_(reinterpret_cast<Slot*>(static_cast<std::byte*>(memory) + sizeof(Header))),
      slotCount_((size - sizeof(Header)) / sizeof(Slot)) {}

OpenCounts::~OpenCounts() { munmap(memory_, size_); }

OpenCounts::Slot* OpenCounts::find(std::uint64_t node) {
  Slot* free = nullptr;
  for (std::size_t i = 0; i < kProbe; ++i) {
    Slot& slot = slots_[(slotOf(node, slotCount_) + i) % slotCount_];
    if (slot.used() && slot.node == node) return &slot;
    if (!slot.used() && free == nullptr) free = &slot;
  }
  return free;
}

bool OpenCounts::set(std::uint64_t node, const OpenCount& count) {
  const std::lock_guard lock(mutex_);
  Slot* const slot = find(node);
  if (slot == nullptr) {
    if (count.any()) header_->overflowed = 1;
    return !count.any();
  }
  if (!slot->used() && !count.any()) return true;
  if (!slot->used()) slot->node = node;
  slot->backingId = count.backingId;
  slot->cached = count.cached;
  slot->passthrough = count.passthrough;
  return true;
}

void OpenCounts::each(
    const std::function<void(std::uint64_t node, const OpenCount&)>& visit) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < slotCount_; ++i) {
    const Slot& slot = slots_[i];
    if (slot.used()) visit(slot.node, {slot.cached, slot.passthrough, slot.backingId});
  }
}

bool OpenCounts::overflowed() const { return header_->overflowed != 0; }

}  // namespace hearth
