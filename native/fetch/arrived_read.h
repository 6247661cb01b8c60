// Reads a chunk that the disk may have lost: a bad chunk is fetched again, a few times.
#pragma once

#include <memory>
#include <utility>

#include "fetch/fetcher.h"

namespace hearth {

// Waits until the chunk has arrived (Fetcher::arrive) and returns the result of `read(loaded)`.
// `loaded` has the chunk's bytes; null: `read` takes them from the cache file by a verified read,
// which drops a bad chunk. `read` returns a Task of a Result or a Status. `wanted`: as for
// arrive(). On the fetcher's shard. Errors: those of arrive(), and the last error of `read` when
// the chunk is bad in every attempt.
template <class Read>
auto readArrived(Fetcher& fetcher, std::shared_ptr<FileFetch> fetch, std::uint32_t chunk, Read read,
                 StillWanted wanted = nullptr) -> decltype(read(std::shared_ptr<LoadedChunk>())) {
  constexpr int kRepairs = 3;
  Error last;
  for (int attempt = 0; attempt < kRepairs; ++attempt) {
    const Result<std::shared_ptr<LoadedChunk>> arrived =
        co_await fetcher.arrive(fetch, chunk, wanted);
    if (!arrived.ok()) co_return arrived.error();
    auto bytes = co_await read(*arrived);
    if (bytes.ok()) co_return bytes;
    last = bytes.error();
  }
  co_return last;
}

}  // namespace hearth
