#include "directory/directory_message.h"

#include "base/byte_codec.h"

namespace hearth {
namespace {

// Bounds of what is believed; more is a malformed message.
constexpr std::size_t kMostHolders = 64;
constexpr std::size_t kMostStripes = 1u << 18;  // a file of 16 TiB

}  // namespace

std::vector<std::byte> encode(const DirectoryRequest& request) {
  ByteWriter writer;
  writer.bytes(std::as_bytes(std::span(request.key.bytes)));
  writer.u64(request.size);
  writer.u32(request.stripe);
  writer.u16(request.chunks);
  writer.text(request.avoid);
  return writer.take();
}

std::optional<DirectoryRequest> decodeDirectoryRequest(std::span<const std::byte> body) {
  ByteReader reader(body);
  DirectoryRequest request;
  reader.bytes(std::as_writable_bytes(std::span(request.key.bytes)));
  request.size = reader.u64();
  request.stripe = reader.u32();
  request.chunks = reader.u16();
  request.avoid = reader.text();
  if (!reader.finished() || request.size > kMostStripes * kStripeBytes) return std::nullopt;
  return request;
}

std::vector<std::byte> encode(const LocateAnswer& answer) {
  ByteWriter writer;
  writer.u8(answer.granted ? 1 : 0);
  writer.text(answer.fetcher);
  writer.u16(static_cast<std::uint16_t>(answer.holders.size()));
  for (const StripeHolder& holder : answer.holders) {
    writer.text(holder.node);
    writer.u16(holder.chunks);
  }
  return writer.take();
}

std::optional<LocateAnswer> decodeLocateAnswer(std::span<const std::byte> body) {
  ByteReader reader(body);
  LocateAnswer answer;
  answer.granted = reader.u8() != 0;
  answer.fetcher = reader.text();
  const std::size_t holders = reader.u16();
  if (holders > kMostHolders) return std::nullopt;
  for (std::size_t i = 0; i < holders && reader.ok(); ++i) {
    StripeHolder holder;
    holder.node = reader.text();
    holder.chunks = reader.u16();
    answer.holders.push_back(std::move(holder));
  }
  if (!reader.finished()) return std::nullopt;
  return answer;
}

std::vector<std::byte> encode(const AgentReport& report) {
  ByteWriter writer;
  writer.u8(report.wants ? 1 : 0);
  writer.u32(static_cast<std::uint32_t>(report.held.size()));
  for (const ChunkMask chunks : report.held) writer.u16(chunks);
  writer.u32(static_cast<std::uint32_t>(report.fetching.size()));
  for (const std::uint32_t stripe : report.fetching) writer.u32(stripe);
  return writer.take();
}

std::optional<AgentReport> decodeAgentReport(std::span<const std::byte> body) {
  ByteReader reader(body);
  AgentReport report;
  report.wants = reader.u8() != 0;
  const std::size_t held = reader.u32();
  if (held > kMostStripes || held * 2 > reader.left()) return std::nullopt;
  for (std::size_t i = 0; i < held; ++i) report.held.push_back(reader.u16());
  const std::size_t fetching = reader.u32();
  if (fetching > kMostStripes || fetching * 4 > reader.left()) return std::nullopt;
  for (std::size_t i = 0; i < fetching; ++i) report.fetching.push_back(reader.u32());
  if (!reader.finished()) return std::nullopt;
  return report;
}

}  // namespace hearth
