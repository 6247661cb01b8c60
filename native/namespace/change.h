// The changes that a volume's leader executes. Clients ask for those of ClientChange under a change
// id; the leader itself decides on those of LeaderChange.
//
// Names are single names, not paths. Permissions, the sticky bit and what else a process may do are
// the kernel's (mounts have default_permissions): nothing here asks for credentials, and `uid` and
// `gid` only say who owns what is made. Errors are those of Linux, in the order of its VFS.
// Plain values: any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "namespace/ids.h"
#include "namespace/values.h"

namespace hearth::tree {

struct Place {
  InodeId folder = kNoInode;
  std::string name;
};

// Makes a file, FIFO or socket. Of a file that is there already, without `exclusive`, it is an
// OpenForWriting with `writes` false if `opens`, and changes nothing otherwise.
struct Create {
  Place place;
  Kind kind = Kind::kFile;
  std::uint16_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  bool exclusive = false;
  bool opens = false;  // for writing: grants a session
};

struct MakeFolder {
  Place place;
  std::uint16_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

struct MakeSymlink {
  Place place;
  std::string target;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

struct Unlink {
  Place place;
};

struct RemoveFolder {
  Place place;
};

// The content becomes `content`, if it is still `base` and `session` is the file's (R2). Errors:
// EIO with kSessionOver or kOtherVersion, EINVAL with kBadContent, ENOSPC. Of a file without names
// it is done and stores nothing.
struct Publish {
  InodeId inode = kNoInode;
  SessionId session = kNoSession;
  ContentVersion base;
  Content content;  // its version: of this session, with a higher counter than before
  std::int64_t modifiedNs = 0;
  std::uint32_t usedChunks = 0;  // the session has put chunks with lower counters only
  bool ends = false;             // the session file is sealed: the session ends
};

// `publish`: of the file itself, in the same record (R4). A file with a session and no content yet
// gets a name only so; otherwise EBUSY with kUnpublished.
struct Link {
  InodeId inode = kNoInode;
  Place place;
  std::optional<Publish> publish;
};

enum class RenameMode : std::uint8_t { kReplace, kNoReplace, kExchange };

// `publish`: of the file that `from` names, as for Link.
struct Rename {
  Place from;
  Place to;
  RenameMode mode = RenameMode::kReplace;
  std::optional<Publish> publish;
};

// A size is the namespace's where no bytes are needed: 0 of a file without a session, or the size
// that it has. All else is a change in a session (EINVAL with kNeedsSession).
struct SetAttributes {
  InodeId inode = kNoInode;
  std::optional<std::uint16_t> mode;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::optional<std::int64_t> accessedNs;
  std::optional<std::int64_t> modifiedNs;
  std::optional<std::uint64_t> size;
};

enum class XattrMode : std::uint8_t { kSet, kCreate, kReplace };

struct SetXattr {
  InodeId inode = kNoInode;
  std::string name;
  std::string value;
  XattrMode mode = XattrMode::kSet;
};

struct RemoveXattr {
  InodeId inode = kNoInode;
  std::string name;
};

// The client has a session file of an earlier session, computed from `base`. EIO with
// kOtherVersion: the content comes from elsewhere.
struct Adoption {
  SessionId session = kNoSession;
  ContentVersion base;
};

// Asks for the file's session (R1). The client that has it gets the same one again; a later
// incarnation of its agent gets a new one, which ends the old. EBUSY with kHeld: another agent has
// it.
struct OpenForWriting {
  InodeId inode = kNoInode;
  // The name by which it was opened; ESTALE when that means another inode now (R9).
  std::optional<Place> place;
  // A first write or truncate asks. An open that does not write yet takes no session of an empty
  // file that another agent has.
  bool writes = true;
  // The leader says: this session may be taken, for the lease of its holder has lapsed.
  SessionId lapsed = kNoSession;
  std::optional<Adoption> adopts;
};

// The session ends and publishes nothing: the file was not changed since it was published.
struct EndSession {
  InodeId inode = kNoInode;
  SessionId session = kNoSession;
  std::uint32_t usedChunks = 0;  // as for Publish
};

using ClientChange =
    std::variant<Create, MakeFolder, MakeSymlink, Unlink, RemoveFolder, Link, Rename, SetAttributes,
                 SetXattr, RemoveXattr, OpenForWriting, Publish, EndSession>;

// This start of the node's agent may ask for changes. Answer::holder is its id. Nothing changes
// when it has joined already.
struct Join {
  std::string node;
  WideId incarnation{};
};

// It asks for nothing any more, and has all answers that it wants. It must not join again: its
// numbers are forgotten.
struct Retire {
  ClientId client;
};

// No agent has this orphan open: it goes, and its chunks are garbage. EINVAL: it has a name.
struct Forget {
  InodeId inode = kNoInode;
};

// The volume is full, and this file goes: it loses its name, and its bytes go as those of a file
// that was unlinked. EBUSY: it has a session or other names; EINVAL: not a file with a content.
struct Evict {
  InodeId inode = kNoInode;
};

// The chunks of these are gone everywhere. At most kMaxCollected.
inline constexpr std::size_t kMaxCollected = 4096;
struct Collected {
  std::vector<GarbageId> ids;
};

struct SetLimits {
  std::uint64_t maxBytes = 0;
  std::uint64_t maxInodes = 0;
};

using LeaderChange = std::variant<Join, Retire, Forget, Evict, Collected, SetLimits>;

struct Request {
  ChangeId id;
  std::uint64_t epoch = 0;      // of the leader that it is for
  std::uint64_t doneBelow = 0;  // the client has the answers of all lower numbers
  std::int64_t nowNs = 0;       // the leader's clock, not the client's
  ClientChange change;
};

}  // namespace hearth::tree
