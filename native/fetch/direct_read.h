// A read straight into a caller's memory: from here, from agents that hold the bytes, or else by
// the way that all chunks come.
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

  // Several chunks at a time. The first error, once none of them is waited for any more.
  [[nodiscard]] Task<Status> run();

 private:
  // What of the range lies in one chunk.
  struct Part {
    std::uint32_t chunk = 0;
    std::uint64_t offset = 0;  // in the file
    MemoryVector into;
  };

  // One after the other, from those that are not taken yet.
  Task<void> readParts();
  [[nodiscard]] std::optional<Part> nextPart();
  Task<Status> readPart(Part part);
  // From memory or, when that is null, from the cache file.
  Task<Status> fromHere(const Part& part, std::shared_ptr<LoadedChunk> loaded);
  // Who holds what of the range lies in one stripe.
  struct StripeHolders {
    StripeHolders(Reactor& reactor, std::uint32_t number) : stripe(number), known(reactor) {}
    const std::uint32_t stripe;
    Event known;
    LocateAnswer answer;
  };
  // The directory is asked once for all parts of a stripe, which are taken one after the other.
  Task<std::shared_ptr<const StripeHolders>> holdersAround(const Part& part);
  Task<LocateAnswer> locate(std::uint32_t stripe, ChunkMask chunks, FailureReport failure);
  // As holdersAround(), and whom it names for the part is known from then on.
  Task<LocateAnswer> askAround(const Part& part);
  // Nothing: no agent gives it, or it is on its way to one.
  Task<std::optional<Status>> fromHolder(const Part& part);
  // Once it has slots. kTryElsewhere, without a request, of an agent that has failed this read.
  Task<Status> fromAgent(const Part& part, const std::string& node, bool others);
  Task<Status> readFrom(const std::string& node, const Part& part, bool others);

  Fetcher& fetcher_;
  const FetchPorts& ports_;
  const std::shared_ptr<FileFetch> fetch_;
  const std::uint64_t offset_;
  const MemoryVector into_;
  std::uint64_t taken_ = 0;
  MemoryCursor rest_{into_};                // what is not taken
  std::shared_ptr<StripeHolders> holders_;  // of the last stripe that was asked for
  // Agents that were silent or out of reach: they are asked for nothing more.
  std::set<std::string> failed_;
  bool held_ = false;  // a rail that failed goes on writing into the memory: it cannot be used
  Status status_;
};

}  // namespace hearth
