// All that a volume's tree keeps: keys and their values. A log record puts and deletes keys, a
// checkpoint is the sorted list of all of them. The kinds' numbers and the order of fields are the
// format of both (value_codec.h); docs/design/namespace.md explains it.
// Plain values: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "namespace/ids.h"

namespace hearth::tree {

inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxTargetBytes = 4095;  // PATH_MAX without its NUL
// Runs that a content lists itself. A longer list is a chunk of its own (Content::listed): with
// this bound no record is longer than kMaxRecordBytes.
inline constexpr std::size_t kMaxRuns = 2048;
// Extended attributes of one inode, names and kXattrOverhead for each included.
inline constexpr std::size_t kMaxXattrBytes = 32 * 1024;
inline constexpr std::size_t kXattrOverhead = 32;
// Changes of one client whose results it may still ask for.
inline constexpr std::uint64_t kMaxKeptResults = 1024;

enum class Kind : std::uint8_t { kFile = 1, kFolder = 2, kSymlink = 3, kFifo = 4, kSocket = 5 };

// The volume, and the leader that wrote last.
struct Volume {
  WideId store{};  // changes when the store is restored
  WideId volume{};
  std::uint64_t epoch = 0;
  std::uint64_t maxBytes = 0;   // of published contents; 0: no limit
  std::uint64_t maxInodes = 0;  // 0: no limit
  bool operator==(const Volume&) const = default;
};

struct Agent {
  std::string node;
  WideId current{};  // the incarnation that joined last
  bool operator==(const Agent&) const = default;
};

struct Client {
  std::uint64_t bound = 0;  // it has the answers of all changes with lower numbers
  bool operator==(const Client&) const = default;
};

// Causes of errors that an errno does not tell apart. Part of kept results: numbers stay.
enum class Refusal : std::uint8_t {
  kNone = 0,
  // Answered without a record, for the change was not executed:
  kNotLeading = 1,     // the request is for another epoch
  kUnknownClient = 2,  // it has to join first
  kForgotten = 3,      // the client has had this answer
  kTooFar = 4,         // more than kMaxKeptResults changes without answers
  kLogFails = 5,       // the leader cannot write its log
  kSuperseded = 6,     // a later start of the agent has joined
  // Answered with a record:
  kHeld = 16,          // another client has the file's session: Answer::holder
  kUnpublished = 17,   // R4: the file has a session and no content yet
  kSessionOver = 18,   // R2: this is not the file's session
  kOtherVersion = 19,  // R2: the content is not the one that the publish was computed from
  kBadContent = 20,    // the publish names chunks that are not its own, or contradicts itself
  kNeedsSession = 21,  // the size of a file changes in its session
};

struct Answer {
  std::int32_t error = 0;  // an errno with the numbers of Linux (asm-generic); 0: done
  Refusal refusal = Refusal::kNone;
  bool created = false;            // Create: the inode is new
  InodeId inode = kNoInode;        // made, opened, moved or found in the way (EEXIST)
  InodeId removed = kNoInode;      // lost a name by this change
  SessionId session = kNoSession;  // granted, or had already
  ContentVersion content;          // of `inode`, after the change
  ClientId holder;                 // kHeld and kUnpublished: who has the session
  bool operator==(const Answer&) const = default;
};

struct KeptResult {
  std::uint64_t record = 0;  // the number of the record that executed the change
  Answer answer;
  bool operator==(const KeptResult&) const = default;
};

// Times are nanoseconds since the epoch of Unix.
struct Inode {
  Kind kind = Kind::kFile;
  std::uint16_t mode = 0;  // 12 bits
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t links = 0;  // 0: an orphan
  std::int64_t accessedNs = 0;
  std::int64_t modifiedNs = 0;
  std::int64_t changedNs = 0;
  std::uint64_t version = 0;  // the number of the last record that put it
  bool operator==(const Inode&) const = default;
};

// A file as it was published last. Chunk i of the file is the i-th of its runs.
struct Content {
  ContentVersion version;
  std::uint64_t length = 0;
  // `runs` are the chunks in which the list of the file's runs is, not the file's own.
  bool listed = false;
  std::vector<ChunkRun> runs;
  bool operator==(const Content&) const = default;
};

struct Target {
  std::string path;
  bool operator==(const Target&) const = default;
};

struct Entry {
  InodeId inode = kNoInode;
  std::string name;
  bool operator==(const Entry&) const = default;
};

struct Xattr {
  std::string value;
  bool operator==(const Xattr&) const = default;
};

struct Session {
  SessionId id = kNoSession;
  ClientId holder;
  bool operator==(const Session&) const = default;
};

// Chunks that nothing names any more, of sessions that have ended (R11).
struct Garbage {
  InodeId inode = kNoInode;  // the file that named them
  // `runs` are chunks with a list of runs; that is garbage, too.
  bool listed = false;
  // The tree could not read a list: chunks that the inode's content still names are none.
  bool lessNamed = false;
  std::vector<ChunkRun> runs;
  bool operator==(const Garbage&) const = default;
};

// A count to the end of all that a session may have written.
inline constexpr std::uint32_t kAllChunks = 0xffffffff;

struct GarbageId {
  std::uint64_t record = 0;  // the number of the record that put it
  std::uint32_t index = 0;
  auto operator<=>(const GarbageId&) const = default;
};

// The first byte of a key, and the index of its value's type in Value. An optional kind (bit 7) of
// a later release is passed over, another one refused.
enum class KeyKind : std::uint8_t {
  kVolume = 1,
  kAgent = 2,
  kClient = 3,
  kResult = 4,
  kInode = 5,
  kContent = 6,
  kTarget = 7,
  kEntry = 8,
  kXattr = 9,
  kSession = 10,
  kGarbage = 11,
};
inline constexpr std::uint8_t kOptionalKind = 0x80;

using Value = std::variant<std::monostate, Volume, Agent, Client, KeptResult, Inode, Content,
                           Target, Entry, Xattr, Session, Garbage>;

// The kind decides which fields say something; the others have their defaults.
struct Key {
  KeyKind kind = KeyKind::kVolume;
  InodeId inode = kNoInode;  // kInode to kSession; the folder of an entry
  std::uint64_t number = 0;  // a change's, an entry's cookie, garbage's record
  std::uint32_t index = 0;   // garbage's
  ClientId client;           // kAgent (the agent alone), kClient, kResult
  std::string name;          // kXattr
  bool operator==(const Key&) const = default;

  static Key ofVolume() { return {}; }
  static Key of(AgentId agent) { return {.kind = KeyKind::kAgent, .client = {.agent = agent}}; }
  static Key of(const ClientId& client) { return {.kind = KeyKind::kClient, .client = client}; }
  static Key of(const ChangeId& change) {
    return {.kind = KeyKind::kResult, .number = change.number, .client = change.client};
  }
  // kInode, kContent, kTarget, kSession.
  static Key of(KeyKind kind, InodeId inode) { return {.kind = kind, .inode = inode}; }
  static Key ofEntry(InodeId folder, std::uint64_t cookie) {
    return {.kind = KeyKind::kEntry, .inode = folder, .number = cookie};
  }
  static Key ofXattr(InodeId inode, std::string name) {
    return {.kind = KeyKind::kXattr, .inode = inode, .name = std::move(name)};
  }
  static Key of(const GarbageId& id) {
    return {.kind = KeyKind::kGarbage, .number = id.record, .index = id.index};
  }
};

// A put, or without a value (monostate) a delete. A put's value has the type of its key's kind.
struct KeyChange {
  Key key;
  Value value;
  bool operator==(const KeyChange&) const = default;
  [[nodiscard]] bool deletes() const { return value.index() == 0; }
};

}  // namespace hearth::tree
