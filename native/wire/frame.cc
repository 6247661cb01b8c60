#include "wire/frame.h"

#include <algorithm>
#include <string_view>

#include "base/byte_codec.h"
#include "base/crc32c.h"

namespace hearth {
namespace {

constexpr std::size_t kChecksummedHeaderBytes = kFrameHeaderBytes - 4;
constexpr std::size_t kGreetingLimit = 3 * (2 + kMaxNameBytes) + sizeof(Nonce);
constexpr std::size_t kSentenceLimit = 2 + 2 + kMaxSentenceBytes;
constexpr std::size_t kAnswerHeadLimit = kSentenceLimit + 4 + 4 + 4 * (kChunkBytes / kBlockBytes);

Error malformed(FrameType type, std::string_view what) {
  return {ErrorCode::kProtocolError,
          std::string("a ") + frameName(type) + " frame has " + std::string(what)};
}

bool usableName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes &&
         std::all_of(name.begin(), name.end(), [](char character) {
           return static_cast<unsigned char>(character) >= 0x20 && character != 0x7f;
         });
}

bool blockAligned(std::uint64_t offset) { return offset % kBlockBytes == 0; }
bool usableLength(std::uint32_t length) { return length > 0 && length <= kChunkBytes; }

// The sentence is shown to people: what could disturb a terminal or a log line is replaced.
std::string printable(std::string sentence) {
  for (char& character : sentence) {
    if (static_cast<unsigned char>(character) < 0x20 || character == 0x7f) character = ' ';
  }
  return sentence;
}

void putSentence(ByteWriter& out, ErrorCode code, std::string_view sentence) {
  out.number(static_cast<std::uint16_t>(code));
  out.text(printable(std::string(sentence.substr(0, kMaxSentenceBytes))));
}

// What is wrong with what was read, or null.
using Complaint = const char*;

Complaint getSentence(ByteReader& in, bool mayBeOk, ErrorCode& code, std::string& sentence) {
  const auto number = in.number<std::uint16_t>();
  sentence = in.text();
  if (!isErrorCode(number) || (number == 0 && !mayBeOk)) return "an unknown error code";
  if (sentence.size() > kMaxSentenceBytes) return "a sentence that is too long";
  if (printable(sentence) != sentence) return "control characters in its sentence";
  if (number == 0 && !sentence.empty()) return "a sentence beside success";
  code = static_cast<ErrorCode>(number);
  return nullptr;
}

void put(ByteWriter& out, const Preface& body) {
  out.number(body.shard);
  out.number(body.shards);
}
Complaint get(ByteReader& in, Preface& body) {
  body.shard = in.number<std::uint32_t>();
  body.shards = in.number<std::uint32_t>();
  const bool inRange = body.shards >= 1 && body.shards <= kMaxShards && body.shard < body.shards;
  return inRange ? nullptr : "a shard that is out of range";
}

template <class Greeting>
void putGreeting(ByteWriter& out, const Greeting& body) {
  out.text(body.cluster);
  out.text(body.node);
  out.text(body.incarnation);
  out.bytes(std::as_bytes(std::span(body.nonce)));
}
template <class Greeting>
Complaint getGreeting(ByteReader& in, Greeting& body) {
  body.cluster = in.text();
  body.node = in.text();
  body.incarnation = in.text();
  body.nonce = in.fixed<sizeof(Nonce)>();
  const bool usable =
      usableName(body.cluster) && usableName(body.node) && usableName(body.incarnation);
  return usable ? nullptr : "a name that is empty, too long or has control characters";
}
void put(ByteWriter& out, const Hello& body) { putGreeting(out, body); }
Complaint get(ByteReader& in, Hello& body) { return getGreeting(in, body); }
void put(ByteWriter& out, const Challenge& body) { putGreeting(out, body); }
Complaint get(ByteReader& in, Challenge& body) { return getGreeting(in, body); }

void put(ByteWriter& out, const Proof& body) { out.bytes(std::as_bytes(std::span(body.code))); }
Complaint get(ByteReader& in, Proof& body) {
  body.code = in.fixed<sizeof(Sha256Digest)>();
  return nullptr;
}

void put(ByteWriter& out, const Refuse& body) { putSentence(out, body.code, body.sentence); }
Complaint get(ByteReader& in, Refuse& body) {
  return getSentence(in, false, body.code, body.sentence);
}
void put(ByteWriter& out, const Goodbye& body) { putSentence(out, body.code, body.sentence); }
Complaint get(ByteReader& in, Goodbye& body) {
  return getSentence(in, false, body.code, body.sentence);
}

void put(ByteWriter& out, const Credit& body) {
  out.number(body.bytes);
  out.number(body.requests);
}
Complaint get(ByteReader& in, Credit& body) {
  body.bytes = in.number<std::uint64_t>();
  body.requests = in.number<std::uint32_t>();
  return nullptr;
}

void put(ByteWriter& out, const ReadRequest& body) {
  out.bytes(std::as_bytes(std::span(body.key.bytes)));
  out.number(body.offset);
  out.number(body.length);
  out.number(body.patienceMs);
}
Complaint get(ByteReader& in, ReadRequest& body) {
  body.key.bytes = in.fixed<32>();
  body.offset = in.number<std::uint64_t>();
  body.length = in.number<std::uint32_t>();
  body.patienceMs = in.number<std::uint32_t>();
  if (!usableLength(body.length)) return "a length that is out of range";
  if (!blockAligned(body.offset)) return "an offset that is not the start of a block";
  if (body.offset % kChunkBytes + body.length > kChunkBytes) return "a range over two chunks";
  return nullptr;
}

void put(ByteWriter& out, const ManifestRequest& body) {
  out.bytes(std::as_bytes(std::span(body.digest)));
  out.number(body.offset);
  out.number(body.length);
}
Complaint get(ByteReader& in, ManifestRequest& body) {
  body.digest = in.fixed<32>();
  body.offset = in.number<std::uint64_t>();
  body.length = in.number<std::uint32_t>();
  if (!usableLength(body.length)) return "a length that is out of range";
  if (!blockAligned(body.offset)) return "an offset that is not the start of a block";
  return nullptr;
}

template <FrameType type>
void put(ByteWriter& out, const DataAnswer<type>& body) {
  putSentence(out, body.code, body.sentence);
  out.number(body.payloadLength);
  out.number(static_cast<std::uint32_t>(body.blockChecksums.size()));
  for (const std::uint32_t checksum : body.blockChecksums) out.number(checksum);
}
template <FrameType type>
Complaint get(ByteReader& in, DataAnswer<type>& body) {
  const Complaint complaint = getSentence(in, true, body.code, body.sentence);
  if (complaint != nullptr) return complaint;
  body.payloadLength = in.number<std::uint32_t>();
  const auto count = in.number<std::uint32_t>();
  if (body.code != ErrorCode::kOk && body.payloadLength != 0) return "a payload beside an error";
  if (body.payloadLength > kChunkBytes) return "a payload that is longer than a chunk";
  if (count != blocksOf(body.payloadLength)) return "another number of checksums than of blocks";
  body.blockChecksums.resize(count);
  for (std::uint32_t& checksum : body.blockChecksums) checksum = in.number<std::uint32_t>();
  return nullptr;
}

void put(ByteWriter& out, const ControlRequest& body) {
  out.number(body.type);
  out.number(static_cast<std::uint32_t>(body.body.size()));
  out.bytes(body.body);
}
void put(ByteWriter& out, const ControlAnswer& body) {
  putSentence(out, body.code, body.sentence);
  out.number(body.type);
  out.number(static_cast<std::uint32_t>(body.body.size()));
  out.bytes(body.body);
}
template <class Control>
Complaint getControl(ByteReader& in, Control& body) {
  body.type = in.number<std::uint16_t>();
  const auto length = in.number<std::uint32_t>();
  if (length > kMaxControlBytes) return "a message that is too long";
  const std::span<const std::byte> bytes = in.raw(length);
  body.body.assign(bytes.begin(), bytes.end());
  return nullptr;
}
Complaint get(ByteReader& in, ControlRequest& body) { return getControl(in, body); }
Complaint get(ByteReader& in, ControlAnswer& body) {
  const Complaint complaint = getSentence(in, true, body.code, body.sentence);
  if (complaint != nullptr) return complaint;
  const Complaint other = getControl(in, body);
  if (other != nullptr) return other;
  const bool carries = body.type != 0 || !body.body.empty();
  return body.code != ErrorCode::kOk && carries ? "a message beside an error" : nullptr;
}

std::vector<std::byte> finishFrame(FrameType type, std::uint64_t requestId,
                                   std::vector<std::byte> frame) {
  std::vector<std::byte> header;
  header.reserve(kFrameHeaderBytes);
  ByteWriter out(header);
  const auto body = std::span<const std::byte>(frame).subspan(kFrameHeaderBytes);
  out.number(kFrameMagic);
  out.number(kWireVersion);
  out.number(static_cast<std::uint16_t>(type));
  out.number(std::uint32_t{0});
  out.number(static_cast<std::uint32_t>(body.size()));
  out.number(requestId);
  out.number(crc32c(body));
  out.number(crc32c(header));
  std::copy(header.begin(), header.end(), frame.begin());
  return frame;
}

}  // namespace

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
  }
  return "unknown";
}

std::size_t bodyLimit(FrameType type) {
  switch (type) {
    case FrameType::kPreface:
      return 8;
    case FrameType::kHello:
    case FrameType::kChallenge:
      return kGreetingLimit;
    case FrameType::kProof:
      return sizeof(Sha256Digest);
    case FrameType::kRefuse:
    case FrameType::kGoodbye:
      return kSentenceLimit;
    case FrameType::kCredit:
      return 12;
    case FrameType::kPing:
    case FrameType::kPong:
    case FrameType::kCancel:
      return 0;
    case FrameType::kReadRequest:
      return 32 + 8 + 4 + 4;
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

template <class Body>
std::vector<std::byte> encodeFrame(const Body& body, std::uint64_t requestId) {
  std::vector<std::byte> frame(kFrameHeaderBytes);
  ByteWriter out(frame);
  put(out, body);
  return finishFrame(Body::kType, requestId, std::move(frame));
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
  if (version != kWireVersion && type != FrameType::kRefuse) {
    return Error{ErrorCode::kUnsupported,
                 "the other side speaks version " + std::to_string(version) +
                     " of the wire protocol and this agent version " +
                     std::to_string(kWireVersion) + "; run the same release on all nodes"};
  }
  if (std::string_view(frameName(type)) == "unknown") {
    return Error{ErrorCode::kProtocolError,
                 "frame type " + std::to_string(static_cast<unsigned>(type)) + " is unknown"};
  }
  if (flags != 0) return malformed(type, "flags that are not defined");
  if (decoded.bodyLength > bodyLimit(type)) return malformed(type, "a body that is too long");
  return decoded;
}

Status checkBody(const FrameHeader& header, std::span<const std::byte> body) {
  if (crc32c(body) == header.bodyChecksum) return {};
  return Error{ErrorCode::kCorrupt,
               std::string("the body of a ") + frameName(header.type) +
                   " frame does not match its checksum; the network or a memory is faulty"};
}

template <class Body>
Result<Body> decodeBody(std::span<const std::byte> body) {
  ByteReader in(body);
  Body decoded;
  const Complaint complaint = get(in, decoded);
  if (complaint != nullptr) return malformed(Body::kType, complaint);
  if (!in.finished()) return malformed(Body::kType, "a body of the wrong length");
  return decoded;
}

#define HEARTH_FRAME_BODY(Body)                                                  \
  template std::vector<std::byte> encodeFrame<Body>(const Body&, std::uint64_t); \
  template Result<Body> decodeBody<Body>(std::span<const std::byte>)
HEARTH_FRAME_BODY(Preface);
HEARTH_FRAME_BODY(Hello);
HEARTH_FRAME_BODY(Challenge);
HEARTH_FRAME_BODY(Proof);
HEARTH_FRAME_BODY(Refuse);
HEARTH_FRAME_BODY(Goodbye);
HEARTH_FRAME_BODY(Credit);
HEARTH_FRAME_BODY(ReadRequest);
HEARTH_FRAME_BODY(ManifestRequest);
HEARTH_FRAME_BODY(ReadAnswer);
HEARTH_FRAME_BODY(ManifestAnswer);
HEARTH_FRAME_BODY(ControlRequest);
HEARTH_FRAME_BODY(ControlAnswer);
#undef HEARTH_FRAME_BODY

}  // namespace hearth
