// One piece of work of an endpoint (endpoint.h): bytes that are written or sent, or a window that
// is opened or closed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "memory/memory_vector.h"
#include "verbs/device.h"

namespace hearth {

// A window and the memory that it opens; ends with both. Of window.h.
struct OpenedMemory {
  explicit OpenedMemory(std::shared_ptr<RdmaDevice> of) : device(std::move(of)) {}
  ~OpenedMemory();
  OpenedMemory(const OpenedMemory&) = delete;
  OpenedMemory& operator=(const OpenedMemory&) = delete;

  const std::shared_ptr<RdmaDevice> device;
  ibv_mw* window = nullptr;
  MemorySlice memory;     // while isOpen
  std::uint32_t key = 0;  // of the last opening
  bool isOpen = false;
};

struct Transfer {
  enum class Kind : std::uint8_t {
    kWrite,  // into memory of the other side
    kSend,   // into the next receive of the other side
    kOpen,   // of a window
    kClose,
  };
  Kind kind = Kind::kWrite;
  MemoryVector local = {};  // registered with the device, unless it is a small message
  std::uint64_t remoteAddress = 0;
  std::uint32_t remoteKey = 0;
  // The other side hears of it, with this number, when all bytes have come; takes a receive of it.
  std::optional<std::uint32_t> immediate = std::nullopt;
  std::shared_ptr<OpenedMemory> window = nullptr;
  // Once. May post to the endpoint, and may not destroy it.
  std::function<void(Status)> settled;

  // It ends in a receive that the other side has posted.
  [[nodiscard]] bool takesReceive() const { return kind == Kind::kSend || immediate.has_value(); }
  // The first status counts.
  void settle(const Status& status) {
    if (const auto heard = std::exchange(settled, {})) heard(status);
  }
};

}  // namespace hearth
