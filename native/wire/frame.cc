#include "wire/frame.h"

#include <algorithm>
#include <string_view>

#include "base/byte_codec.h"
#include "base/optional_fields.h"
#include "wire/frame_header.h"
#include "wire/frame_text.h"

namespace hearth {
namespace {

Error malformed(FrameType type, std::string_view what) {
  return {ErrorCode::kProtocolError,
          std::string("a ") + frameName(type) + " frame has " + std::string(what)};
}

bool blockAligned(std::uint64_t offset) { return offset % kBlockBytes == 0; }
bool usableLength(std::uint32_t length) { return length > 0 && length <= kChunkBytes; }

// Tags of the optional fields, of each body. Never reused.
constexpr std::uint16_t kTargetField = 1;                    // ReadRequest
constexpr std::uint16_t kWindowField = 1 | kMustUnderstand;  // WriteRequest
constexpr std::uint16_t kWritesField = 1;                    // Credit
constexpr std::uint16_t kPartField = 1 | kMustUnderstand;    // ReadAnswer

// Bodies of which no optional field is known yet.
template <class Body>
void putFields(ByteWriter&, const Body&) {}
template <class Body>
DecodeFault takeField(Body&, std::uint16_t, ByteReader&, bool& known) {
  known = false;
  return nullptr;
}

void put(ByteWriter& out, const Preface& body) {
  out.number(body.shard);
  out.number(body.shards);
}
DecodeFault get(ByteReader& in, Preface& body) {
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
DecodeFault getGreeting(ByteReader& in, Greeting& body) {
  body.cluster = in.text();
  body.node = in.text();
  body.incarnation = in.text();
  body.nonce = in.fixed<sizeof(Nonce)>();
  const bool usable =
      usableName(body.cluster) && usableName(body.node) && usableName(body.incarnation);
  return usable ? nullptr : "a name that is empty, too long or has control characters";
}
void put(ByteWriter& out, const Hello& body) {
  putGreeting(out, body);
  out.number(body.oldestVersion);
  out.number(body.newestVersion);
  out.number(body.features);
  out.number(body.proofKinds);
}
DecodeFault get(ByteReader& in, Hello& body) {
  const DecodeFault fault = getGreeting(in, body);
  if (fault != nullptr) return fault;
  body.oldestVersion = in.number<std::uint16_t>();
  body.newestVersion = in.number<std::uint16_t>();
  body.features = in.number<std::uint64_t>();
  body.proofKinds = in.number<std::uint32_t>();
  return body.oldestVersion <= body.newestVersion ? nullptr : "versions in the wrong order";
}
void put(ByteWriter& out, const Challenge& body) {
  putGreeting(out, body);
  out.number(body.version);
  out.number(body.features);
  out.number(static_cast<std::uint8_t>(body.proofKind));
}
DecodeFault get(ByteReader& in, Challenge& body) {
  const DecodeFault fault = getGreeting(in, body);
  if (fault != nullptr) return fault;
  body.version = in.number<std::uint16_t>();
  body.features = in.number<std::uint64_t>();
  body.proofKind = static_cast<ProofKind>(in.number<std::uint8_t>());
  return nullptr;
}

void put(ByteWriter& out, const Proof& body) {
  out.number(static_cast<std::uint8_t>(body.kind));
  out.number(static_cast<std::uint32_t>(body.bytes.size()));
  out.bytes(body.bytes);
}
DecodeFault get(ByteReader& in, Proof& body) {
  body.kind = static_cast<ProofKind>(in.number<std::uint8_t>());
  const auto length = in.number<std::uint32_t>();
  if (length > kMaxProofBytes) return "a proof that is too long";
  const std::span<const std::byte> bytes = in.raw(length);
  body.bytes.assign(bytes.begin(), bytes.end());
  return nullptr;
}

void put(ByteWriter& out, const Refuse& body) { putSentence(out, body.code, body.sentence); }
DecodeFault get(ByteReader& in, Refuse& body) {
  return getSentence(in, false, body.code, body.sentence);
}
void put(ByteWriter& out, const Goodbye& body) { putSentence(out, body.code, body.sentence); }
DecodeFault get(ByteReader& in, Goodbye& body) {
  return getSentence(in, false, body.code, body.sentence);
}

void put(ByteWriter& out, const Credit& body) {
  out.number(body.bytes);
  out.number(body.requests);
}
DecodeFault get(ByteReader& in, Credit& body) {
  body.bytes = in.number<std::uint64_t>();
  body.requests = in.number<std::uint32_t>();
  return nullptr;
}
void putFields(ByteWriter& out, const Credit& body) {
  if (!body.writes) return;
  ByteWriter field;
  field.u64(body.writes->bytes);
  field.u32(body.writes->requests);
  putField(out, kWritesField, field.take());
}
DecodeFault takeField(Credit& body, std::uint16_t tag, ByteReader& value, bool& known) {
  known = tag == kWritesField;
  if (!known) return nullptr;
  WriteCredit writes;
  writes.bytes = value.u64();
  writes.requests = value.u32();
  if (!value.ok()) return "a credit for writes that is cut off";
  body.writes = writes;
  return nullptr;
}

// The range that a request names, and on which terms.
template <class Request>
void putRange(ByteWriter& out, const Request& body) {
  out.bytes(std::as_bytes(std::span(body.key.bytes)));
  out.number(body.offset);
  out.number(body.length);
  out.number(body.timeoutMs);
  out.number(static_cast<std::uint8_t>(body.requestClass));
  out.number(std::uint8_t{0});
  out.number(std::uint16_t{0});
}
template <class Request>
void putMemory(ByteWriter& out, std::uint16_t tag, const Request& body) {
  if (!body.target) return;
  ByteWriter field;
  encode(field, *body.target);
  putField(out, tag, field.take());
}
void put(ByteWriter& out, const ReadRequest& body) { putRange(out, body); }
void putFields(ByteWriter& out, const ReadRequest& body) { putMemory(out, kTargetField, body); }
DecodeFault takeField(ReadRequest& body, std::uint16_t tag, ByteReader& value, bool& known) {
  known = tag == kTargetField;
  if (!known) return nullptr;
  std::optional<MemoryDescriptor> target = decodeMemoryDescriptor(value);
  if (!target) return "a description of memory that makes no sense";
  if (target->kind != MemoryKind::kUnknown) body.target = std::move(target);
  return nullptr;
}
template <class Request>
DecodeFault getRange(ByteReader& in, Request& body) {
  body.key.bytes = in.fixed<32>();
  body.offset = in.number<std::uint64_t>();
  body.length = in.number<std::uint32_t>();
  body.timeoutMs = in.number<std::uint32_t>();
  const auto requestClass = in.number<std::uint8_t>();
  const bool knownClass = requestClass <= static_cast<std::uint8_t>(RequestClass::kRepair);
  body.requestClass = knownClass ? static_cast<RequestClass>(requestClass) : RequestClass::kWarm;
  [[maybe_unused]] const std::span<const std::byte> reserved = in.raw(3);
  if (!usableLength(body.length)) return "a length that is out of range";
  if (!blockAligned(body.offset)) return "an offset that is not the start of a block";
  if (body.offset % kChunkBytes + body.length > kChunkBytes) return "a range over two chunks";
  return nullptr;
}
DecodeFault get(ByteReader& in, ReadRequest& body) { return getRange(in, body); }

void put(ByteWriter& out, const WriteRequest& body) {
  putRange(out, body);
  out.number(body.generation);
}
DecodeFault get(ByteReader& in, WriteRequest& body) {
  const DecodeFault fault = getRange(in, body);
  body.generation = in.number<std::uint64_t>();
  return fault;
}
void putFields(ByteWriter& out, const WriteRequest& body) { putMemory(out, kWindowField, body); }
DecodeFault takeField(WriteRequest& body, std::uint16_t tag, ByteReader& value, bool& known) {
  known = tag == kWindowField;
  if (!known) return nullptr;
  body.target = decodeMemoryDescriptor(value);
  // Unlike a read's, which may be answered otherwise: the bytes belong there and nowhere else.
  const bool usable = body.target && body.target->kind != MemoryKind::kUnknown;
  return usable ? nullptr : "a description of memory that makes no sense";
}

// The checksums of a payload of this length.
void putChecksums(ByteWriter& out, std::uint32_t length,
                  const std::vector<std::uint32_t>& checksums) {
  out.number(length);
  out.number(static_cast<std::uint32_t>(checksums.size()));
  for (const std::uint32_t checksum : checksums) out.number(checksum);
}
DecodeFault getChecksums(ByteReader& in, std::uint32_t& length,
                         std::vector<std::uint32_t>& checksums) {
  length = in.number<std::uint32_t>();
  const auto count = in.number<std::uint32_t>();
  if (length > kChunkBytes) return "a payload that is longer than a chunk";
  if (count != blocksOf(length)) return "another number of checksums than of blocks";
  checksums.resize(count);
  for (std::uint32_t& checksum : checksums) checksum = in.number<std::uint32_t>();
  return nullptr;
}

void put(ByteWriter& out, const WriteData& body) {
  out.number(body.offset);
  putChecksums(out, body.payloadLength, body.blockChecksums);
}
DecodeFault get(ByteReader& in, WriteData& body) {
  body.offset = in.number<std::uint32_t>();
  const DecodeFault fault = getChecksums(in, body.payloadLength, body.blockChecksums);
  if (fault != nullptr) return fault;
  if (!usableLength(body.payloadLength)) return "a length that is out of range";
  const bool inRange = blockAligned(body.offset) && body.offset <= kChunkBytes - body.payloadLength;
  return inRange ? nullptr : "a part that is out of range";
}

void put(ByteWriter& out, const WriteAnswer& body) { putSentence(out, body.code, body.sentence); }
DecodeFault get(ByteReader& in, WriteAnswer& body) {
  return getSentence(in, true, body.code, body.sentence);
}

void put(ByteWriter& out, const ManifestRequest& body) {
  out.bytes(std::as_bytes(std::span(body.digest)));
  out.number(body.offset);
  out.number(body.length);
}
DecodeFault get(ByteReader& in, ManifestRequest& body) {
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
  putChecksums(out, body.payloadLength, body.blockChecksums);
}
template <FrameType type>
DecodeFault get(ByteReader& in, DataAnswer<type>& body) {
  const DecodeFault fault = getSentence(in, true, body.code, body.sentence);
  if (fault != nullptr) return fault;
  const DecodeFault other = getChecksums(in, body.payloadLength, body.blockChecksums);
  if (other != nullptr) return other;
  const bool carries = body.payloadLength != 0;
  return body.code != ErrorCode::kOk && carries ? "a payload beside an error" : nullptr;
}
void putFields(ByteWriter& out, const ReadAnswer& body) {
  if (!body.part) return;
  ByteWriter field;
  field.u32(body.part->offset);
  field.u8(body.part->last ? 1 : 0);
  putField(out, kPartField, field.take());
}
DecodeFault takeField(ReadAnswer& body, std::uint16_t tag, ByteReader& value, bool& known) {
  known = tag == kPartField;
  if (!known) return nullptr;
  AnswerPart part;
  part.offset = value.u32();
  part.last = value.u8() != 0;
  if (!value.ok() || !blockAligned(part.offset)) return "a part that makes no sense";
  if (body.code != ErrorCode::kOk) return "a part beside an error";
  if (part.offset > kChunkBytes - body.payloadLength) return "a part that is out of range";
  body.part = part;
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
DecodeFault getControl(ByteReader& in, Control& body) {
  body.type = in.number<std::uint16_t>();
  const auto length = in.number<std::uint32_t>();
  if (length > kMaxControlBytes) return "a message that is too long";
  const std::span<const std::byte> bytes = in.raw(length);
  body.body.assign(bytes.begin(), bytes.end());
  return nullptr;
}
DecodeFault get(ByteReader& in, ControlRequest& body) { return getControl(in, body); }
DecodeFault get(ByteReader& in, ControlAnswer& body) {
  const DecodeFault fault = getSentence(in, true, body.code, body.sentence);
  if (fault != nullptr) return fault;
  const DecodeFault other = getControl(in, body);
  if (other != nullptr) return other;
  const bool carries = body.type != 0 || !body.body.empty();
  return body.code != ErrorCode::kOk && carries ? "a message beside an error" : nullptr;
}

}  // namespace

template <class Body>
std::vector<std::byte> encodeFrame(const Body& body, std::uint64_t requestId) {
  std::vector<std::byte> frame(kFrameHeaderBytes);
  ByteWriter out(frame);
  put(out, body);
  putFields(out, body);
  return finishFrame(Body::kType, requestId, std::move(frame));
}

template <class Body>
Result<Body> decodeBody(std::span<const std::byte> body) {
  ByteReader in(body);
  Body decoded;
  DecodeFault fault = get(in, decoded);
  if (fault == nullptr && !in.ok()) fault = "a body that is cut off";
  OptionalFields fields(in);
  while (fault == nullptr) {
    auto field = fields.next();
    if (!field) break;
    bool known = false;
    fault = takeField(decoded, field->tag, field->value, known);
    if (!known && field->mustUnderstand()) {
      Error error = malformed(Body::kType, "a field that only a later release understands");
      error.code = ErrorCode::kUnsupported;
      return error;
    }
  }
  if (fields.malformed()) fault = "optional fields that are malformed";
  if (fault != nullptr) return malformed(Body::kType, fault);
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
HEARTH_FRAME_BODY(WriteRequest);
HEARTH_FRAME_BODY(WriteData);
HEARTH_FRAME_BODY(WriteAnswer);
HEARTH_FRAME_BODY(ManifestAnswer);
HEARTH_FRAME_BODY(ControlRequest);
HEARTH_FRAME_BODY(ControlAnswer);
#undef HEARTH_FRAME_BODY

}  // namespace hearth
