// Compares whole files with the digests that their origins give. Chunks are hashed in order as they
// come in, off the path of readers, on the threads for whole files: from the buffer or a copy of it
// while there is room for that, else from the cache file when their turn has come. A file is served
// as a whole (view, passthrough) only when it was compared; single chunks, to readers of this agent
// and to other agents, are served before, as their block checksums hold from entry on.
//
// A file that differs is dropped and fetched once more, from the origin alone, from one source of
// the dataset after the other (SourceRounds). When all permitted sources gave wrong bytes the file
// is refused with kCorrupt (DigestRefusals). One verifier a shard; on its thread.
#pragma once

#include <memory>

#include "dataset/engine_event.h"
#include "fetch/digest_refusals.h"
#include "fetch/fetcher.h"
#include "fetch/withdrawn_bytes.h"
#include "reactor/synchronization.h"
#include "warm/in_order_hash.h"

namespace hearth {

// The parts of its shard and of the engine that a verifier uses. They outlive it.
struct VerifierPorts {
  Reactor& reactor;
  Gate& gate;  // background coroutines
  Fetcher& fetcher;
  const BufferPool& buffers;  // of what comes from the origin
  ThreadPool& wholeFiles;     // which hash
  DigestRefusals& refusals;
  WithdrawnBytes& withdrawn;
  std::atomic<std::uint64_t>& mismatches;  // counts files that were not what their digest says
  const EventSink& events;
};

class FileVerifier final : public FileObserver {
 public:
  // Watches what the fetcher brings. What `ports` refers to must remain live while this object is
  // used.
  explicit FileVerifier(VerifierPorts ports);

  void stored(const std::shared_ptr<FileFetch>& fetch, std::uint32_t chunk,
              const std::shared_ptr<LoadedChunk>& loaded) override;
  // Begins to verify what is complete and was not compared, in the background.
  void opened(const std::shared_ptr<FileFetch>& fetch) override;
  // Ends when all of the file is here and, where its origin gives a digest, is what that says.
  // kCorrupt: it is not, twice. Other errors: those of fetching.
  [[nodiscard]] Task<Status> verified(std::shared_ptr<FileFetch> fetch);

  // Read from the cache file, because it was in memory no longer.
  [[nodiscard]] std::uint64_t bytesReadBack() const { return bytesReadBack_; }

 private:
  [[nodiscard]] static bool wanted(const FileFetch& fetch);
  [[nodiscard]] InOrderHash& hashOf(FileFetch& fetch) const;
  void start(const std::shared_ptr<FileFetch>& fetch);
  [[nodiscard]] bool mayHold() const;

  Task<void> advance(std::shared_ptr<FileFetch> fetch);
  // The next chunk. False: it is not here, or no longer what it was.
  Task<bool> hashNext(FileFetch& fetch);
  // All is hashed. True: it has to be hashed again.
  Task<bool> conclude(std::shared_ptr<FileFetch> fetch);
  Task<bool> differs(std::shared_ptr<FileFetch> fetch);
  // Until it is noted which sources gave what is here.
  [[nodiscard]] Task<void> awaitGivers(FileFetch& fetch);
  // It is wrong: who is to blame for it, and whether it is so wherever it may come from, for which
  // it is refused.
  [[nodiscard]] bool wrongEverywhere(FileFetch& fetch);

  const VerifierPorts ports_;
  const std::shared_ptr<HashAllowance> allowance_ = std::make_shared<HashAllowance>();
  std::uint64_t bytesReadBack_ = 0;
};

}  // namespace hearth
