// One range of a file, asked of the sources of its dataset one after the other until one has given
// it: the first source or a mirror, as SourceChoice says. On the key's shard.
//
// What must stay true of a mirror's bytes: they are taken only where it is proved that they are
// those of the file. Either the manifest has a SHA-256, with which all that came is compared before
// the file is whole; or the mirror's own strong ETag is the manifest's, which the request demands
// (If-Match) and the answer must repeat. A piece (chunk) is begun afresh with every source: two
// write into one only where a straggler's hedge goes on from it, under the same proof.
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
  // What it uses of its shard. All of it lives longer.
  struct Ports {
    Reactor& reactor;
    const Gate& gate;  // closed when the shard ends
    const ByteLanes& lanes;
    const BufferPool& buffers;  // of which the pieces are
    const EventSink& events;
  };
  // `rounds`: of the file. Once its bytes were wrong it says which source is asked.
  // `file` must remain live while this object is used.
  SourceRequest(Ports ports, const FileReference& file, SourceRounds& rounds);

  // Once. As ByteLanes::fetch, `offset` in the origin's object, but for errors: of a dataset
  // without mirrors they are those of its source. Otherwise only when every source has failed,
  // those that may pass as often as a single one would be tried, or when all together have taken
  // OriginOptions::runTimeout; the code is the first source's, unless that gave wrong bytes, and
  // the message names each with its cause. kOriginChanged of the first source is an error at once,
  // and kCancelled and kTryElsewhere of any. A source that asked to be left alone (Retry-After) is,
  // whatever others do.
  // `pieces`: whole chunks, from `chunk` on.
  [[nodiscard]] Task<Status> run(std::uint32_t chunk, std::uint64_t offset,
                                 std::vector<std::span<std::byte>> pieces,
                                 ByteLanes::Filled filled);
  // Who gave bytes, of sources().
  [[nodiscard]] SourceMask given() const { return given_; }
  [[nodiscard]] const std::shared_ptr<const SourceSet>& sources() const { return set_; }
  // The first source said that it has not the file, or not as it was listed.
  [[nodiscard]] bool firstLacks() const { return firstLacks_; }

 private:
  using Turn = SourceChoice::Turn;

  [[nodiscard]] Task<Status> fromAny();
  // Leaves out mirrors of which nothing could be proved, which is counted, and who gave wrong
  // bytes.
  void leaveOutUnfit();
  // Those that are asked next: one, when they are asked in order.
  [[nodiscard]] SourceMask candidates(Clock::time_point now) const;
  // Until one is due. False: the shard ends.
  [[nodiscard]] Task<bool> rest();

  // One turn. Its status when that is the caller's; nothing: another turn follows.
  [[nodiscard]] Task<std::optional<Status>> take(Turn turn);
  // Location and request of one source. `seen`: where its hedge goes, and what the client notes;
  // null of a dataset without mirrors.
  [[nodiscard]] Task<Status> ask(std::size_t source, std::shared_ptr<OriginElsewhere> seen);
  // What it takes is taken off the time of all sources, and is no part of a turn.
  [[nodiscard]] Task<Result<Location>> locate(std::size_t source, OriginElsewhere* seen);
  [[nodiscard]] Task<Status> request(Location location, OriginExpectation expectation);
  [[nodiscard]] std::optional<OriginExpectation> expectation(std::size_t source) const;
  // `beside`: where its hedge goes, if anywhere else.
  [[nodiscard]] std::shared_ptr<OriginElsewhere> elsewhere(const Turn& turn,
                                                           std::optional<std::size_t> beside,
                                                           bool impatient) const;
  // Others that may be asked when the turn fails.
  [[nodiscard]] SourceMask othersThan(const Turn& turn) const;
  [[nodiscard]] Clock::duration turnTime(const Turn& turn, SourceMask others) const;
  // What came of a turn, for the choice; whether the status is the caller's.
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
  std::size_t here_ = 0;  // pieces that are full: they are not asked for again
  SourceMask given_ = 0;
  // Whose last turn ended as its hedge broke off: the next one is bounded, as that was.
  SourceMask hedgeBroke_ = 0;
  bool firstLacks_ = false;
  std::optional<SourceStandings> standings_;  // of several sources
  Clock::duration time_;                      // that may still be spent, by all sources together
  bool located_ = false;                      // the last turn's source
};

}  // namespace hearth
