// Bodies of the control messages by which clients store and find objects of a volume: whole values
// under keys, such as the blocks of a KV cache. The frames around them and the rules of their types
// are wire/client_message.h's. Little-endian, lengths checked before use. Pure: any thread.
//
//   put     "Store this value, or take its bytes"   -> PutReply
//   get     "Which bytes are the value of this key" -> GetReply
//   exist   "Which of these keys have a value"      -> a byte for each key: 1 or 0
//   delete  "Remove the values of these keys"       -> a byte for each key: 1 it had one, or 0
//
// A client names keys by their SHA-256, so that each has the same length, and a key space by the
// SHA-256 of what the caller derives it from. A value of at most kMaxInlineBytes travels in the
// message. The bytes of a larger one follow as those of a range do (write and commit in
// wire/client_message.h), to the ticket of the reply; the client reads a larger one by the content
// key of the reply, from the same agent.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/content_key.h"
#include "base/result.h"
#include "base/sha256.h"

namespace hearth {

inline constexpr std::size_t kMaxInlineBytes = 16u << 10;
// In one message.
inline constexpr std::size_t kMaxKeys = 2048;
// The folder of a volume that has its objects: a folder for each key space, with a file for each
// key that has a value.
inline constexpr std::string_view kObjectFolder = ".kv";

struct KeySpace {
  std::string volume;  // its name
  Sha256Digest digest{};
  bool operator==(const KeySpace&) const = default;
};
struct ObjectName {
  KeySpace space;
  Sha256Digest key{};
  bool operator==(const ObjectName&) const = default;
};

// The path of the file that is the value.
[[nodiscard]] std::string objectPath(const ObjectName& name);

// A value inside a message, with its CRC32C.
struct InlineValue {
  std::vector<std::byte> bytes;  // 1 to kMaxInlineBytes
  std::uint32_t checksum = 0;
  bool operator==(const InlineValue&) const = default;
};

struct PutRequest {
  ObjectName name;
  std::uint64_t length = 0;          // at least 1
  std::optional<InlineValue> value;  // of `length` bytes
  bool operator==(const PutRequest&) const = default;
};
struct PutReply {
  std::optional<ContentKey> ticket;  // none: the key has a value
  bool operator==(const PutReply&) const = default;
};

struct GetRequest {
  ObjectName name;
  std::uint32_t inlineBytes = 0;  // the agent puts a value that is no larger into its reply
  bool operator==(const GetRequest&) const = default;
};
struct GetReply {
  std::uint64_t size = 0;  // at least 1
  ContentKey key;
  std::optional<InlineValue> value;  // of `size` bytes
  bool operator==(const GetReply&) const = default;
};

struct KeysRequest {
  KeySpace space;
  std::vector<Sha256Digest> keys;  // 1 to kMaxKeys
  bool operator==(const KeysRequest&) const = default;
};
struct KeysReply {
  std::vector<bool> keys;  // one for each key
  bool operator==(const KeysReply&) const = default;
};

// Decoders answer kProtocolError to what no encoder makes.
[[nodiscard]] std::vector<std::byte> encode(const PutRequest& request);
[[nodiscard]] Result<PutRequest> decodePutRequest(std::span<const std::byte> body);
[[nodiscard]] std::vector<std::byte> encode(const PutReply& reply);
[[nodiscard]] Result<PutReply> decodePutReply(std::span<const std::byte> body);
[[nodiscard]] std::vector<std::byte> encode(const GetRequest& request);
[[nodiscard]] Result<GetRequest> decodeGetRequest(std::span<const std::byte> body);
[[nodiscard]] std::vector<std::byte> encode(const GetReply& reply);
[[nodiscard]] Result<GetReply> decodeGetReply(std::span<const std::byte> body);
[[nodiscard]] std::vector<std::byte> encode(const KeysRequest& request);
[[nodiscard]] Result<KeysRequest> decodeKeysRequest(std::span<const std::byte> body);
[[nodiscard]] std::vector<std::byte> encode(const KeysReply& reply);
[[nodiscard]] Result<KeysReply> decodeKeysReply(std::span<const std::byte> body);

}  // namespace hearth
