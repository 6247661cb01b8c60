#include "wire/memory_descriptor.h"

namespace hearth {

void encode(ByteWriter& out, const MemoryDescriptor& memory) {
  out.u8(static_cast<std::uint8_t>(memory.kind));
  out.u8(0);
  out.u16(static_cast<std::uint16_t>(memory.keys.size()));
  out.u32(memory.leaseMs);
  out.u64(memory.region);
  out.u64(memory.generation);
  out.u64(memory.address);
  out.u64(memory.length);
  for (const RemoteKey& key : memory.keys) {
    out.u32(key.device);
    out.u64(key.key);
  }
}

std::optional<MemoryDescriptor> decodeMemoryDescriptor(ByteReader& in) {
  MemoryDescriptor memory;
  const std::uint8_t kind = in.u8();
  [[maybe_unused]] const std::uint8_t reserved = in.u8();
  const std::size_t keys = in.u16();
  memory.kind = static_cast<MemoryKind>(kind);
  memory.leaseMs = in.u32();
  memory.region = in.u64();
  memory.generation = in.u64();
  memory.address = in.u64();
  memory.length = in.u64();
  if (kind == 0 || !in.ok()) return std::nullopt;
  if (kind > static_cast<std::uint8_t>(MemoryKind::kFile))
    return MemoryDescriptor{.kind = MemoryKind::kUnknown};
  const bool wraps = memory.length > ~memory.address;
  if (keys > kMaxRemoteKeys || memory.leaseMs == 0 || memory.length == 0 || wraps) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < keys; ++i) memory.keys.push_back({in.u32(), in.u64()});
  if (!in.ok()) return std::nullopt;
  return memory;
}

}  // namespace hearth
