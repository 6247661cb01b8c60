// Messages between hearth-holder and its clients, one per datagram of a Unix SOCK_SEQPACKET socket;
// docs/holder-protocol.md says which come when and how versions meet. Little-endian. Header of 16
// bytes, the same in all versions: magic u32, version u16, kind u16, length u32 (of the whole
// message), sequence u32; then fields (holder_fields.h). A client sends a request and reads one
// reply with the same sequence; descriptors come by SCM_RIGHTS. Pure, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace hearth {

inline constexpr std::uint32_t kHolderMagic = 0x44484548;  // "HEHD"
// A side takes messages of these versions; kHello says which, and is sent in the oldest.
inline constexpr std::uint16_t kHolderVersion = 2;
inline constexpr std::uint16_t kHolderOldestVersion = 2;
inline constexpr std::size_t kHolderHeaderBytes = 16;
inline constexpr std::size_t kMaxHolderMessage = 32768;
inline constexpr std::size_t kMaxHolderPath = 4095;
inline constexpr std::size_t kMaxHolderText = 1024;
inline constexpr std::size_t kMaxHolderBlob = 8192;
inline constexpr std::size_t kMaxHolderOptions = 16;
inline constexpr std::size_t kMaxHolderDescriptors = 2;
// A page of 1 GiB, or less: what one kTouchMemory may ask for.
inline constexpr std::uint64_t kMaxHolderTouch = 1ULL << 30;
// Size of the memfd that comes with each mount; the agent alone gives its bytes a meaning (open
// counts).
inline constexpr std::size_t kHolderSharedBytes = 1U << 20;

enum class HolderRequestKind : std::uint16_t {
  // The connection becomes the agent of `owner` until it is closed; raises the epoch of the owner's
  // mounts, unless it `continues`: the same agent, which serves on what it served. kInUse while
  // another connection is that. Answers the number of mounts in `count`.
  kAttach = 1,
  // The owner's first mount whose target sorts after `target`, with two descriptors: /dev/fuse and
  // the memfd. Nothing when there is none. Attached connections only.
  kTake = 2,
  // Mounts; answers as kTake. The same request again answers the mount there is. Attached
  // connections only.
  kMount = 3,
  // Keeps `state` (what FUSE_INIT negotiated) for the owner's next agent. Attached connections
  // only.
  kSaveState = 4,
  // Unmounts; `force` detaches even when files are open. Any connection.
  kUnmount = 5,
  // Like kTake, of any owner, without descriptors. Any connection.
  kList = 6,
  // First on a connection: which versions and features there are on both sides. Changes nothing.
  kHello = 7,
  // Gives a mount to a holder that has not made it: `target`, `source`, `blob`, `state`, `epoch`,
  // `minor` and the two descriptors of kTake. What the holder has already stays as it is. kNotFound
  // when that file system is not mounted there. Attached connections only.
  kRegister = 8,
  // For the holder that is to follow: what is at `position` among all that this one has; nothing
  // behind the last. From the first such request on, and until this connection is closed, the
  // holder answers no other.
  kHandOver = 9,
  // After kHandOver: everything was taken. The holder ends and lets go of all when it has sent its
  // answer, and of nothing when it cannot send it.
  kHandOverDone = 10,
  // Keeps the memory `name` with its descriptor (`bytes` long, `generation`) for the owner's next
  // agent; kConflict unless the generation is above that of the memory of this name which there
  // is. Attached connections only, as the following three.
  kKeepMemory = 11,
  // The memory `name` with its descriptor; kNotFound.
  kTakeMemory = 12,
  // The owner's first memory whose name sorts after `name`, without descriptor.
  kListMemory = 13,
  kDropMemory = 14,
  // Registers the file whose descriptor comes along for passthrough on the mount at `target`;
  // answers `backingId`. Attached connections only.
  kOpenBacking = 15,
  kCloseBacking = 16,
  // After kHandOver: copies of the holder's lock and of its listening socket, as two descriptors.
  kHandOverSocket = 17,
  // Takes the room of [`offset`, `offset` + `bytes`) of the memory `name`, at most kMaxHolderTouch
  // of it, so that the holder is charged for it; answers `hugeBytes`. kUnsupported when it touches
  // none, kOutOfSpace when it has no more. Attached connections only.
  kTouchMemory = 18,
  // The folder `name` of memory, a tmpfs that the holder makes at the first request, and resizes
  // when its size is not `bytes`, rounded up to whole pages; answers its record with the descriptor
  // of its root directory. kConflict when `name` is no folder, kOutOfSpace when it holds more than
  // `bytes`. It is kept as memory is (kTakeMemory, kListMemory, kDropMemory, and kKeepMemory with
  // `folder`). Attached connections only.
  kOpenFolder = 19,
  // Takes the room of [`offset`, `offset` + `bytes`) of a file in the folder `name`, as
  // kTouchMemory does; all of the folder counts as touched. The file's descriptor comes along, open
  // for writing; the range begins on a page, and ends on one or with the file. Attached connections
  // only.
  kTouchFile = 20,
};

// Words of 64 bits; of the first:
inline constexpr std::uint64_t kHolderRegisters = 1U << 0;       // kRegister, `continues`
inline constexpr std::uint64_t kHolderHandsOver = 1U << 1;       // kHandOver, kHandOverDone
inline constexpr std::uint64_t kHolderKeepsMemory = 1U << 2;     // kKeepMemory and what follows it
inline constexpr std::uint64_t kHolderOpensBacking = 1U << 3;    // kOpenBacking, kCloseBacking
inline constexpr std::uint64_t kHolderTakesOptions = 1U << 4;    // `options`
inline constexpr std::uint64_t kHolderMountsWritable = 1U << 5;  // kHolderWritable
inline constexpr std::uint64_t kHolderGivesSocket = 1U << 6;     // kHandOverSocket
inline constexpr std::uint64_t kHolderWatchesUsers = 1U << 7;    // HolderMemory::usersGone
inline constexpr std::uint64_t kHolderTouchesMemory = 1U << 8;   // kTouchMemory
inline constexpr std::uint64_t kHolderKeepsFolders = 1U << 9;    // kOpenFolder, kTouchFile
inline constexpr std::uint64_t kHolderEndsRequests = 1U << 10;   // of unserved mounts (MountWatch)
using HolderFeatures = std::array<std::uint64_t, 2>;
inline constexpr HolderFeatures kHolderFeatures = {0x7ff, 0};

// Flags of a mount.
inline constexpr std::uint64_t kHolderWritable = 1U << 0;

// The introduction of each side.
struct HolderHello {
  std::uint16_t oldestVersion = kHolderOldestVersion;
  std::uint16_t newestVersion = kHolderVersion;
  HolderFeatures features = kHolderFeatures;
  std::string release;           // of the program, for people
  std::uint64_t instance = 0;    // of the process; another one, another number
  std::uint64_t touchBytes = 0;  // of the memory that a holder touches; 0: none
};

struct HolderRequest {
  HolderRequestKind kind = HolderRequestKind::kList;
  std::uint32_t sequence = 0;
  // Set by decoding: why this side cannot do what a newer one asks for. The rest means nothing.
  std::string unsupported;
  std::string owner;                 // kAttach
  bool continues = false;            // kAttach
  std::string target;                // kTake, kList: "after"; else of the mount
  std::string source;                // kMount, kRegister
  std::vector<std::string> options;  // kMount: "name=value"; see allowedMountOption()
  std::uint64_t flags = 0;           // kMount, kRegister
  std::uint32_t readAheadKiB = 0;    // kMount
  std::string blob;                  // kMount, kRegister: opaque, comes back with kTake
  std::string state;                 // kSaveState, kRegister
  std::uint32_t epoch = 0;           // kRegister
  std::uint32_t minor = 0;           // kRegister
  bool force = false;                // kUnmount
  std::string name;                  // of memory
  std::uint64_t bytes = 0;           // of memory, and of it for kTouchMemory, kTouchFile
  std::uint64_t offset = 0;          // kTouchMemory, kTouchFile
  std::uint64_t generation = 0;      // of memory
  bool folder = false;               // kKeepMemory: its descriptor is that of a folder
  std::string noHugePages;           // kKeepMemory: as in HolderMemory
  std::uint32_t backingId = 0;       // kCloseBacking
  std::uint32_t position = 0;        // kHandOver
  std::optional<HolderHello> hello;  // kHello
};

// A mount as the holder knows it.
struct HolderRecord {
  std::string target;
  std::string source;
  std::string owner;
  std::uint32_t epoch = 0;  // 1 for the agent that mounted it, one more for each one after
  std::uint32_t minor = 0;
  bool attached = false;  // the owner has an agent
  bool aborted = false;   // after agentAbsence; unmount and mount again
  std::uint32_t absentSeconds = 0;
  std::string blob;
  std::string state;
  std::uint64_t flags = 0;
};

// Memory that outlives an agent.
struct HolderMemory {
  std::string owner;
  std::string name;
  std::uint64_t bytes = 0;
  std::uint64_t generation = 0;
  std::uint32_t absentSeconds = 0;
  bool attached = false;  // the owner has an agent
  // All processes that were the owner's agent before have ended: none of them uses the memory by
  // its own mapping. False as well where that is not known.
  bool usersGone = false;
  bool touched = false;  // by the holder, which is charged for it
  bool folder = false;   // of files, which kOpenFolder has made
  // Of a folder: why the kernel gives its files no huge pages by itself; empty: it does.
  std::string noHugePages;
};

struct HolderReply {
  std::uint32_t sequence = 0;
  ErrorCode code = ErrorCode::kOk;
  std::string message;  // of an error
  std::uint32_t count = 0;
  std::uint32_t backingId = 0;
  std::uint64_t hugeBytes = 0;  // kTouchMemory: of those touched, in pages of 2 MiB or more
  std::optional<HolderRecord> record;
  std::optional<HolderMemory> memory;
  std::optional<HolderHello> hello;
};

[[nodiscard]] std::vector<std::byte> encode(const HolderRequest& request);
[[nodiscard]] std::vector<std::byte> encode(const HolderReply& reply);
// kProtocolError for what no version makes. What a newer side makes is decoded: unknown fields are
// skipped; HolderRequest::unsupported names an unknown kind, version, flag or required field.
[[nodiscard]] Result<HolderRequest> decodeHolderRequest(std::span<const std::byte> message);
// An error code that is not known here becomes kInternal.
[[nodiscard]] Result<HolderReply> decodeHolderReply(std::span<const std::byte> message);

// Why a mount cannot have this option; nothing when it can. context, fscontext, defcontext and
// rootcontext are allowed (mount(8)).
[[nodiscard]] Status allowedMountOption(const std::string& option);

// The names of what one side has and the other lacks, "register, memory"; empty when nothing is
// missing.
[[nodiscard]] std::string missingFeatures(const HolderFeatures& wanted,
                                          const HolderFeatures& there);

}  // namespace hearth
