#include "fuse/fuse_init.h"

#include "base/byte_codec.h"

namespace hearth {
namespace {

constexpr std::uint32_t kMajor = 7;
constexpr std::uint32_t kOldestMinor = 31;
constexpr std::uint32_t kOurMinor = 41;
constexpr std::uint32_t kMaxReadahead = 4U << 20;
constexpr std::uint16_t kMaxPages = 256;
constexpr std::uint16_t kMaxBackground = 64;
constexpr std::uint32_t kStateVersion = 1;

}  // namespace

Result<FuseInitAnswer> negotiate(const fuse_init_in& in, std::uint64_t wanted) {
  if (in.major < kMajor || (in.major == kMajor && in.minor < kOldestMinor)) {
    return Error{ErrorCode::kUnsupported, "this kernel speaks FUSE " + std::to_string(in.major) +
                                              "." + std::to_string(in.minor) +
                                              "; 7.31 (Linux 5.4) is the "
                                              "oldest that Hearth serves"};
  }
  FuseInitAnswer answer;
  answer.out.major = kMajor;
  // To a newer major the kernel expects ours alone, and asks again.
  if (in.major > kMajor) return answer;
  std::uint64_t offered = in.flags;
  if ((in.flags & FUSE_INIT_EXT) != 0) offered |= std::uint64_t{in.flags2} << 32;
  const std::uint64_t flags = offered & wanted;

  answer.negotiated = {in.minor, flags};
  FuseInitOut& out = answer.out;
  out.minor = kOurMinor;
  // The kernel takes the smaller of this and the device's read-ahead, which the holder has raised.
  out.maxReadahead = kMaxReadahead;
  out.flags = static_cast<std::uint32_t>(flags);
  out.flags2 = static_cast<std::uint32_t>(flags >> 32);
  out.maxBackground = kMaxBackground;
  out.congestionThreshold = kMaxBackground * 3 / 4;
  out.maxWrite = 4096;  // the least the kernel takes: no mount answers writes
  out.timeGranularity = 1;
  out.maxPages = kMaxPages;
  out.maxStackDepth = (flags & kFusePassthrough) != 0 ? 1 : 0;
  return answer;
}

std::string encodeNegotiated(const FuseNegotiated& negotiated) {
  ByteWriter out;
  out.u32(kStateVersion);
  out.u32(negotiated.minor);
  out.u64(negotiated.flags);
  const auto bytes = out.take();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<FuseNegotiated> decodeNegotiated(std::string_view state) {
  ByteReader in(std::as_bytes(std::span(state)));
  if (in.u32() != kStateVersion) return std::nullopt;
  FuseNegotiated negotiated;
  negotiated.minor = in.u32();
  negotiated.flags = in.u64();
  if (!in.finished()) return std::nullopt;
  return negotiated;
}

}  // namespace hearth
