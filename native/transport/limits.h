// Bounds of the transport that users do not choose.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "reactor/reactor.h"

namespace hearth {

// Requests that an asker may have unanswered on one connection.
inline constexpr std::uint32_t kRequestsPerConnection = 1024;
// Writes that an asker may have announced and unanswered, apart from requests.
inline constexpr std::uint32_t kWritesPerConnection = 64;
// Writes of one node that wait on one shard for overlapping writes: as many as a few connections
// may announce.
inline constexpr std::size_t kWritesWaitingPerNode = std::size_t{4} * kWritesPerConnection;
// Frames that may wait to be sent before a peer's pings are taken for a flood.
inline constexpr std::size_t kMaxQueuedFrames = kRequestsPerConnection + kWritesPerConnection + 64;
// Probes in a row without an answer, or between which the peer took nothing of what is to be sent;
// the next one ends the connection.
inline constexpr int kMissedProbes = 2;

// Payloads that wait to be sent on one connection and may stay in the memory that they came in.
inline constexpr std::size_t kLentBytesPerConnection = std::size_t{8} << 20;
// Large payloads are sent in slices of this size, a frame each where the asker takes them; small or
// more urgent payloads go between two slices. When a lent slice has begun, its rest is copied.
// Smaller slices cost frames and receives; larger ones cost time: 2 ms at 1 Gbit/s. Where the
// kernel has delivered that many bytes a second slices are longer: 2 ms there, too.
inline constexpr std::uint32_t kSliceToSendBytes = 256u << 10;
inline constexpr std::uint64_t kFastBytesPerSecond = std::uint64_t{512} << 20;
inline constexpr std::uint32_t kFastSliceBytes = 1u << 20;
// Slices in the kernel that are not on their way yet, at most.
inline constexpr std::uint32_t kUnsentSlices = 2;

// Payloads of one connection that load at a time, including answers that were given up since: a
// hanging load holds up no other. As many as chunks fit into the credit.
inline constexpr std::size_t kLoadsPerConnection = 16;

// Longest frame of the handshake, and memory of a connection that has not proved who it is: the
// longest Hello fits.
inline constexpr std::size_t kHandshakeFrameBytes = 8192;
// Connections that have not proved who they are, of one shard: in all and from one address. The
// total does not include the known addresses of agents.
inline constexpr std::size_t kMaxUnauthenticated = 256;
inline constexpr std::size_t kMaxUnauthenticatedPerHost = 64;
// Accepted connections of one shard, in all and of one node, including ended ones whose requests
// are still being executed. Few descriptors allow fewer (socket_limits.h).
inline constexpr std::size_t kConnections = 16384;
inline constexpr std::size_t kConnectionsPerNode = 256;
// Those of clients with the token of one pod, and memory of one shard for what clients have asked
// for: of all clients, of which a pod has half (client_shares.h). A request counts as the frames of
// coroutines that it needs; a longer answer to a control message counts whole until it is sent.
inline constexpr std::size_t kConnectionsPerPod = 512;
inline constexpr std::uint64_t kClientRequestMemory = std::uint64_t{128} << 20;
inline constexpr std::uint64_t kReadRequestMemory = 4u << 10;
inline constexpr std::uint64_t kControlRequestMemory = 16u << 10;
// A client that keeps answers waiting takes at least so much of them, between so many probes, or
// loses its connection: one that wants a chunk has it in about a minute.
inline constexpr std::uint64_t kSlowestClient = std::uint64_t{64} << 10;  // bytes a second
inline constexpr int kClientPaceProbes = 2;
// Accepted sockets on their way to a shard.
inline constexpr std::size_t kArriving = 1024;
// A listener's connections whose preface has not come, in all and from one address, and how long it
// may take. The total does not include the known addresses of agents.
inline constexpr std::size_t kHalfOpen = 256;
inline constexpr std::size_t kHalfOpenPerHost = 64;
inline constexpr Clock::duration kPrefaceTimeout = std::chrono::seconds(3);

// Pause before a peer that could not be reached is tried again: doubled each time, with jitter.
inline constexpr Clock::duration kFirstBackOff = std::chrono::milliseconds(50);
inline constexpr Clock::duration kLongestBackOff = std::chrono::seconds(5);

// Reads are cut into slices for several streams when each slice has at least this much. Smaller
// slices cost more processor time than another stream gives (64 KiB: a quarter of the throughput,
// Mooncake).
inline constexpr std::size_t kSliceBytes = std::size_t{1} << 20;
// Largest transfer for the stream that nothing larger uses: behind slices of others it would wait
// for two of them, 4 ms at 1 Gbit/s.
inline constexpr std::size_t kSmallTransferBytes = std::size_t{128} << 10;
// Payload bytes received between two looks at their checksums: they are still in the processor's
// cache.
inline constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
// A write is sent in parts of this size: between two of them it can be cancelled, and other frames
// of the connection come first.
inline constexpr std::uint32_t kWritePartBytes = 256u << 10;
// How long a receiver keeps memory for a write at most, whatever its asker says.
inline constexpr Clock::duration kLongestWrite = std::chrono::seconds(60);
// How long the end of a request waits for a system call under way on its memory, before it ends the
// connection to get the memory back.
inline constexpr Clock::duration kReleaseGrace = std::chrono::milliseconds(50);

// A rail pauses when not one byte has come on it for so long, although requests are out: its
// requests go to another rail.
inline constexpr Clock::duration kHedgeAfter = std::chrono::milliseconds(200);
// How often a slice may move to another rail for that reason.
inline constexpr int kHedgesPerSlice = 2;
// Most streams for payloads by a peer's addresses, one each.
inline constexpr std::size_t kStreamsForAddresses = 8;

// Manifests longer than this are refused.
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{4} << 30;

}  // namespace hearth
