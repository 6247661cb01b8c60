#include "holder/holder_protocol.h"

#include "base/byte_codec.h"

namespace hearth {
namespace {

constexpr std::uint16_t kReplyKind = 0x8000;
constexpr std::uint8_t kHasRecord = 1;
constexpr std::uint8_t kAttached = 1;
constexpr std::uint8_t kAborted = 2;

Error malformed(const std::string& why) {
  return {ErrorCode::kProtocolError, "holder message: " + why};
}

std::vector<std::byte> frame(std::uint16_t kind, std::uint32_t sequence, ByteWriter body) {
  const std::vector<std::byte> bytes = body.take();
  ByteWriter message;
  message.u32(kHolderMagic);
  message.u16(kHolderVersion);
  message.u16(kind);
  message.u32(static_cast<std::uint32_t>(kHolderHeaderBytes + bytes.size()));
  message.u32(sequence);
  message.bytes(bytes);
  return message.take();
}

struct Header {
  std::uint16_t kind = 0;
  std::uint32_t sequence = 0;
};

Result<Header> readHeader(ByteReader& reader, std::size_t size) {
  if (size < kHolderHeaderBytes) return malformed("shorter than its header");
  if (size > kMaxHolderMessage)
    return malformed("longer than " + std::to_string(kMaxHolderMessage));
  if (reader.u32() != kHolderMagic) return malformed("wrong magic number");
  if (const auto version = reader.u16(); version != kHolderVersion) {
    return malformed("version " + std::to_string(version) + ", we speak " +
                     std::to_string(kHolderVersion) + "; install agent and holder of one release");
  }
  Header header;
  header.kind = reader.u16();
  if (reader.u32() != size) return malformed("its length field differs from its length");
  header.sequence = reader.u32();
  return header;
}

void write(ByteWriter& out, const HolderRecord& record) {
  out.text(record.target);
  out.text(record.source);
  out.text(record.owner);
  out.u32(record.epoch);
  out.u32(record.minor);
  out.u8(static_cast<std::uint8_t>((record.attached ? kAttached : 0) |
                                   (record.aborted ? kAborted : 0)));
  out.u32(record.absentSeconds);
  out.text(record.blob);
  out.text(record.state);
}

HolderRecord readRecord(ByteReader& in) {
  HolderRecord record;
  record.target = in.text();
  record.source = in.text();
  record.owner = in.text();
  record.epoch = in.u32();
  record.minor = in.u32();
  const std::uint8_t flags = in.u8();
  record.attached = (flags & kAttached) != 0;
  record.aborted = (flags & kAborted) != 0;
  record.absentSeconds = in.u32();
  record.blob = in.text();
  record.state = in.text();
  return record;
}

bool withinLimits(const HolderRequest& request) {
  return request.target.size() <= kMaxHolderPath && request.owner.size() <= kMaxHolderText &&
         request.source.size() <= kMaxHolderText &&
         request.selinuxContext.size() <= kMaxHolderText && request.blob.size() <= kMaxHolderBlob &&
         request.state.size() <= kMaxHolderBlob &&
         // These go to system calls as C strings.
         (request.target + request.source + request.selinuxContext).find('\0') == std::string::npos;
}

}  // namespace

std::vector<std::byte> encode(const HolderRequest& request) {
  ByteWriter out;
  switch (request.kind) {
    case HolderRequestKind::kAttach:
      out.text(request.owner);
      break;
    case HolderRequestKind::kTake:
    case HolderRequestKind::kList:
      out.text(request.target);
      break;
    case HolderRequestKind::kMount:
      out.text(request.target);
      out.text(request.source);
      out.text(request.selinuxContext);
      out.u32(request.readAheadKiB);
      out.text(request.blob);
      break;
    case HolderRequestKind::kSaveState:
      out.text(request.target);
      out.text(request.state);
      break;
    case HolderRequestKind::kUnmount:
      out.text(request.target);
      out.u8(request.force ? 1 : 0);
      break;
  }
  return frame(static_cast<std::uint16_t>(request.kind), request.sequence, std::move(out));
}

std::vector<std::byte> encode(const HolderReply& reply) {
  ByteWriter out;
  out.u16(static_cast<std::uint16_t>(reply.code));
  out.text(reply.message);
  out.u32(reply.count);
  out.u8(reply.record ? kHasRecord : 0);
  if (reply.record) write(out, *reply.record);
  return frame(kReplyKind, reply.sequence, std::move(out));
}

Result<HolderRequest> decodeHolderRequest(std::span<const std::byte> message) {
  ByteReader in(message);
  const auto header = readHeader(in, message.size());
  if (!header) return header.error();
  HolderRequest request;
  request.kind = static_cast<HolderRequestKind>(header->kind);
  request.sequence = header->sequence;
  switch (request.kind) {
    case HolderRequestKind::kAttach:
      request.owner = in.text();
      break;
    case HolderRequestKind::kTake:
    case HolderRequestKind::kList:
      request.target = in.text();
      break;
    case HolderRequestKind::kMount:
      request.target = in.text();
      request.source = in.text();
      request.selinuxContext = in.text();
      request.readAheadKiB = in.u32();
      request.blob = in.text();
      break;
    case HolderRequestKind::kSaveState:
      request.target = in.text();
      request.state = in.text();
      break;
    case HolderRequestKind::kUnmount:
      request.target = in.text();
      request.force = in.u8() != 0;
      break;
    default:
      return malformed("unknown kind " + std::to_string(header->kind));
  }
  if (!in.finished()) return malformed("its fields do not fill it exactly");
  if (!withinLimits(request)) return malformed("a field is too long or contains a zero byte");
  return request;
}

Result<HolderReply> decodeHolderReply(std::span<const std::byte> message) {
  ByteReader in(message);
  const auto header = readHeader(in, message.size());
  if (!header) return header.error();
  if (header->kind != kReplyKind) return malformed("not a reply");
  HolderReply reply;
  reply.sequence = header->sequence;
  const std::uint16_t code = in.u16();
  if (!isErrorCode(code)) return malformed("unknown error code");
  reply.code = static_cast<ErrorCode>(code);
  reply.message = in.text();
  reply.count = in.u32();
  if (in.u8() == kHasRecord) reply.record = readRecord(in);
  if (!in.finished()) return malformed("its fields do not fill it exactly");
  return reply;
}

}  // namespace hearth
