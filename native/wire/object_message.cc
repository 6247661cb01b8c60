#include "wire/object_message.h"

#include <algorithm>
#include <limits>

#include "base/byte_codec.h"
#include "base/optional_fields.h"
#include "wire/client_message.h"

namespace hearth {
namespace {

constexpr std::uint64_t kMaxLength = std::numeric_limits<std::int64_t>::max();

Error unsound() { return {ErrorCode::kProtocolError, "an object message of the wrong shape"}; }

// Optional fields of later releases may follow; those that must be understood are refused.
Status finish(ByteReader& in, bool sound) {
  if (!in.ok() || !sound) return unsound();
  OptionalFields fields(in);
  while (const auto field = fields.next()) {
    if (field->mustUnderstand())
      return Error{ErrorCode::kUnsupported, "a later release has made an object message"};
  }
  if (fields.malformed()) return unsound();
  return {};
}

// The body that `get` reads; `get` answers false to values that no encoder writes.
template <class Body, class Get>
Result<Body> decode(std::span<const std::byte> bytes, Get get) {
  ByteReader in(bytes);
  Body body;
  const bool sound = get(in, body);
  const Status finished = finish(in, sound);
  if (!finished.ok()) return finished.error();
  return body;
}

void putDigest(ByteWriter& out, const Sha256Digest& digest) {
  out.bytes(std::as_bytes(std::span(digest)));
}

void put(ByteWriter& out, const KeySpace& space) {
  out.text(space.volume);
  putDigest(out, space.digest);
}
void get(ByteReader& in, KeySpace& space) {
  space.volume = in.text();
  space.digest = in.fixed<32>();
}
void put(ByteWriter& out, const ObjectName& name) {
  put(out, name.space);
  putDigest(out, name.key);
}
void get(ByteReader& in, ObjectName& name) {
  get(in, name.space);
  name.key = in.fixed<32>();
}

bool getFlag(ByteReader& in, bool& flag) {
  const std::uint8_t value = in.u8();
  flag = value == 1;
  return value <= 1;
}

// The value's length is that of the whole object, which both sides know.
void put(ByteWriter& out, const std::optional<InlineValue>& value) {
  out.u8(value ? 1 : 0);
  if (!value) return;
  out.u32(value->checksum);
  out.bytes(value->bytes);
}
bool get(ByteReader& in, std::uint64_t length, std::optional<InlineValue>& value) {
  bool there = false;
  if (!getFlag(in, there)) return false;
  if (!there) return true;
  const std::uint32_t checksum = in.u32();
  if (length > kMaxInlineBytes) return false;
  const auto bytes = in.raw(static_cast<std::size_t>(length));
  value = InlineValue{{bytes.begin(), bytes.end()}, checksum};
  return true;
}

}  // namespace

std::string objectPath(const ObjectName& name) {
  std::string path(kVolumeRoot);
  path += '/' + name.space.volume + '/';
  path += kObjectFolder;
  return path + '/' + hexOf(name.space.digest) + '/' + hexOf(name.key);
}

std::vector<std::byte> encode(const PutRequest& request) {
  ByteWriter out;
  put(out, request.name);
  out.u64(request.length);
  put(out, request.value);
  return out.take();
}

Result<PutRequest> decodePutRequest(std::span<const std::byte> body) {
  return decode<PutRequest>(body, [](ByteReader& in, PutRequest& request) {
    get(in, request.name);
    request.length = in.u64();
    return get(in, request.length, request.value) && request.length != 0 &&
           request.length <= kMaxLength;
  });
}

std::vector<std::byte> encode(const PutReply& reply) {
  ByteWriter out;
  out.u8(reply.ticket ? 1 : 0);
  if (reply.ticket) out.bytes(std::as_bytes(std::span(reply.ticket->bytes)));
  return out.take();
}

Result<PutReply> decodePutReply(std::span<const std::byte> body) {
  return decode<PutReply>(body, [](ByteReader& in, PutReply& reply) {
    bool there = false;
    const bool sound = getFlag(in, there);
    if (there) reply.ticket = ContentKey{in.fixed<32>()};
    return sound;
  });
}

std::vector<std::byte> encode(const GetRequest& request) {
  ByteWriter out;
  put(out, request.name);
  out.u32(request.inlineBytes);
  return out.take();
}

Result<GetRequest> decodeGetRequest(std::span<const std::byte> body) {
  return decode<GetRequest>(body, [](ByteReader& in, GetRequest& request) {
    get(in, request.name);
    request.inlineBytes = in.u32();
    return request.inlineBytes <= kMaxInlineBytes;
  });
}

std::vector<std::byte> encode(const GetReply& reply) {
  ByteWriter out;
  out.u64(reply.size);
  out.bytes(std::as_bytes(std::span(reply.key.bytes)));
  put(out, reply.value);
  return out.take();
}

Result<GetReply> decodeGetReply(std::span<const std::byte> body) {
  return decode<GetReply>(body, [](ByteReader& in, GetReply& reply) {
    reply.size = in.u64();
    reply.key.bytes = in.fixed<32>();
    return get(in, reply.size, reply.value) && reply.size != 0 && reply.size <= kMaxLength;
  });
}

std::vector<std::byte> encode(const KeysRequest& request) {
  ByteWriter out;
  put(out, request.space);
  out.u32(static_cast<std::uint32_t>(request.keys.size()));
  for (const Sha256Digest& key : request.keys) putDigest(out, key);
  return out.take();
}

Result<KeysRequest> decodeKeysRequest(std::span<const std::byte> body) {
  return decode<KeysRequest>(body, [](ByteReader& in, KeysRequest& request) {
    get(in, request.space);
    const std::uint32_t count = in.u32();
    if (count == 0 || count > kMaxKeys || count > in.left() / sizeof(Sha256Digest)) return false;
    request.keys.resize(count);
    for (Sha256Digest& key : request.keys) key = in.fixed<32>();
    return true;
  });
}

std::vector<std::byte> encode(const KeysReply& reply) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(reply.keys.size()));
  for (const bool key : reply.keys) out.u8(key ? 1 : 0);
  return out.take();
}

Result<KeysReply> decodeKeysReply(std::span<const std::byte> body) {
  return decode<KeysReply>(body, [](ByteReader& in, KeysReply& reply) {
    const std::uint32_t count = in.u32();
    if (count == 0 || count > kMaxKeys || count > in.left()) return false;
    bool sound = true;
    for (std::uint32_t i = 0; i < count; ++i) {
      bool there = false;
      sound = getFlag(in, there) && sound;
      reply.keys.push_back(there);
    }
    return sound;
  });
}

}  // namespace hearth
