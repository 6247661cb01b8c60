// One transfer of NIXL: whole objects of a key space, from or into host memory. NIXL prepares a
// transfer once, posts it, and posts it again when it has ended. One thread at a time prepares,
// posts and releases a transfer; any thread may finish it and ask for its status.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "nixl_abi.h"
#include "xfer/hearth_kv.h"

namespace hearth::nixl {

// Host memory that a caller has registered.
struct HostMemory final : Metadata {
  xfer_gd2fs_iomem* iomem = nullptr;
};
// A key.
struct ObjectKey final : Metadata {
  std::string key;
};

class Transfer {
 public:
  explicit Transfer(Operation operation) : operation_(operation) {}
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Takes over the descriptors: local[i] is the memory of remote[i]. The parts of an object cover
  // it from its first byte to its last, in any order. kInvalidParameter, and `problem`.
  [[nodiscard]] Status prepare(const TransferList& local, const TransferList& remote,
                               std::string& problem);

  // Submits it. Its completion carries the transfer's address as its id.
  [[nodiscard]] Status post(hearth_kv* space, unsigned timeoutMs);
  // Its completion has been taken.
  void finish(const hearth_kv_completion& completion);

  [[nodiscard]] Status status() const { return status_.load(std::memory_order_acquire); }
  // The library may still touch its memory.
  [[nodiscard]] bool isAtRest() const { return atRest_.load(std::memory_order_acquire); }

 private:
  struct Object;
  [[nodiscard]] Status outcome(const hearth_kv_completion& completion) const;

  const Operation operation_;
  std::vector<std::vector<xfer_gd2fs_sge>> memory_;  // of each item
  std::vector<std::uint64_t> bytes_;                 // of each item
  std::vector<std::string> keys_;                    // of each item
  std::vector<hearth_kv_item> items_;                // stays until the completion was taken
  std::atomic<Status> status_{Status::kSuccess};
  std::atomic<bool> atRest_{true};
};

}  // namespace hearth::nixl
