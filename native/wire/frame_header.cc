#include "wire/frame_header.h"

#include <algorithm>
#include <string_view>

#include "base/byte_codec.h"
#include "base/crc32c.h"

namespace hearth {
namespace {

constexpr std::size_t kChecksummedHeaderBytes = kFrameHeaderBytes - 4;
constexpr std::uint32_t kRequiredFlags = 0xffff0000;
// No frame has changed its fixed part since.
constexpr std::uint16_t kLayoutVersion = 2;
constexpr std::size_t kGreetingLimit = 3 * (2 + kMaxNameBytes) + sizeof(Nonce) + 2 + 2 + 8 + 4;
constexpr std::size_t kSentenceLimit = 2 + 2 + kMaxSentenceBytes;
constexpr std::size_t kAnswerHeadLimit = kSentenceLimit + 4 + 4 + 4 * (kChunkBytes / kBlockBytes);

Error unspoken(std::uint16_t version) {
  return {ErrorCode::kUnsupported, "the other side speaks version " + std::to_string(version) +
                                       " of the wire protocol and this agent versions " +
                                       std::to_string(kOldestWireVersion) + " to " +
                                       std::to_string(kWireVersion) +
                                       "; upgrade the older one, at most one release at a time"};
}

Error wrongFrame(FrameType type, const char* what) {
  return {ErrorCode::kProtocolError, "a frame of type " +
                                         std::to_string(static_cast<unsigned>(type)) + " (" +
                                         frameName(type) + ") " + what};
}

bool isFrameType(FrameType type) { return std::string_view(frameName(type)) != "unknown"; }

}  // namespace

std::vector<std::byte> finishFrame(FrameType type, std::uint64_t requestId,
                                   std::vector<std::byte> frame) {
  std::vector<std::byte> header;
  header.reserve(kFrameHeaderBytes);
  ByteWriter out(header);
  const auto body = std::span<const std::byte>(frame).subspan(kFrameHeaderBytes);
  out.number(kFrameMagic);
  out.number(kLayoutVersion);
  out.number(static_cast<std::uint16_t>(type));
  out.number(std::uint32_t{0});
  out.number(static_cast<std::uint32_t>(body.size()));
  out.number(requestId);
  out.number(crc32c(body));
  out.number(crc32c(header));
  std::copy(header.begin(), header.end(), frame.begin());
  return frame;
}

const char* frameName(FrameType type) {
  switch (type) {
    case FrameType::kPreface:
      return "Preface";
    case FrameType::kHello:
      return "Hello";
    case FrameType::kChallenge:
      return "Challenge";
    case FrameType::kProof:
      return "Proof";
    case FrameType::kRefuse:
      return "Refuse";
    case FrameType::kCredit:
      return "Credit";
    case FrameType::kGoodbye:
      return "Goodbye";
    case FrameType::kPing:
      return "Ping";
    case FrameType::kPong:
      return "Pong";
    case FrameType::kReadRequest:
      return "ReadRequest";
    case FrameType::kReadAnswer:
      return "ReadAnswer";
    case FrameType::kManifestRequest:
      return "ManifestRequest";
    case FrameType::kManifestAnswer:
      return "ManifestAnswer";
    case FrameType::kControlRequest:
      return "ControlRequest";
    case FrameType::kControlAnswer:
      return "ControlAnswer";
    case FrameType::kCancel:
      return "Cancel";
    case FrameType::kWriteRequest:
      return "WriteRequest";
    case FrameType::kWriteReady:
      return "WriteReady";
    case FrameType::kWriteData:
      return "WriteData";
    case FrameType::kWriteAnswer:
      return "WriteAnswer";
  }
  return "unknown";
}

namespace {

// Of the fixed part.
std::size_t fixedLimit(FrameType type) {
  switch (type) {
    case FrameType::kPreface:
      return 8;
    case FrameType::kHello:
    case FrameType::kChallenge:
      return kGreetingLimit;
    case FrameType::kProof:
      return 1 + 4 + kMaxProofBytes;
    case FrameType::kRefuse:
    case FrameType::kGoodbye:
    case FrameType::kWriteAnswer:
      return kSentenceLimit;
    case FrameType::kCredit:
      return 12;
    case FrameType::kPing:
    case FrameType::kPong:
    case FrameType::kCancel:
    case FrameType::kWriteReady:
      return 0;
    case FrameType::kReadRequest:
      return 32 + 8 + 4 + 4 + 4;
    case FrameType::kWriteRequest:
      return 32 + 8 + 4 + 4 + 4 + 8;
    case FrameType::kWriteData:
      return 4 + 4 + 4 + 4 * (kChunkBytes / kBlockBytes);
    case FrameType::kManifestRequest:
      return 32 + 8 + 4;
    case FrameType::kReadAnswer:
    case FrameType::kManifestAnswer:
      return kAnswerHeadLimit;
    case FrameType::kControlRequest:
      return 2 + 4 + kMaxControlBytes;
    case FrameType::kControlAnswer:
      return kSentenceLimit + 2 + 4 + kMaxControlBytes;
  }
  return 0;
}

}  // namespace

std::size_t bodyLimit(FrameType type) {
  if (type == FrameType::kPreface) return fixedLimit(type);
  return fixedLimit(type) + kMaxFieldBytes;
}

std::string namesOfFeatures(std::uint64_t features) {
  constexpr std::pair<WireFeature, const char*> kNames[] = {
      {WireFeature::kPartialAnswers, "partial-answers"},
      {WireFeature::kRemoteMemory, "remote-memory"},
      {WireFeature::kWrites, "writes"},
      {WireFeature::kVolumes, "volumes"},
  };
  std::string names;
  for (const auto& [feature, name] : kNames) {
    if (!has(features, feature)) continue;
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

std::vector<std::byte> encodeEmptyFrame(FrameType type, std::uint64_t requestId) {
  return finishFrame(type, requestId, std::vector<std::byte>(kFrameHeaderBytes));
}

Result<FrameHeader> decodeHeader(std::span<const std::byte> bytes) {
  const std::span<const std::byte> header = bytes.first(kFrameHeaderBytes);
  ByteReader in(header);
  const auto magic = in.number<std::uint32_t>();
  const auto version = in.number<std::uint16_t>();
  const auto type = static_cast<FrameType>(in.number<std::uint16_t>());
  const auto flags = in.number<std::uint32_t>();
  FrameHeader decoded{.type = type};
  decoded.bodyLength = in.number<std::uint32_t>();
  decoded.requestId = in.number<std::uint64_t>();
  decoded.bodyChecksum = in.number<std::uint32_t>();
  if (magic != kFrameMagic) {
    return Error{
        ErrorCode::kProtocolError,
        "these bytes are not Hearth's wire protocol; check that the port belongs to an agent"};
  }
  if (in.number<std::uint32_t>() != crc32c(header.first(kChecksummedHeaderBytes))) {
    return Error{ErrorCode::kProtocolError, "a frame's header does not match its checksum"};
  }
  const bool spoken = version >= kOldestWireVersion && version <= kWireVersion;
  decoded.unknown = !isFrameType(type);
  const bool skipped = decoded.unknown && (flags & kSkippable) != 0;
  if (!spoken && !skipped && type != FrameType::kRefuse) return unspoken(version);
  if (decoded.unknown && !skipped) return wrongFrame(type, "is not known to this release");
  if ((flags & kRequiredFlags) != 0) {
    Error error = wrongFrame(type, "has flags that only a later release understands");
    error.code = ErrorCode::kUnsupported;
    return error;
  }
  if (decoded.bodyLength > (skipped ? kMaxSkippedBytes : bodyLimit(type))) {
    return wrongFrame(type, "has a body that is too long");
  }
  return decoded;
}

Status checkBody(const FrameHeader& header, std::span<const std::byte> body) {
  if (crc32c(body) == header.bodyChecksum) return {};
  return Error{ErrorCode::kCorrupt,
               std::string("the body of a ") + frameName(header.type) +
                   " frame does not match its checksum; the network or a memory is faulty"};
}

}  // namespace hearth
