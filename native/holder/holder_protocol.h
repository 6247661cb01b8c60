// Messages between hearth-holder and its clients, one per datagram of a Unix SOCK_SEQPACKET socket.
// Little-endian. Header of 16 bytes: magic u32, version u16, kind u16, length u32 (of the whole
// message), sequence u32; then the fields in the order of the structures below, texts and blobs as
// length u16 + bytes. A client sends a request and reads one reply with the same sequence;
// descriptors come with replies by SCM_RIGHTS. Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace hearth {

inline constexpr std::uint32_t kHolderMagic = 0x44484548;  // "HEHD"
inline constexpr std::uint16_t kHolderVersion = 1;
inline constexpr std::size_t kHolderHeaderBytes = 16;
inline constexpr std::size_t kMaxHolderMessage = 32768;
inline constexpr std::size_t kMaxHolderPath = 4095;
inline constexpr std::size_t kMaxHolderText = 1024;
inline constexpr std::size_t kMaxHolderBlob = 8192;
// Size of the memfd that comes with each mount; the agent alone gives its bytes a meaning (open
// counts).
inline constexpr std::size_t kHolderSharedBytes = 1U << 20;

enum class HolderRequestKind : std::uint16_t {
  // The connection becomes the agent of `owner` until it is closed; raises the epoch of the owner's
  // mounts. kInUse while another connection is that. Answers the number of mounts in `count`.
  kAttach = 1,
  // The owner's first mount whose target sorts after `target`, with two descriptors: /dev/fuse and
  // the
  // memfd. Nothing when there is none. Attached connections only.
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
};

struct HolderRequest {
  HolderRequestKind kind = HolderRequestKind::kList;
  std::uint32_t sequence = 0;
  std::string owner;               // kAttach
  std::string target;              // kTake, kList: "after"; kMount, kSaveState, kUnmount
  std::string source;              // kMount
  std::string selinuxContext;      // kMount
  std::uint32_t readAheadKiB = 0;  // kMount
  std::string blob;                // kMount: opaque, comes back with kTake
  std::string state;               // kSaveState
  bool force = false;              // kUnmount
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
};

struct HolderReply {
  std::uint32_t sequence = 0;
  ErrorCode code = ErrorCode::kOk;
  std::string message;  // of an error
  std::uint32_t count = 0;
  std::optional<HolderRecord> record;
};

[[nodiscard]] std::vector<std::byte> encode(const HolderRequest& request);
[[nodiscard]] std::vector<std::byte> encode(const HolderReply& reply);
// kProtocolError for anything that encode() does not make.
[[nodiscard]] Result<HolderRequest> decodeHolderRequest(std::span<const std::byte> message);
[[nodiscard]] Result<HolderReply> decodeHolderReply(std::span<const std::byte> message);

}  // namespace hearth
