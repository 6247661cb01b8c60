// How files are open on a mount, in the shared memory that the holder keeps: the next agent reads
// there what it cannot learn from the kernel. Counts may be too high after an agent was killed
// between a count and the kernel's knowing of it, never too low, so what is in use is never taken
// for unused.
//
// Layout: magic u64, overflowed u64, then slots of 24 bytes {node id u64, cached u32, passthrough
// u32, backing id i32, zero u32}, of the machine's byte order; a slot with both counts zero is
// free. A node is looked for in the kProbe slots that follow its hash. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

struct OpenCount {
  std::uint32_t cached = 0;
  std::uint32_t passthrough = 0;
  std::int32_t backingId = 0;  // meaningful while passthrough > 0

  [[nodiscard]] bool any() const { return cached != 0 || passthrough != 0; }
  bool operator==(const OpenCount&) const = default;
};

class OpenCounts {
 public:
  // Maps the whole of `memory`, at least a page; a fresh one is all zeros. kProtocolError when it
  // holds something else.
  [[nodiscard]] static Result<std::unique_ptr<OpenCounts>> map(const OwnedFd& memory);
  ~OpenCounts();
  OpenCounts(const OpenCounts&) = delete;
  OpenCounts& operator=(const OpenCounts&) = delete;

  // Records how `node` is open now. False where there is no room: then overflowed() is true for
  // ever. A node that is recorded has room until it is closed.
  bool set(std::uint64_t node, const OpenCount& count);
  // Of every node that is open.
  void each(const std::function<void(std::uint64_t node, const OpenCount&)>& visit) const;
  // Some node may be open that is not recorded.
  [[nodiscard]] bool overflowed() const;

 private:
  struct Header;
  struct Slot;
  static constexpr std::size_t kProbe = 64;

  OpenCounts(void* memory, std::size_t size);
  [[nodiscard]] Slot* find(std::uint64_t node);

  mutable std::mutex mutex_;
  void* const memory_;
  const std::size_t size_;
  Header* const header_;
  Slot* const slots_;
  const std::size_t slotCount_;
};

}  // namespace hearth
