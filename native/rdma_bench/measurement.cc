#include "rdma_bench/measurement.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "base/json_string.h"

namespace hearth::rdma_bench {
namespace {

std::string numberText(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", number);
  return text.data();
}

std::string jsonOf(const PortSummary& port) {
  return "{\"device\":" + jsonString(port.device) + ",\"gid\":" + jsonString(port.gid) +
         ",\"gidIndex\":" + std::to_string(port.gidIndex) +
         ",\"gidType\":" + jsonString(port.gidType) + ",\"pci\":" + jsonString(port.pci) +
         ",\"numaNode\":" + std::to_string(port.numaNode) +
         ",\"mtuBytes\":" + std::to_string(port.mtuBytes) +
         ",\"bitsPerSecond\":" + std::to_string(port.bitsPerSecond) + "}";
}

std::string jsonOf(const Row& row) {
  return "{\"bytes\":" + std::to_string(row.bytes) +
         ",\"bytesPerSecond\":" + numberText(row.bytesPerSecond) +
         ",\"serverSecondsPerGigabyte\":" + numberText(row.serverSecondsPerGigabyte) +
         ",\"clientSecondsPerGigabyte\":" + numberText(row.clientSecondsPerGigabyte) +
         ",\"answers\":" + std::to_string(row.answers) +
         ",\"medianMicroseconds\":" + numberText(row.medianMicroseconds) +
         ",\"p99Microseconds\":" + numberText(row.p99Microseconds) + "}";
}

}  // namespace

std::byte patternAt(std::uint64_t at) {
  // Neighbouring pages and packets differ.
  return static_cast<std::byte>((at * 0x9E3779B97F4A7C15ull) >> 56);
}

std::string hexOf(const EndpointAddress& address) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : encode(address)) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

Result<EndpointAddress> endpointAddressOf(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2) {
    unsigned byte = 0;
    const auto [rest, error] = std::from_chars(hex.data() + at, hex.data() + at + 2, byte, 16);
    if (error != std::errc() || rest != hex.data() + at + 2)
      return Error{ErrorCode::kProtocolError, "the other side's address is not hexadecimal"};
    bytes.push_back(static_cast<std::byte>(byte));
  }
  return decodeEndpointAddress(bytes);
}

std::string jsonOf(const Report& report) {
  std::string rows;
  for (const Row& row : report.rows) rows += (rows.empty() ? "" : ",") + jsonOf(row);
  return "{\"here\":" + jsonOf(report.here) + ",\"there\":" + jsonOf(report.there) +
         ",\"mtuBytes\":" + std::to_string(report.mtuBytes) + ",\"rows\":[" + rows + "]}";
}

}  // namespace hearth::rdma_bench
