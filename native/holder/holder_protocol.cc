#include "holder/holder_protocol.h"

#include <algorithm>

#include "base/byte_codec.h"
#include "holder/holder_fields.h"
#include "holder/holder_records.h"

namespace hearth {
namespace {

using Field = HolderField;

constexpr std::uint16_t kReplyKind = 0x8000;
constexpr std::uint64_t kKnownFlags = kHolderWritable;

Error malformed(const std::string& why) {
  return {ErrorCode::kProtocolError, "holder message: " + why};
}

std::vector<std::byte> frame(std::uint16_t kind, std::uint32_t sequence,
                             const HolderFieldWriter& fields) {
  ByteWriter message;
  message.u32(kHolderMagic);
  message.u16(kHolderVersion);
  message.u16(kind);
  message.u32(static_cast<std::uint32_t>(kHolderHeaderBytes + fields.bytes().size()));
  message.u32(sequence);
  message.bytes(fields.bytes());
  return message.take();
}

struct Header {
  std::uint16_t version = 0;
  std::uint16_t kind = 0;
  std::uint32_t sequence = 0;
};

Result<Header> readHeader(ByteReader& reader, std::size_t size) {
  if (size < kHolderHeaderBytes) return malformed("shorter than its header");
  if (size > kMaxHolderMessage)
    return malformed("longer than " + std::to_string(kMaxHolderMessage));
  if (reader.u32() != kHolderMagic) return malformed("wrong magic number");
  Header header;
  header.version = reader.u16();
  header.kind = reader.u16();
  if (reader.u32() != size) return malformed("its length field differs from its length");
  header.sequence = reader.u32();
  return header;
}

std::string otherVersion(std::uint16_t version) {
  if (version >= kHolderOldestVersion && version <= kHolderVersion) return {};
  return "a message of version " + std::to_string(version) + ", we speak " +
         std::to_string(kHolderOldestVersion) + " to " + std::to_string(kHolderVersion) +
         "; install agent and holder of neighbouring releases";
}

// Fields of a request that say which mount and how.
bool readMountField(HolderFieldSink& in, const HolderFieldValue& field, HolderRequest& request) {
  switch (field.field()) {
    case Field::kTarget:
      return in.plain(field, request.target, kMaxHolderPath);
    case Field::kSource:
      return in.plain(field, request.source, kMaxHolderText);
    case Field::kOption:
      if (request.options.size() == kMaxHolderOptions) in.refuse();
      return in.plain(field, request.options.emplace_back(), kMaxHolderText);
    case Field::kFlags:
      return in.number(field, request.flags);
    case Field::kReadAheadKiB:
      return in.number(field, request.readAheadKiB);
    case Field::kBlob:
      return in.text(field, request.blob, kMaxHolderBlob);
    case Field::kState:
      return in.text(field, request.state, kMaxHolderBlob);
    case Field::kEpoch:
      return in.number(field, request.epoch);
    case Field::kMinor:
      return in.number(field, request.minor);
    default:
      return false;
  }
}

bool readRequestField(HolderFieldSink& in, const HolderFieldValue& field, HolderRequest& request) {
  switch (field.field()) {
    case Field::kOwner:
      return in.text(field, request.owner, kMaxHolderText);
    case Field::kContinues:
      return in.flag(field, request.continues);
    case Field::kForce:
      return in.flag(field, request.force);
    case Field::kName:
      return in.text(field, request.name, kMaxHolderText);
    case Field::kBytes:
      return in.number(field, request.bytes);
    case Field::kGeneration:
      return in.number(field, request.generation);
    case Field::kOffset:
      return in.number(field, request.offset);
    case Field::kFolder:
      return in.flag(field, request.folder);
    case Field::kNoHugePages:
      return in.text(field, request.noHugePages, kMaxHolderText);
    case Field::kBackingId:
      return in.number(field, request.backingId);
    case Field::kPosition:
      return in.number(field, request.position);
    default:
      return readMountField(in, field, request) ||
             (request.hello && readHolderHello(in, field, *request.hello));
  }
}

bool known(HolderRequestKind kind) {
  return kind >= HolderRequestKind::kAttach && kind <= HolderRequestKind::kTouchFile;
}

}  // namespace

std::vector<std::byte> encode(const HolderRequest& request) {
  HolderFieldWriter out = request.hello ? fieldsOf(*request.hello) : HolderFieldWriter();
  out.text(Field::kOwner, request.owner);
  out.number(Field::kContinues, request.continues ? 1 : 0);
  out.text(Field::kTarget, request.target);
  out.text(Field::kSource, request.source);
  for (const std::string& option : request.options) out.text(Field::kOption, option);
  out.number(Field::kFlags, request.flags);
  out.number(Field::kReadAheadKiB, request.readAheadKiB);
  out.text(Field::kBlob, request.blob);
  out.text(Field::kState, request.state);
  out.number(Field::kEpoch, request.epoch);
  out.number(Field::kMinor, request.minor);
  out.number(Field::kForce, request.force ? 1 : 0);
  out.text(Field::kName, request.name);
  out.number(Field::kBytes, request.bytes);
  out.number(Field::kGeneration, request.generation);
  out.number(Field::kOffset, request.offset);
  out.number(Field::kFolder, request.folder ? 1 : 0);
  out.text(Field::kNoHugePages, request.noHugePages);
  out.number(Field::kBackingId, request.backingId);
  out.number(Field::kPosition, request.position);
  return frame(static_cast<std::uint16_t>(request.kind), request.sequence, out);
}

std::vector<std::byte> encode(const HolderReply& reply) {
  HolderFieldWriter out;
  out.number(Field::kCode, static_cast<std::uint16_t>(reply.code));
  out.text(Field::kMessage, std::string_view(reply.message).substr(0, 2 * kMaxHolderPath));
  out.number(Field::kCount, reply.count);
  out.number(Field::kBackingId, reply.backingId);
  out.number(Field::kHugeBytes, reply.hugeBytes);
  if (reply.record) out.nested(Field::kMount, fieldsOf(*reply.record));
  if (reply.memory) out.nested(Field::kMemory, fieldsOf(*reply.memory));
  HolderFieldWriter whole = reply.hello ? fieldsOf(*reply.hello) : HolderFieldWriter();
  whole.append(out);
  return frame(kReplyKind, reply.sequence, whole);
}

Result<HolderRequest> decodeHolderRequest(std::span<const std::byte> message) {
  ByteReader bytes(message);
  const auto header = readHeader(bytes, message.size());
  if (!header) return header.error();
  HolderRequest request;
  request.sequence = header->sequence;
  request.kind = static_cast<HolderRequestKind>(header->kind);
  request.unsupported = otherVersion(header->version);
  if (!request.unsupported.empty()) return request;
  if (!known(request.kind)) {
    request.unsupported = "the holder knows no request of kind " + std::to_string(header->kind);
    return request;
  }
  if (request.kind == HolderRequestKind::kHello) request.hello = kSilentHolderHello;
  HolderFieldSink in(message.subspan(kHolderHeaderBytes));
  in.each([&](const HolderFieldValue& field) { return readRequestField(in, field, request); });
  if (!in.good()) return malformed("a field is cut off, too long or contains a zero byte");
  if (in.required() != 0) {
    request.unsupported = "the holder knows no field " + std::to_string(in.required());
  } else if ((request.flags & ~kKnownFlags) != 0) {
    request.unsupported = "the holder knows no mount flags but writable";
  }
  if (!request.unsupported.empty()) {
    request.unsupported += "; replace it by one of a newer release";
  }
  return request;
}

Result<HolderReply> decodeHolderReply(std::span<const std::byte> message) {
  ByteReader bytes(message);
  const auto header = readHeader(bytes, message.size());
  if (!header) return header.error();
  if (const std::string other = otherVersion(header->version); !other.empty()) {
    return malformed(other);
  }
  if (header->kind != kReplyKind) return malformed("not a reply");
  HolderReply reply;
  reply.sequence = header->sequence;
  std::uint16_t code = 0;
  HolderHello hello = kSilentHolderHello;
  bool greeted = false;
  HolderFieldSink in(message.subspan(kHolderHeaderBytes));
  in.each([&](const HolderFieldValue& field) {
    switch (field.field()) {
      case Field::kCode:
        return in.number(field, code);
      case Field::kMessage:
        return in.text(field, reply.message, kMaxHolderMessage);
      case Field::kCount:
        return in.number(field, reply.count);
      case Field::kBackingId:
        return in.number(field, reply.backingId);
      case Field::kHugeBytes:
        return in.number(field, reply.hugeBytes);
      case Field::kMount:
        reply.record = readHolderRecord(in, field.value);
        return true;
      case Field::kMemory:
        reply.memory = readHolderMemory(in, field.value);
        return true;
      default:
        return readHolderHello(in, field, hello) && (greeted = true);
    }
  });
  if (!in.good()) return malformed("a field is cut off or too long");
  if (in.required() != 0) return malformed("a field that has to be known is not known here");
  reply.code = isErrorCode(code) ? static_cast<ErrorCode>(code) : ErrorCode::kInternal;
  if (greeted) reply.hello = hello;
  return reply;
}

Status allowedMountOption(const std::string& option) {
  constexpr std::string_view kAllowed[] = {"context=", "fscontext=", "defcontext=", "rootcontext="};
  const bool allowed = std::any_of(std::begin(kAllowed), std::end(kAllowed),
                                   [&](std::string_view name) { return option.starts_with(name); });
  if (!allowed) {
    return Error{ErrorCode::kUnsupported,
                 "the holder gives no mount the option '" + option +
                     "'; it knows context, fscontext, defcontext and rootcontext"};
  }
  if (option.find_first_of("\",\n\\") != std::string::npos) {
    return Error{ErrorCode::kInvalidArgument,
                 "the mount option '" + option.substr(0, option.find('=')) +
                     "' contains a quote, comma, backslash or newline"};
  }
  return {};
}

std::string missingFeatures(const HolderFeatures& wanted, const HolderFeatures& there) {
  constexpr const char* kNames[] = {"register", "hand-over", "memory",   "backing",
                                    "options",  "writable",  "socket",   "users",
                                    "touch",    "folders",   "deadlines"};
  std::string names;
  for (std::size_t bit = 0; bit < std::size(kNames); ++bit) {
    if (((wanted[0] & ~there[0]) >> bit & 1) == 0) continue;
    names += (names.empty() ? "" : ", ") + std::string(kNames[bit]);
  }
  return names;
}

}  // namespace hearth
