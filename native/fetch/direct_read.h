// A read straight into a caller's memory: from this agent, from agents that hold the bytes, or else
// through Fetcher::arrive().
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "fetch/fetch_run.h"

namespace hearth {

// Lives in readInto()'s frame. On the fetcher's shard.
class Fetcher::DirectRead {
 public:
  // `fetcher` must remain live while this object is used.
  DirectRead(Fetcher& fetcher, std::shared_ptr<FileFetch> fetch, std::uint64_t offset,
             MemoryVector into);

  // Reads several chunks at a time. Returns the first error, after all of them have ended.
  [[nodiscard]] Task<Status> run();

 private:
  // The part of the range in one chunk.
  struct Part {
    std::uint32_t chunk = 0;
    std::uint64_t offset = 0;  // in the file
    MemoryVector into;
  };

  // Reads parts that no other coroutine has taken, one after the other.
  Task<void> readParts();
  [[nodiscard]] std::optional<Part> nextPart();
  Task<Status> readPart(Part part);
  // Reads from `loaded` or, when that is null, from the cache file.
  Task<Status> fromHere(const Part& part, std::shared_ptr<LoadedChunk> loaded);
  // The holders of the range's chunks in one stripe.
  struct StripeHolders {
    StripeHolders(Reactor& reactor, std::uint32_t number) : stripe(number), known(reactor) {}
    const std::uint32_t stripe;
    Event known;
    LocateAnswer answer;
  };
  // Asks the directory once for all parts of a stripe; parts are taken in order.
  Task<std::shared_ptr<const StripeHolders>> holdersAround(const Part& part);
  Task<LocateAnswer> locate(std::uint32_t stripe, ChunkMask chunks, FailureReport failure);
  // As holdersAround(), and notes the part's holder in KnownHolders.
  Task<LocateAnswer> locateHolders(const Part& part);
  // Nothing: no agent gives the part, or its chunk is still on the way to one.
  Task<std::optional<Status>> fromHolder(const Part& part);
  // Reads once it has slots at the agent. kTryElsewhere, without a request, when the agent has
  // failed this read before.
  Task<Status> fromAgent(const Part& part, const std::string& node, bool others);
  Task<Status> readFrom(const std::string& node, const Part& part, bool others);

  Fetcher& fetcher_;
  const FetchPorts& ports_;
  const std::shared_ptr<FileFetch> fetch_;
  const std::uint64_t offset_;
  const MemoryVector into_;
  std::uint64_t taken_ = 0;
  MemoryCursor rest_{into_};                // not taken yet
  std::shared_ptr<StripeHolders> holders_;  // of the stripe asked for last
  // Agents that were silent or out of reach; this read asks them for nothing more.
  std::set<std::string> failed_;
  bool held_ = false;  // a failed rail may still write into the memory, which cannot be used
  Status status_;
};

}  // namespace hearth
