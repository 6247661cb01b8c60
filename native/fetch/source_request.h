// Requests one range of a file from the sources of its dataset, one after the other, until one has
// given it: in the order of SourceRanking, or of SourceRounds once the file was wrong. On the key's
// shard.
//
// Invariant: the agent takes a mirror's bytes only where it is proved that they are those of the
// file. Either the manifest has a SHA-256, with which all bytes are compared before the file is
// whole; or the mirror's own strong ETag is the manifest's, which the request demands (If-Match)
// and the answer must repeat. Each source begins a piece (chunk) afresh, so no piece has bytes of
// two.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataset/dataset.h"
#include "fetch/buffer_pool.h"
#include "fetch/byte_lanes.h"
#include "fetch/source_rounds.h"
#include "origin/retry_policy.h"
#include "reactor/synchronization.h"

namespace hearth {

class SourceRequest {
 public:
  // The parts of its shard that a request uses, which live longer.
  struct Ports {
    Reactor& reactor;
    const Gate& gate;  // closed when the shard ends
    const ByteLanes& lanes;
    const BufferPool& buffers;  // the pool of the pieces
    const EventSink& events;
    std::function<bool()> unwanted;  // by anybody: the request ends with kCancelled; may be null
  };
  // `rounds`: the file's. `file` must remain live while this object is used.
  SourceRequest(Ports ports, const FileReference& file, std::shared_ptr<SourceRounds> rounds);

  // Call once. As ByteLanes::fetch, with `offset` in the origin's object. `pieces`: the bytes of
  // whole chunks, from `chunk` on. Errors: without mirrors those of the source. With mirrors the
  // request fails only when every source has failed, with errors that may pass as often as a single
  // source would be tried, or when all together have taken OriginOptions::runTimeout; the code is
  // the first source's, unless that gave wrong bytes, and the message names each source with its
  // cause. kOriginChanged of the first source is an error at once, and kCancelled and kTryElsewhere
  // of any. A source that asked to be left alone (Retry-After) is left alone, whatever other
  // sources do.
  [[nodiscard]] Task<Status> run(std::uint32_t chunk, std::uint64_t offset,
                                 std::vector<std::span<std::byte>> pieces,
                                 ByteLanes::Filled filled);
  // The sources, of sources(), that gave bytes.
  [[nodiscard]] SourceMask given() const { return given_; }
  [[nodiscard]] const std::shared_ptr<const SourceSet>& sources() const { return set_; }
  // True: the first source said that it has not the file, or not as it was listed.
  [[nodiscard]] bool firstLacks() const { return firstLacks_; }

 private:
  using Turn = SourceRanking::Turn;
  // The tries of one source in this request.
  struct Tries {
    int failures = 0;  // since a piece came last
    bool out = false;  // it is asked no more
    Clock::time_point notBefore = Clock::time_point::min();
    std::optional<Error> cause;  // of its last failure
  };

  [[nodiscard]] Task<Status> fromAny();
  void leaveOutUnproved();
  // The sources that were tried less often than a single source may be.
  [[nodiscard]] SourceMask remaining() const;
  // The sources to ask next: one, when the file was wrong. 0: none has the file.
  [[nodiscard]] SourceMask candidates(Clock::time_point now) const;
  // The sources of `mask` that neither rest after a failure in this request nor are left alone.
  [[nodiscard]] SourceMask due(SourceMask mask, Clock::time_point now) const;
  [[nodiscard]] bool isOver() const {
    return ports_.gate.closed() || (ports_.unwanted && ports_.unwanted());
  }

  // Takes one turn. Returns the request's status; nothing: another turn follows.
  [[nodiscard]] Task<std::optional<Status>> take(Turn turn);
  // The terms of a turn: how long, and when it ends early.
  [[nodiscard]] std::shared_ptr<OriginElsewhere> terms(const Turn& turn) const;
  [[nodiscard]] Clock::duration turnTime(const Turn& turn, SourceMask others) const;
  // Ends a turn. Returns as take().
  [[nodiscard]] std::optional<Status> conclude(const Turn& turn, Status status,
                                               const OriginElsewhere& seen, std::uint64_t bytes);
  void noteFailure(const Turn& turn, const Error& error, const OriginElsewhere& seen,
                   std::uint64_t bytes);
  // The error of a request that no source has given.
  [[nodiscard]] Error failure() const;

  // Locates the file at one source and requests it. `seen`: the turn's terms, and what the client
  // notes; null for a dataset without mirrors.
  [[nodiscard]] Task<Status> ask(std::size_t source, std::shared_ptr<OriginElsewhere> seen);
  // Charges its time to all sources together, but to no turn.
  [[nodiscard]] Task<Result<Location>> locate(std::size_t source, OriginElsewhere* seen);
  [[nodiscard]] Task<Status> request(Location location, OriginExpectation expectation);
  // Nothing: the source could prove no bytes of the file.
  [[nodiscard]] std::optional<OriginExpectation> expectation(std::size_t source) const;
  [[nodiscard]] std::string nameOf(std::size_t source) const;
  void say(std::size_t source, const std::string& what, const std::string& why) const;

  const Ports ports_;
  const FileReference& file_;
  const std::uint32_t entry_;
  const std::shared_ptr<const SourceSet> set_;
  const std::shared_ptr<SourceRounds> rounds_;
  const bool inOrder_;
  std::uint32_t chunk_ = 0;
  std::uint64_t offset_ = 0;
  std::vector<std::span<std::byte>> pieces_;
  ByteLanes::Filled filled_;
  std::size_t here_ = 0;  // full pieces, which are not asked for again
  SourceMask given_ = 0;
  bool firstLacks_ = false;
  std::vector<Tries> tries_;  // by source
  std::optional<RetryPolicy> retries_;
  Clock::duration time_;  // left for all sources together
  bool located_ = false;  // a location of the last turn's source came
};

}  // namespace hearth
