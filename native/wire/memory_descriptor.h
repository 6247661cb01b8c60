// Memory as one agent names it to another: a window of one of its regions that the other may write
// into or read from, for a time. Part of the wire protocol; what lies at an address is known to its
// owner alone.
//
//   u8 kind, u8 zero, u16 number of keys, u32 leaseMs, u64 region, u64 generation, u64 address,
//   u64 length; then for each key u32 device, u64 key
// Pure: any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/byte_codec.h"
#include "base/memory_kind.h"

namespace hearth {

inline constexpr std::size_t kMaxRemoteKeys = 64;

// Under which key a device of the owner (an RDMA port) lets others use the region.
struct RemoteKey {
  std::uint32_t device = 0;  // the owner's number of it
  std::uint64_t key = 0;
  bool operator==(const RemoteKey&) const = default;
};

struct MemoryDescriptor {
  MemoryKind kind = MemoryKind::kHost;
  std::uint32_t leaseMs = 0;     // how long after its receipt the window may be used; not 0
  std::uint64_t region = 0;      // the owner's name of the region
  std::uint64_t generation = 0;  // of the region: a number is never used for other memory
  std::uint64_t address = 0;     // for GPU memory and host memory as devices address it
  std::uint64_t length = 0;      // bytes from there on; not 0, and address + length does not wrap
  std::vector<RemoteKey> keys;   // one a device, at most kMaxRemoteKeys
  bool operator==(const MemoryDescriptor&) const = default;
};

void encode(ByteWriter& out, const MemoryDescriptor& memory);
// Ignores bytes that follow in `in`: later releases may say more. Nothing for a descriptor that no
// encoder makes; an unknown kind gives kUnknown, whatever else the descriptor says.
[[nodiscard]] std::optional<MemoryDescriptor> decodeMemoryDescriptor(ByteReader& in);

}  // namespace hearth
