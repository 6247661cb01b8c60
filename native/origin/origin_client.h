// Ranged reads of origins: HTTP(S) by libcurl's multi interface on a reactor, and files of
// directory origins. One client a shard, used on its thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "origin/proxy_choice.h"
#include "reactor/reactor.h"

namespace hearth {

class DirectoryCalls;
struct OriginElsewhere;
class PieceSink;
class TouchedFiles;

// Where bytes can be read now. A bearer secret: never logged; error messages show scheme, host and
// path only.
struct Location {
  std::string url;   // http:// or https://; exactly one of url, path and node
  std::string path;  // of a directory origin, absolute
  // The node whose agent has the file under its content key: a writable volume's. No OriginClient
  // reads it.
  std::string node;
  // With path: an absolute directory above it that no link leads the read out of. Below it no
  // symlink is followed.
  std::string below;
  std::vector<std::pair<std::string, std::string>> headers;
  std::int64_t expiresAtMs = 0;  // since the epoch; 0: never
  // Whose it is: requests of different owners take turns, and those of one are in order.
  std::string owner;
  // The same bytes can be read at other places, too, and who asks will do so. Null: they cannot.
  std::shared_ptr<OriginElsewhere> elsewhere;
  // Asked now and then while the bytes come: true ends the fetch with kCancelled. May be null;
  // called on the client's thread.
  std::function<bool()> unwanted;
};

// Conditions on the object, from the manifest; kOriginChanged when one does not hold.
struct OriginExpectation {
  std::uint64_t objectSize = 0;  // 0: not known
  // etag:"..." | compared-etag:"..." (asked for without If-Match) | modified:<HTTP date> |
  // git:<blob id> (all of the file is read and compared, wherever it is) |
  // stat:<mtimeNs>:<ctimeNs>[:<inode>:<links>:<mode>:<uid>:<gid>] | empty
  std::string validator;
  // With stat: what is known of files whose time of change alone moved, and the number of this one
  // there; null: nothing, so that such a file has changed.
  std::shared_ptr<TouchedFiles> touched{};
  std::uint32_t file = 0;
};

// How a fetch differs when there are other places that have the bytes: a failure that may pass ends
// it, since the next one is asked then.
struct OriginElsewhere {
  // A connection that is not there, and a transfer that is stalled, after so long ends it as well.
  static constexpr auto kTimeout = std::chrono::seconds(3);
  bool impatient = true;
  // A straggler of HTTP ends with kUnavailable, at the cost of a hedge, instead of being hedged.
  bool leaveStraggler = false;
  // Asked when there is a connection for the fetch: false ends it with kUnavailable. May be null;
  // called on the client's thread.
  std::function<bool()> wanted;
  // Time that the fetch may spend, less than OriginOptions::runTimeout perhaps; the client takes
  // off what it has spent.
  Clock::duration left = Clock::duration::max();

  // Notes of the client until the fetch has ended. `unasked`: the fetch was no longer wanted, and
  // the client asked for nothing. `straggled`: it was left as a straggler. `retryAfter`: the pause
  // that the server asked for.
  bool unasked = false;
  bool straggled = false;
  std::optional<Clock::duration> retryAfter;
};

// When a transfer is a straggler, and what may be spent on asking for its bytes once more on
// another connection (origin_host.h).
struct HedgingOptions {
  // No transfer is one before it has waited so long for its first byte, however fast others are.
  Clock::duration firstByteFloor = std::chrono::milliseconds(500);
  // The bound while little is known of a host.
  Clock::duration firstByteUnknown = std::chrono::seconds(2);
  // A transfer that is far below the median rate of its host's for so long is one.
  Clock::duration slowFor = std::chrono::seconds(2);
  // Of each host: bytes that hedges may ask for at the start. A hundredth of what comes is added,
  // but there are never more. 0: no hedges.
  std::uint64_t budgetBytes = std::uint64_t{32} << 20;
};

struct OriginOptions {
  // Of this client, all hosts. How many of them one host is asked by at a time is found by
  // measuring (parallelism_climb.h). Hedges have an eighth as many beside them, one at least.
  std::size_t connections = 16;
  std::string certificateAuthorities;  // file; empty: the system's
  Clock::duration connectTimeout = std::chrono::seconds(10);
  // A transfer slower than this for stallTimeout is broken off and tried again.
  std::uint64_t stallBytesPerSecond = 1024;
  Clock::duration stallTimeout = std::chrono::seconds(30);
  // A transfer slower than floorBytesPerSecond for floorTimeout gives its connection back when a
  // request of another owner waits for one, and goes on when it has one again.
  std::uint64_t floorBytesPerSecond = std::uint64_t{64} << 10;
  Clock::duration floorTimeout = std::chrono::seconds(10);
  // As much time a fetch may spend with connections and between its attempts; waiting for a
  // connection does not count.
  Clock::duration runTimeout = std::chrono::minutes(10);
  HedgingOptions hedging;
  // Failures in a row that may pass, until a fetch gives up; progress of a MiB starts the count
  // again. Between them exponential back-off with full jitter; Retry-After is honoured up to a
  // minute.
  int attempts = 6;
  Clock::duration firstBackOff = std::chrono::milliseconds(100);
  Clock::duration longestBackOff = std::chrono::seconds(10);
  // Refuses servers whose address, after name look-up and after every redirect, is loopback,
  // link-local, private or otherwise not public (kPermissionDenied), unless it lies in one of
  // allowedNetworks ("10.1.0.0/16", "fd00::/8"). Of a server that is asked through a proxy, which
  // looks its name up, this holds for addresses that are written in URLs and redirects.
  bool forbidPrivateAddresses = false;
  std::vector<std::string> allowedNetworks;
  // The proxies of the process's environment are not used.
  ProxyOptions proxies;
  // Threads for directory origins, shared by the clients of a process. Null: some of its own.
  std::shared_ptr<DirectoryCalls> directories;
};

struct OriginHostStatistics {
  std::string host;             // scheme://name:port
  std::size_t parallelism = 0;  // requests that it may be asked at a time now
};

struct OriginStatistics {
  std::uint64_t bytes = 0, requests = 0, retries = 0, failures = 0;
  // The share of hedges in these, and the number of hedges that were faster than the transfer they
  // stood in for.
  std::uint64_t hedgedBytes = 0, hedgedRequests = 0, hedgesWon = 0;
  std::vector<OriginHostStatistics> hosts;  // of HTTP, asked lately

  // Of another client. A host that both ask may be asked as often as the two together.
  void add(const OriginStatistics& other);
};

// The process must ignore SIGPIPE (Node does): TLS writes to a connection that the server has
// closed.
class OriginClient {
 public:
  // kInvalidArgument for certificateAuthorities that cannot be read, malformed allowedNetworks and
  // proxies.
  // `reactor` must remain live while the result is used.
  [[nodiscard]] static Result<std::unique_ptr<OriginClient>> create(Reactor& reactor,
                                                                    OriginOptions options);
  virtual ~OriginClient() = default;

  // Fills `into` (consecutive pieces of the range, usually chunk buffers) with the object's bytes
  // [offset, offset + sum of sizes) by one request, retrying the rest after a failure that may
  // pass. `filled(i)` is called once for each piece, in order, as soon as it is full; it must not
  // block. One request serves the whole range, unless it is a straggler; bytes go from the socket
  // into the pieces. The caller keeps the memory of `into` until the task has ended. Errors:
  // kNotFound 404/410; kPermissionDenied 403, kUnauthenticated 401, but kLocationExpired for both
  // when the location has an expiry; kOriginChanged 412, 416, another ETag, date or size;
  // kUnavailable 429, 5xx, connection failures, truncated bodies after all attempts; kUnsupported
  // when the server ignores ranges and the range is not the whole object, or compresses;
  // kProtocolError another range than asked; kUnauthenticated a certificate that is not trusted;
  // kDeadlineExceeded more than runTimeout; kTryElsewhere see memoryWanted; kInvalidArgument a
  // malformed location; kCancelled. With Location::elsewhere kUnavailable comes after one attempt.
  // Of a directory origin a piece is given only when the file still was the expected one after it
  // was read; kUnavailable when its file system hangs. `memoryWanted`: whether others than the
  // location's owner wait for the memory of `into`. Then a transfer below the floor ends with
  // kTryElsewhere, so that the caller gives that back. May be null; called on the client's thread.
  [[nodiscard]] virtual Task<Status> fetch(Location location, OriginExpectation expectation,
                                           std::uint64_t offset,
                                           std::vector<std::span<std::byte>> into,
                                           std::function<void(std::size_t)> filled,
                                           std::function<bool()> memoryWanted) = 0;
  // For memory that none but the caller wants.
  [[nodiscard]] Task<Status> fetch(Location location, OriginExpectation expectation,
                                   std::uint64_t offset, std::vector<std::span<std::byte>> into,
                                   std::function<void(std::size_t)> filled) {
    return fetch(std::move(location), std::move(expectation), offset, std::move(into),
                 std::move(filled), nullptr);
  }
  // Fetches the object's bytes [0, total of `sink`), a late sink, by one request, which stays open
  // while the caller gives memory; the caller keeps the sink until the task has ended. After a
  // failure that may pass it asks for the rest. Errors: as fetch(), but kUnsupported for other than
  // HTTP and for what has other places, kTryElsewhere when it is below the floor, other transfers
  // of its host are much faster or another owner waits for its connection or its memory, and
  // kCancelled after PieceSink::end().
  [[nodiscard]] virtual Task<Status> stream(Location location, OriginExpectation expectation,
                                            PieceSink& sink,
                                            std::function<bool()> memoryWanted) = 0;
  // Ends all fetches with kCancelled and waits for them.
  [[nodiscard]] virtual Task<void> close() = 0;
  [[nodiscard]] virtual OriginStatistics statistics() const = 0;
};

}  // namespace hearth
