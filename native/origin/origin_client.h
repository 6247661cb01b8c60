// Ranged reads of origins: HTTP(S) by libcurl's multi interface on a reactor, and files of
// directory origins. One client a shard, used on its thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "reactor/reactor.h"

namespace hearth {

class DirectoryCalls;

// Where bytes can be read now. A bearer secret: never logged; error messages show scheme, host and
// path only.
struct Location {
  std::string url;   // http:// or https://; exactly one of url and path
  std::string path;  // of a directory origin, absolute
  // With path: an absolute directory above it that no link leads the read out of. Below it no
  // symlink is followed.
  std::string below;
  std::vector<std::pair<std::string, std::string>> headers;
  std::int64_t expiresAtMs = 0;  // since the epoch; 0: never
  // Whose it is: requests of different owners take turns, and those of one are in order.
  std::string owner;
};

// What must be true of the object, from the manifest; kOriginChanged when it is not.
struct OriginExpectation {
  std::uint64_t objectSize = 0;  // 0: not known
  std::string validator;  // etag:"..." | modified:<HTTP date> | stat:<mtimeNs>:<ctimeNs> | empty
};

struct OriginOptions {
  std::size_t connections = 16;        // of this client, all hosts
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
  // Whether others than this owner wait for the memory that its fetches fill. Then a transfer below
  // the floor ends with kTryElsewhere, so that its caller gives that back. May be null.
  std::function<bool(const std::string& owner)> memoryWanted;
  // Failures in a row that may pass, until a fetch gives up; progress of a MiB starts the count
  // again. Between them exponential back-off with full jitter; Retry-After is honoured up to a
  // minute.
  int attempts = 6;
  Clock::duration firstBackOff = std::chrono::milliseconds(100);
  Clock::duration longestBackOff = std::chrono::seconds(10);
  // Refuses servers whose address, after name look-up and after every redirect, is loopback,
  // link-local, private or otherwise not public (kPermissionDenied), unless it lies in one of
  // allowedNetworks ("10.1.0.0/16", "fd00::/8"). Proxies of the environment (https_proxy, ...) are
  // then not used: they would hide the address.
  bool forbidPrivateAddresses = false;
  std::vector<std::string> allowedNetworks;
  // Threads for directory origins, shared by the clients of a process. Null: some of its own.
  std::shared_ptr<DirectoryCalls> directories;
};

struct OriginStatistics {
  std::uint64_t bytes = 0, requests = 0, retries = 0, failures = 0;
};

// The process must ignore SIGPIPE (Node does): TLS writes to a connection that the server has
// closed.
class OriginClient {
 public:
  // kInvalidArgument for certificateAuthorities that cannot be read and malformed allowedNetworks.
  // `reactor` must remain live while the result is used.
  [[nodiscard]] static Result<std::unique_ptr<OriginClient>> create(Reactor& reactor,
                                                                    OriginOptions options);
  virtual ~OriginClient() = default;

  // Fills `into` (consecutive pieces of the range, usually chunk buffers) with the object's bytes
  // [offset, offset + sum of sizes) by one request, retrying the rest after a failure that may
  // pass. `filled(i)` is called once for each piece, in order, as soon as it is full; it must not
  // block. One request serves the whole range; bytes go from the socket into the pieces. The caller
  // keeps the memory of `into` until the task has ended. Errors: kNotFound 404/410;
  // kPermissionDenied 403, kUnauthenticated 401, but kLocationExpired for both when the location
  // has an expiry; kOriginChanged 412, 416, another ETag, date or size; kUnavailable 429, 5xx,
  // connection failures, truncated bodies after all attempts; kUnsupported when the server ignores
  // ranges and the range is not the whole object, or compresses; kProtocolError another range than
  // asked; kUnauthenticated a certificate that is not trusted; kDeadlineExceeded more than
  // runTimeout; kTryElsewhere see memoryWanted; kInvalidArgument a malformed
  // location; kCancelled. Of a directory origin a piece is given only when the file still was the
  // expected one after it was read; kUnavailable when its file system hangs.
  [[nodiscard]] virtual Task<Status> fetch(Location location, OriginExpectation expectation,
                                           std::uint64_t offset,
                                           std::vector<std::span<std::byte>> into,
                                           std::function<void(std::size_t)> filled) = 0;
  // Ends all fetches with kCancelled and waits for them.
  [[nodiscard]] virtual Task<void> close() = 0;
  [[nodiscard]] virtual OriginStatistics statistics() const = 0;
};

}  // namespace hearth
