// The wire protocol: every frame that two agents exchange, and nothing else. docs/wire-protocol.md
// says the same for people, with the order in which frames may come.
//
// A frame is a header of 32 bytes, a body of bodyLength bytes and, after an answer or a part of a
// write that carries data, a payload of payloadLength raw bytes. All numbers are little-endian. A
// string is its length (u16) and its bytes; a byte string or a list is its length (u32) and its
// elements.
//
//   offset size header field
//        0    4 magic         "HRTH"
//        4    2 version       the version that gave this frame its layout
//        6    2 type          FrameType
//        8    4 flags         kSkippable; others of the low 16 bits are ignored, of the high 16
//                             refused
//       12    4 bodyLength    at most bodyLimit(type)
//       16    8 requestId     0 for frames that belong to no request
//       24    4 bodyChecksum  CRC32C of the body
//       28    4 checksum      CRC32C of the 28 bytes above
//
// A body is a fixed part, which never changes within a version, and optional fields
// (base/optional_fields.h), which later releases add; the Preface has none. Payloads are covered by
// the block checksums in the body of their frame.
//
// Versions. Hello and Challenge list the versions and features of a side; both sides then use the
// newest version and the features that both have. A frame keeps its number as long as its fixed
// part stays the same, so every release since version 2 understands header, Preface, Hello,
// Challenge and Refuse, and releases of one version after the other can report missing versions and
// features to each other.
//
// Everything here is pure: any thread. Decoders take bytes from unauthenticated peers: they check
// every length before use, and answer kProtocolError to what no encoder makes, kUnsupported to what
// only a later release can understand.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/content_key.h"
#include "base/generated/constants.h"
#include "base/result.h"
#include "base/sha256.h"
#include "wire/memory_descriptor.h"

namespace hearth {

inline constexpr std::uint32_t kFrameMagic = 0x48545248;  // "HRTH" in memory
// The newest version that this release speaks, and the oldest.
inline constexpr std::uint16_t kWireVersion = 2;
inline constexpr std::uint16_t kOldestWireVersion = 2;
// Header flag: who does not know the frame's type passes over its body.
inline constexpr std::uint32_t kSkippable = 1;
inline constexpr std::size_t kFrameHeaderBytes = 32;
inline constexpr std::size_t kPrefaceFrameBytes = kFrameHeaderBytes + 8;

inline constexpr std::size_t kMaxNameBytes = 255;       // cluster, node, incarnation
inline constexpr std::size_t kMaxSentenceBytes = 1024;  // of errors; encoders cut longer ones
inline constexpr std::size_t kMaxControlBytes = std::size_t{1} << 20;
inline constexpr std::uint32_t kMaxShards = 65536;
inline constexpr std::size_t kMaxProofBytes = 16384;
// The optional fields of a frame, and the body of a frame that is passed over.
inline constexpr std::size_t kMaxFieldBytes = 4096;
inline constexpr std::size_t kMaxSkippedBytes = 65536;

// Capabilities of a side beyond its version: bits of a word in Hello and Challenge. A frame or
// field that needs one is sent only where both sides have it. Never reused.
enum class WireFeature : std::uint64_t {
  // The answer to a read may come in several parts, each with its own payload.
  kPartialAnswers = 1u << 0,
  // The acceptor may write an answer into memory that the request describes.
  kRemoteMemory = 1u << 1,
  // The dialler may write: WriteRequest, WriteReady, WriteData, WriteAnswer, and the credit for it.
  kWrites = 1u << 2,
  // The acceptor answers control messages about volumes (kVolumeControlFirst).
  kVolumes = 1u << 3,
};
[[nodiscard]] constexpr bool has(std::uint64_t features, WireFeature feature) {
  return (features & static_cast<std::uint64_t>(feature)) != 0;
}
// Of this release. kWrites and kVolumes are offered beside them by who has a handler for them: what
// is not offered is refused before it costs anything.
inline constexpr std::uint64_t kWireFeatures =
    static_cast<std::uint64_t>(WireFeature::kPartialAnswers);
inline constexpr std::uint64_t kWireFeaturesWithWrites =
    kWireFeatures | static_cast<std::uint64_t>(WireFeature::kWrites);
// The versions and features of one side of a connection.
struct WireOffer {
  std::uint16_t oldestVersion = kOldestWireVersion, newestVersion = kWireVersion;
  std::uint64_t features = kWireFeatures;
  bool operator==(const WireOffer&) const = default;
};
// "partial-answers, remote-memory"; "" for none. Bits without a name are left out.
[[nodiscard]] std::string namesOfFeatures(std::uint64_t features);

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
  // All four with WireFeature::kWrites only. A write goes request -> ready -> data ... -> answer;
  // an answer may come instead of any of these, and ends it.
  kWriteRequest = 23,
  kWriteReady = 24,  // no body; the acceptor has memory for all of the write of that request id
  kWriteData = 25,
  kWriteAnswer = 26,
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
  bool unknown = false;  // its type is not of this release, and it may be passed over
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

// How a side shows who it is. Never reused.
enum class ProofKind : std::uint8_t {
  kClusterSecret = 1,  // wire/authentication.h
  kCertificate = 2,    // of a node, signed by the cluster's authority
  kCapability = 3,     // of a client: a token for datasets, rights and a time (wire/capability.h)
};
[[nodiscard]] constexpr std::uint32_t bitOf(ProofKind kind) {
  return 1u << static_cast<unsigned>(kind);
}
// Proofs that agents of this release give each other; they take a client's capability beside it.
inline constexpr std::uint32_t kProofKinds = bitOf(ProofKind::kClusterSecret);

// The dialler's name and capabilities. Names are 1 to kMaxNameBytes bytes without control
// characters.
struct Hello {
  static constexpr FrameType kType = FrameType::kHello;
  std::string cluster, node, incarnation;
  Nonce nonce{};  // random, for this connection only
  std::uint16_t oldestVersion = kOldestWireVersion, newestVersion = kWireVersion;
  std::uint64_t features = kWireFeatures;
  std::uint32_t proofKinds = kProofKinds;  // bitOf each kind that it can give
  bool operator==(const Hello&) const = default;
};

// The same of the acceptor; what it has chosen of what the Hello offers.
struct Challenge {
  static constexpr FrameType kType = FrameType::kChallenge;
  std::string cluster, node, incarnation;
  Nonce nonce{};
  std::uint16_t version = kWireVersion;
  std::uint64_t features = kWireFeatures;
  ProofKind proofKind = ProofKind::kClusterSecret;
  bool operator==(const Challenge&) const = default;
};

// First the dialler's, then the acceptor's, of the kind that the Challenge names.
struct Proof {
  static constexpr FrameType kType = FrameType::kProof;
  ProofKind kind = ProofKind::kClusterSecret;
  std::vector<std::byte> bytes;  // at most kMaxProofBytes
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
// whatever its cost. An asker that has more out is disconnected. The same holds for writes by
// themselves, with the limits of `writes`: neither waits for the other's credit.
struct WriteCredit {
  std::uint64_t bytes = 0;  // the lengths of the writes
  std::uint32_t requests = 0;
  bool operator==(const WriteCredit&) const = default;
};
struct Credit {
  static constexpr FrameType kType = FrameType::kCredit;
  std::uint64_t bytes = 0;
  std::uint32_t requests = 0;
  std::optional<WriteCredit> writes;  // only with WireFeature::kWrites
  bool operator==(const Credit&) const = default;
};

// The purpose of a read. An unknown one counts as kWarm.
enum class RequestClass : std::uint8_t {
  kDemand = 0,  // a reader waits for it
  kWarm = 1,    // it will be wanted
  kRepair = 2,  // in place of bytes that are bad or were lost
};

// A range inside one chunk of a file in the cache, starting on a block.
struct ReadRequest {
  static constexpr FrameType kType = FrameType::kReadRequest;
  ContentKey key;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;     // 1 to kChunkBytes
  std::uint32_t timeoutMs = 0;  // how long the asker will wait
  RequestClass requestClass = RequestClass::kDemand;
  // Where the acceptor may write the bytes, with WireFeature::kRemoteMemory. One that cannot, or
  // does not know this field, answers with a payload.
  std::optional<MemoryDescriptor> target;
  bool operator==(const ReadRequest&) const = default;
};

// Announces a write of a range inside one chunk, starting on a block. The bytes follow when the
// acceptor is ready for them.
struct WriteRequest {
  static constexpr FrameType kType = FrameType::kWriteRequest;
  ContentKey key;
  std::uint64_t offset = 0;
  std::uint32_t length = 0;     // 1 to kChunkBytes
  std::uint32_t timeoutMs = 0;  // how long the asker will wait
  RequestClass requestClass = RequestClass::kDemand;
  // Which of two writes of the same range is newer (transport/write_order.h).
  std::uint64_t generation = 0;
  // Memory of the acceptor that it has described to the asker; none: it knows where the range is.
  std::optional<MemoryDescriptor> target;
  bool operator==(const WriteRequest&) const = default;
};

// The next part of a write, in order: payloadLength raw bytes follow the frame. Parts begin on a
// block and end on one, or at the end of the range.
struct WriteData {
  static constexpr FrameType kType = FrameType::kWriteData;
  std::uint32_t offset = 0;                   // in the range
  std::uint32_t payloadLength = 0;            // 1 to kChunkBytes
  std::vector<std::uint32_t> blockChecksums;  // CRC32C of every 64 KiB of the payload
  bool operator==(const WriteData&) const = default;
};

// How a write ended. With kOk all of its bytes have come, are what their checksums say, and were
// taken. After any answer the acceptor writes nothing of it any more.
struct WriteAnswer {
  static constexpr FrameType kType = FrameType::kWriteAnswer;
  ErrorCode code = ErrorCode::kOk;
  std::string sentence;  // unless kOk
  bool operator==(const WriteAnswer&) const = default;
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

// One of several answers to a request, with WireFeature::kPartialAnswers. Parts come in any order
// and do not overlap; together they are all that was asked for. Credit returns with the last one.
struct AnswerPart {
  std::uint32_t offset = 0;  // of its payload in the range asked for; the start of a block
  bool last = false;         // no other follows
  bool operator==(const AnswerPart&) const = default;
};

// The head of a payload. With kOk: payloadLength raw bytes follow the frame, and `blockChecksums`
// has the CRC32C of every 64 KiB of them. Otherwise: the sentence, and no payload; an error ends
// the request, also after good parts. An unknown code counts as kInternal.
template <FrameType type>
struct DataAnswer {
  static constexpr FrameType kType = type;
  ErrorCode code = ErrorCode::kOk;
  std::string sentence;
  std::uint32_t payloadLength = 0;  // at most kChunkBytes
  std::vector<std::uint32_t> blockChecksums;
  std::optional<AnswerPart> part;  // none: the whole answer; reads only
  bool operator==(const DataAnswer&) const = default;
};
using ReadAnswer = DataAnswer<FrameType::kReadAnswer>;
using ManifestAnswer = DataAnswer<FrameType::kManifestAnswer>;

// Control messages are opaque here: `type` is from the table of the room that owns them. Each room
// numbers its messages inside its range and never uses a number again.
inline constexpr std::uint16_t kDirectoryControlFirst =
    0x0000;  // to 0x00ff: directory/directory_message.h
inline constexpr std::uint16_t kEngineControlFirst = 0x0100;  // to 0x01ff: the engine
inline constexpr std::uint16_t kTransportControlFirst =
    0x0200;  // to 0x02ff: transport/rdma_shard.h
inline constexpr std::uint16_t kVolumeControlFirst = 0x0300;
inline constexpr std::uint16_t kVolumeControlLast = 0x03ff;  // volume/volume_control.h

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
// Ping, Pong, Cancel and WriteReady.
[[nodiscard]] std::vector<std::byte> encodeEmptyFrame(FrameType type, std::uint64_t requestId);

// The header in the first kFrameHeaderBytes of `bytes` (which has them). kProtocolError when it is
// not one; kUnsupported, naming the versions, when a frame other than Refuse is of a version that
// this release does not speak.
[[nodiscard]] Result<FrameHeader> decodeHeader(std::span<const std::byte> bytes);
// kCorrupt unless `body` is what the header's checksum covers.
[[nodiscard]] Status checkBody(const FrameHeader& header, std::span<const std::byte> body);
// `body` is exactly the body. kProtocolError names the field that is wrong; kUnsupported: it has a
// field of a later release that must be understood.
template <class Body>
[[nodiscard]] Result<Body> decodeBody(std::span<const std::byte> body);

}  // namespace hearth
