// Reading chunks that a disk may lose: what is bad there is fetched again, a few times.
#pragma once

#include <memory>
#include <utility>

#include "fetch/fetcher.h"

namespace hearth {

// What `read(loaded)` gives, once the chunk has arrived (Fetcher::arrive): `loaded` has its bytes,
// or is null when they are to be read from the cache file, verified, which drops what is bad there.
// `read` makes a Task of a Result or a Status. On the fetcher's shard. Errors: those of arrive();
// the last one of `read` from a disk on which the chunk is bad again after so many repairs.
template <class Read>
auto readArrived(Fetcher& fetcher, std::shared_ptr<FileFetch> fetch, std::uint32_t chunk, Read read)
    -> decltype(read(std::shared_ptr<LoadedChunk>())) {
  constexpr int kRepairs = 3;
  Error last;
  for (int attempt = 0; attempt < kRepairs; ++attempt) {
    const Result<std::shared_ptr<LoadedChunk>> arrived = co_await fetcher.arrive(fetch, chunk);
    if (!arrived.ok()) co_return arrived.error();
    auto bytes = co_await read(*arrived);
    if (bytes.ok()) co_return bytes;
    last = bytes.error();
  }
  co_return last;
}

}  // namespace hearth
