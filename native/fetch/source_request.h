// Requests one range of a file from the sources of its dataset, one after the other, until one has
// given it: the first source or a mirror, as SourceChoice says. On the key's shard.
//
// Invariant: the agent takes a mirror's bytes only where it is proved that they are those of the
// file. Either the manifest has a SHA-256, with which all bytes are compared before the file is
// whole; or the mirror's own strong ETag is the manifest's, which the request demands (If-Match)
// and the answer must repeat. Each source begins a piece (chunk) afresh: two write into one only
// where a straggler's hedge goes on from it, under the same proof.
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
#include "fetch/source_standings.h"
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
  // `rounds`: the file's, which says which source is asked once its bytes were wrong. `file` must
  // remain live while this object is used.
  SourceRequest(Ports ports, const FileReference& file, SourceRounds& rounds);

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
  using Turn = SourceChoice::Turn;

  [[nodiscard]] Task<Status> fromAny();
  // Leaves out mirrors of which nothing could be proved, and sources that gave wrong bytes.
  void leaveOutUnfit();
  // The sources to ask next: one, when they are asked in order.
  [[nodiscard]] SourceMask candidates(Clock::time_point now) const;
  // Waits until a source is due. False: the shard ends, or the bytes are unwanted.
  [[nodiscard]] Task<bool> rest();
  [[nodiscard]] bool isOver() const {
    return ports_.gate.closed() || (ports_.unwanted && ports_.unwanted());
  }

  // Takes one turn. Returns the request's status; nothing: another turn follows.
  [[nodiscard]] Task<std::optional<Status>> take(Turn turn);
  // Locates the file at one source and requests it. `seen`: where the hedge goes, and what the
  // client notes; null for a dataset without mirrors.
  [[nodiscard]] Task<Status> ask(std::size_t source, std::shared_ptr<OriginElsewhere> seen);
  // Charges its time to all sources together, but to no turn.
  [[nodiscard]] Task<Result<Location>> locate(std::size_t source, OriginElsewhere* seen);
  [[nodiscard]] Task<Status> request(Location location, OriginExpectation expectation);
  [[nodiscard]] std::optional<OriginExpectation> expectation(std::size_t source) const;
  // `beside`: the source of the turn's hedge, if there is another one.
  [[nodiscard]] std::shared_ptr<OriginElsewhere> elsewhere(const Turn& turn,
                                                           std::optional<std::size_t> beside,
                                                           bool impatient) const;
  // Other sources that may be asked when the turn fails.
  [[nodiscard]] SourceMask othersThan(const Turn& turn) const;
  [[nodiscard]] Clock::duration turnTime(const Turn& turn, SourceMask others) const;
  // Tells the choice how a turn ended. True: the status is the request's.
  [[nodiscard]] bool note(const Turn& turn, const Status& status, const OriginElsewhere& seen,
                          std::size_t beside, std::uint64_t bytes);
  void noteFailure(const Turn& turn, const Error& error, std::optional<Clock::duration> retryAfter,
                   std::uint64_t bytes);
  void noteLacks(const Turn& turn, const std::string& why);
  void say(std::size_t source, const std::string& what, const std::string& why) const;

  const Ports ports_;
  const FileReference& file_;
  const std::uint32_t entry_;
  const std::shared_ptr<const SourceSet> set_;
  const std::shared_ptr<SourceOrder> order_;  // null: not in order
  std::uint32_t chunk_ = 0;
  std::uint64_t offset_ = 0;
  std::vector<std::span<std::byte>> pieces_;
  ByteLanes::Filled filled_;
  std::size_t here_ = 0;  // full pieces, which are not asked for again
  SourceMask given_ = 0;
  // Sources whose last turn ended as its hedge broke off: the next one is bounded, too.
  SourceMask hedgeBroke_ = 0;
  bool firstLacks_ = false;
  std::optional<SourceStandings> standings_;  // of several sources
  Clock::duration time_;                      // left for all sources together
  bool located_ = false;                      // a location of the last turn's source came
};

}  // namespace hearth
