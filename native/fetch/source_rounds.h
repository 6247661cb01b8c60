// Records which sources gave the bytes of one file, and says which source is asked once they were
// wrong. From then on the file comes in rounds: in each round all of it comes from one source where
// that can be, so that wrong bytes tell whose they are. A source that gave all of it wrong in a
// round is not asked for it again, whatever others fail with; so the rounds go on until the file is
// right or no source is left. DigestRefusals keeps the rounds for longer than the file is wanted: a
// reader that comes back goes on with them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/dataset_sources.h"

namespace hearth {

// The order of the sources of one set, for one file. On the key's shard, except for members marked
// "any thread".
class SourceOrder {
 public:
  // When the file was wrong wherever it came from, wrong sources are asked again after this long:
  // the origin may have been put right.
  static constexpr auto kWrongHolds = std::chrono::minutes(10);

  // The sources of `among` that did not give all of the file wrong in a round.
  [[nodiscard]] SourceMask admitted(SourceMask among, Clock::time_point now);
  // The source of `among`, admitted ones, to ask next: the round's, for all requests. The round
  // changes its source when that gave up, or asked to be left alone (is not in `due`) while another
  // one may be asked. `well`: sources that answer, as far as is known; a round begins with one of
  // them.
  [[nodiscard]] SourceMask next(SourceMask among, SourceMask due, SourceMask well);
  // A request has asked `source` as often as a single source would be, or it gives nothing: the
  // round goes on with others.
  void gaveUp(std::size_t source) { failed_.fetch_or(bitOfSource(source)); }
  // True: the round has not gone on without `source`. Any thread.
  [[nodiscard]] bool stands(std::size_t source) const { return ((failed_ >> source) & 1) == 0; }

 private:
  friend class SourceRounds;
  // `sources`: the number in the set.
  explicit SourceOrder(std::size_t sources) : sources_(sources) {}
  void beginRound(std::uint32_t timesWrong);
  // Blames `mirror`, which gave some of a wrong file, or is `known` to have given all of it. True:
  // the blame is new.
  bool blame(const SourceSet& set, std::size_t mirror, bool known, const std::string& why,
             Clock::time_point now);
  // Turns convictions of mirrors into suspicions: the first source gave all of the file wrong, too,
  // so the digest may be wrong.
  void onlySuspect(const SourceSet& set, const std::string& why, Clock::time_point now);

  const std::size_t sources_;
  std::uint32_t timesWrong_ = 0;  // rounds in which they gave some of it
  SourceMask given_ = 0;          // gave some of it, since the file was hashed from its beginning
  SourceMask wrong_ = 0;          // gave all of it wrong in a round
  SourceMask convicted_ = 0;      // convicted as liars for this file
  SourceMask suspected_ = 0;      // suspected for this file
  std::size_t from_ = 0;          // the search for the round's source begins here
  std::optional<std::size_t> current_;
  Clock::time_point wrongAt_ = Clock::time_point::min();
  std::atomic<SourceMask> failed_{0};  // in this round
};

// The rounds of one file for all datasets as which it is fetched, each of which numbers its sources
// by itself. On the key's shard.
class SourceRounds {
 public:
  // Where no round tells who gave all, the file gets two rounds for each source, of at most so
  // many.
  static constexpr std::size_t kMaxSourcesTried = 5;

  // Call each time the key is opened. `some`: some of the file is here.
  void open(bool some);
  // True: the file's bytes were wrong. Other agents may hold wrong bytes, too, so the file comes
  // from one source at a time.
  [[nodiscard]] bool inOrder() const { return timesWrong_ != 0; }
  // Null unless inOrder().
  [[nodiscard]] std::shared_ptr<SourceOrder> order(const std::shared_ptr<const SourceSet>& set);

  // Chunks came from `sources`. Only for files that are compared with a digest, until they are.
  void gave(const std::shared_ptr<const SourceSet>& set, SourceMask sources);
  // Chunks came whose sources are not known, as from other agents.
  void gaveOthers() { ofOthers_ = true; }

  // The whole file was hashed, and is right.
  void right();
  // The whole file is wrong: begins another round. A mirror that gave all of it counts as a liar,
  // or as suspected while the first source has done the same. Where several sources or unknown ones
  // gave it, later rounds show whose bytes are wrong. Returns the names of mirrors that are put
  // aside for it now.
  [[nodiscard]] std::vector<std::string> wrong(const std::string& why, Clock::time_point now);
  // True: the file is wrong from every source of the set. `usable`: sources that may be asked for
  // it.
  [[nodiscard]] bool everywhere(const std::shared_ptr<const SourceSet>& set,
                                SourceMask usable) const;
  // Call after everywhere(): all begins again when the file is fetched next. Where the first source
  // was wrong, too, the digest is rather to blame: mirrors are no longer suspected for the file.
  void again();

 private:
  // Forgets the givers: nothing of the file is here.
  void forgetGivers();
  // The order of the one source that gave all; null: several did, or it is not known.
  [[nodiscard]] const SourceOrder* onlyGiver() const;
  [[nodiscard]] SourceOrder& of(const std::shared_ptr<const SourceSet>& set);
  void beginRound();

  std::uint32_t timesWrong_ = 0;
  std::uint32_t timesOfOthers_ = 0;  // of these, with bytes of no set
  bool ofOthers_ = false;
  // Datasets own the sets.
  std::map<std::weak_ptr<const SourceSet>, std::shared_ptr<SourceOrder>, std::owner_less<>> orders_;
};

}  // namespace hearth
