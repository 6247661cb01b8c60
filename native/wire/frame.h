// The wire protocol: every frame that two agents exchange, and nothing else. docs/wire-protocol.md
// tells the same for people, with the order in which frames may come.
//
// A frame is a header of 32 bytes, a body of bodyLength bytes and, after an answer that carries
// data, a payload of payloadLength raw bytes. All numbers are little-endian. A string is its length
// (u16) and its bytes; a byte string or a list is its length (u32) and its elements.
//
//   offset size header field
//        0    4 magic         "HRTH"
//        4    2 version       kWireVersion of the sender
//        6    2 type          FrameType
//        8    4 flags         0; any other value is refused
//       12    4 bodyLength    at most bodyLimit(type)
//       16    8 requestId     0 for frames that belong to no request
//       24    4 bodyChecksum  CRC32C of the body
//       28    4 checksum      CRC32C of the 28 bytes above
//
// Payloads are covered by the block checksums in the answer's body. Header layout, Preface and
// Refuse are the same in all versions, so that any two agents can tell each other that they do not
// match.
//
// Everything here is pure: any thread. Decoders take bytes from strangers: they check every length
// before use, accept exactly what the encoders produce, and answer kProtocolError otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/content_key.h"
#include "base/generated/constants.h"
#include "base/result.h"
#include "base/sha256.h"

namespace hearth {

inline constexpr std::uint32_t kFrameMagic = 0x48545248;  // "HRTH" in memory
inline constexpr std::uint16_t kWireVersion = 1;
inline constexpr std::size_t kFrameHeaderBytes = 32;
inline constexpr std::size_t kPrefaceFrameBytes = kFrameHeaderBytes + 8;

inline constexpr std::size_t kMaxNameBytes = 255;       // cluster, node, incarnation
inline constexpr std::size_t kMaxSentenceBytes = 1024;  // of errors; encoders cut longer ones
inline constexpr std::size_t kMaxControlBytes = std::size_t{1} << 20;
inline constexpr std::uint32_t kMaxShards = 65536;

enum class FrameType : std::uint16_t {
  kPreface = 1,
  kHello = 2,
  kChallenge = 3,
  kProof = 4,
  kRefuse = 5,
  kCredit = 6,
  kGoodbye = 7,
  kPing = 8,  // no body; answered by a Pong with the same request id
  kPong = 9,
  kReadRequest = 16,
  kReadAnswer = 17,
  kManifestRequest = 18,
  kManifestAnswer = 19,
  kControlRequest = 20,
  kControlAnswer = 21,
  // No body. The asker no longer wants the answer of that request id. The request is answered all
  // the same (with kCancelled where the answer had not begun), because answers are what returns
  // credit.
  kCancel = 22,
};

// "ReadRequest"; "unknown" for a number that is none.
[[nodiscard]] const char* frameName(FrameType type);

// The longest body that a frame of this type may have.
[[nodiscard]] std::size_t bodyLimit(FrameType type);

struct FrameHeader {
  FrameType type = FrameType::kPing;
  std::uint32_t bodyLength = 0;
  std::uint64_t requestId = 0;
  std::uint32_t bodyChecksum = 0;
  bool operator==(const FrameHeader&) const = default;
};

// The first frame of a connection, from the dialler; read by the listener alone.
struct Preface {
  static constexpr FrameType kType = FrameType::kPreface;
  std::uint32_t shard = 0;   // of the dialler, < shards
  std::uint32_t shards = 1;  // 1 to kMaxShards
  bool operator==(const Preface&) const = default;
};

using Nonce = std::array<std::uint8_t, 32>;

// Who the dialler says it is. Names are 1 to kMaxNameBytes bytes without control characters.
struct Hello {
  static constexpr FrameType kType = FrameType::kHello;
  std::string cluster, node, incarnation;
  Nonce nonce{};  // random, for this connection only
  bool operator==(const Hello&) const = default;
};

// The same of the acceptor.
struct Challenge {
  static constexpr FrameType kType = FrameType::kChallenge;
  std::string cluster, node, incarnation;
  Nonce nonce{};
  bool operator==(const Challenge&) const = default;
};

// wire/authentication.h says what is proved. First the dialler's, then the acceptor's.
struct Proof {
  static constexpr FrameType kType = FrameType::kProof;
  Sha256Digest code{};
  bool operator==(const Proof&) const = default;
};

// The last frame of a connection that is not wanted.
struct Refuse {
  static constexpr FrameType kType = FrameType::kRefuse;
  ErrorCode code = ErrorCode::kUnavailable;  // never kOk
  std::string sentence;
  bool operator==(const Refuse&) const = default;
};

// The last frame of a connection that ends orderly.
struct Goodbye {
  static constexpr FrameType kType = FrameType::kGoodbye;
  ErrorCode code = ErrorCode::kUnavailable;  // never kOk
  std::string sentence;
  bool operator==(const Goodbye&) const = default;
};

// From the acceptor after its proof, and again when it allows more; it never lowers a limit. The
// asker's unanswered requests are at most `requests` in number and `bytes` in the sum of their
// costs: the length of a read, the body of a control request. One request may always be out,
// whatever its cost. An asker that has more out is disconnected.
struct Credit {
  static constexpr FrameType kType = FrameType::kCredit;
  std::uint64_t bytes = 0;
  std::uint32_t requests = 0;
  bool operator==(const Credit&) const = default;
};

// A range inside one chunk of a file in the cache, starting on a block.
struct ReadRequest {
  static constexpr FrameType kType = FrameType::kReadRequest;
  ContentKey key;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;      // 1 to kChunkBytes
  std::uint32_t patienceMs = 0;  // how long the asker will wait
  bool operator==(const ReadRequest&) const = default;
};

// A range of a manifest, starting on a block. The answer is shorter than asked only at the
// manifest's end, and empty beyond it.
struct ManifestRequest {
  static constexpr FrameType kType = FrameType::kManifestRequest;
  Sha256Digest digest{};
  std::uint64_t offset = 0;
  std::uint32_t length = 0;  // 1 to kChunkBytes
  bool operator==(const ManifestRequest&) const = default;
};

// What precedes a payload. With kOk: payloadLength raw bytes follow the frame, and `blockChecksums`
// has the CRC32C of every 64 KiB of them. Otherwise: the sentence, and no payload.
template <FrameType type>
struct DataAnswer {
  static constexpr FrameType kType = type;
  ErrorCode code = ErrorCode::kOk;
  std::string sentence;
  std::uint32_t payloadLength = 0;  // at most kChunkBytes
  std::vector<std::uint32_t> blockChecksums;
  bool operator==(const DataAnswer&) const = default;
};
using ReadAnswer = DataAnswer<FrameType::kReadAnswer>;
using ManifestAnswer = DataAnswer<FrameType::kManifestAnswer>;

// Control messages are opaque here: `type` is from the table of the room that owns them. Each room
// numbers its messages inside its range and never uses a number again.
inline constexpr std::uint16_t kDirectoryControlFirst =
    0x0000;  // to 0x00ff: directory/directory_message.h
inline constexpr std::uint16_t kEngineControlFirst = 0x0100;  // to 0x01ff: the engine

struct ControlRequest {
  static constexpr FrameType kType = FrameType::kControlRequest;
  std::uint16_t type = 0;
  std::vector<std::byte> body;  // at most kMaxControlBytes
  bool operator==(const ControlRequest&) const = default;
};

struct ControlAnswer {
  static constexpr FrameType kType = FrameType::kControlAnswer;
  ErrorCode code = ErrorCode::kOk;
  std::string sentence;         // unless kOk
  std::uint16_t type = 0;       // when kOk
  std::vector<std::byte> body;  // when kOk; at most kMaxControlBytes
  bool operator==(const ControlAnswer&) const = default;
};

// How many checksums a payload of `length` bytes has.
[[nodiscard]] constexpr std::size_t blocksOf(std::uint64_t length) {
  return static_cast<std::size_t>((length + kBlockBytes - 1) / kBlockBytes);
}

// A whole frame without its payload. The body's fields must be in the ranges above; sentences are
// cut.
template <class Body>
[[nodiscard]] std::vector<std::byte> encodeFrame(const Body& body, std::uint64_t requestId = 0);
// Ping, Pong and Cancel.
[[nodiscard]] std::vector<std::byte> encodeEmptyFrame(FrameType type, std::uint64_t requestId);

// The header in the first kFrameHeaderBytes of `bytes` (which has them). kProtocolError when it is
// not one; kUnsupported, naming both versions, when a frame other than Refuse is of another
// version.
[[nodiscard]] Result<FrameHeader> decodeHeader(std::span<const std::byte> bytes);
// kCorrupt unless `body` is what the header's checksum covers.
[[nodiscard]] Status checkBody(const FrameHeader& header, std::span<const std::byte> body);
// `body` is exactly the body. kProtocolError names the field that is wrong.
template <class Body>
[[nodiscard]] Result<Body> decodeBody(std::span<const std::byte> body);

}  // namespace hearth
