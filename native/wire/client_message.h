// Bodies of the control messages of clients (libgd2fs) to an agent, which answers for the cluster.
// The frames around them are wire/frame.h's; only connections that have proved a capability carry
// them. Little-endian, lengths checked before use. Pure: any thread.
//
//   attach   "Are you there?"                                  -> empty
//   resolve  "Which bytes are at this path?"                   -> ResolvedPath
//   list     "What is in this folder, after this name?"        -> FolderPage
//   advise   "This file, folder or dataset will (not) be read" -> empty
//   open     "Pass me the file at this path"               -> ResolvedPath, and a descriptor
//   create   "There shall be a file at this path"              -> empty
//   write    "I am going to write this range of this file"     -> the range's ticket
//   commit   "Answer when the range of this ticket is written" -> empty
//   abandon  "The rest of the range of this ticket never comes" -> empty
//   remove   "Remove the file at this path"                    -> empty
//
// Those about objects of volumes (put, get, exist, delete) are wire/object_message.h's.
//
// Open is for clients of the same node (transport/local_server.h) alone. The last five are about
// files of volumes. A client sends the bytes of a range by writes (WriteRequest in wire/frame.h) to
// its ticket in place of a content key: offset 0 is the first byte of the range. It asks for the
// commit before it sends the bytes, so that the agent drops the range when the connection ends.
//
// An agent passes advice of a client on to others by the same message, with kNode.
//
// Paths are /dataset/NAME/path/in/the/dataset or /volume/NAME/path/in/the/volume, UTF-8, at most
// kMaxClientPathBytes. A client reads the content key that resolve gave it, block-aligned at its
// start and inside one chunk, over the same agent; an agent that has not resolved the key for a
// client of that dataset answers kTryElsewhere, and the client resolves the path again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/content_key.h"
#include "base/result.h"

namespace hearth {

// Values of ControlMessage::type. Part of the protocol: never reused.
enum class ClientMessage : std::uint16_t {
  kAttach = 256,
  kResolve = 257,
  kList = 258,
  kAdvise = 259,
  kOpen = 260,
  kCreate = 261,
  kWrite = 262,
  kCommit = 263,
  kAbandon = 264,
  kRemove = 265,
  // wire/object_message.h
  kPut = 266,
  kGet = 267,
  kExist = 268,
  kDelete = 269,
};

inline constexpr std::size_t kMaxClientPathBytes = 4096;

// Beginnings of paths.
inline constexpr std::string_view kDatasetRoot = "/dataset";
inline constexpr std::string_view kVolumeRoot = "/volume";
// The path is `root`, or lies below it.
[[nodiscard]] bool liesIn(std::string_view root, std::string_view path);

enum class ResolvedKind : std::uint8_t { kFile = 0, kFolder = 1, kSymlink = 2 };

struct ResolvedPath {
  ResolvedKind kind = ResolvedKind::kFile;
  bool executable = false;
  std::uint64_t size = 0;  // bytes of a file, entries of a folder
  std::int64_t modifiedNs = 0;
  ContentKey key;  // of a file
  // The agent's, that has the file: a connection to it is answered with the fewest hops.
  std::optional<std::uint32_t> shard = std::nullopt;
  bool operator==(const ResolvedPath&) const = default;
};

enum class ClientAdvice : std::uint8_t { kWillNeed = 0, kDontNeed = 1 };
// Of the agent that answers, or of all.
enum class AdviceScope : std::uint8_t { kNode = 0, kCluster = 1 };

struct FolderPage {
  struct Entry {
    std::string name;
    ResolvedKind kind = ResolvedKind::kFile;
    std::uint64_t size = 0;
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> entries;  // in the order of their names' bytes
  bool last = true;            // nothing comes behind them
  bool operator==(const FolderPage&) const = default;
};

// kInvalidArgument unless it is absolute, UTF-8 without NUL, and not longer than may be.
[[nodiscard]] Status checkClientPath(std::string_view path);

struct ListRequest {
  std::string path;
  std::string after;  // a name; "": from the first
  bool operator==(const ListRequest&) const = default;
};
struct AdviseRequest {
  std::string path;
  ClientAdvice advice = ClientAdvice::kWillNeed;
  AdviceScope scope = AdviceScope::kNode;
  bool operator==(const AdviseRequest&) const = default;
};

// A range of a file, in bytes, of at least one byte.
struct WriteRange {
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool operator==(const WriteRange&) const = default;
};

// Decoders answer kProtocolError to what no encoder makes.
[[nodiscard]] std::vector<std::byte> encodePath(std::string_view path);
[[nodiscard]] Result<std::string> decodePath(std::span<const std::byte> body);
[[nodiscard]] std::vector<std::byte> encode(const ListRequest& request);
[[nodiscard]] Result<ListRequest> decodeListRequest(std::span<const std::byte> body);
[[nodiscard]] std::vector<std::byte> encode(const AdviseRequest& request);
[[nodiscard]] Result<AdviseRequest> decodeAdviseRequest(std::span<const std::byte> body);
[[nodiscard]] std::vector<std::byte> encode(const WriteRange& range);
[[nodiscard]] Result<WriteRange> decodeWriteRange(std::span<const std::byte> body);
[[nodiscard]] std::vector<std::byte> encode(const ContentKey& ticket);
[[nodiscard]] Result<ContentKey> decodeTicket(std::span<const std::byte> body);
[[nodiscard]] std::vector<std::byte> encode(const ResolvedPath& resolved);
[[nodiscard]] Result<ResolvedPath> decodeResolvedPath(std::span<const std::byte> body);
[[nodiscard]] std::vector<std::byte> encode(const FolderPage& page);
[[nodiscard]] Result<FolderPage> decodeFolderPage(std::span<const std::byte> body);

}  // namespace hearth
