// Which sources gave the bytes of one file, and from which it comes once they were wrong: in
// rounds, in each of which all of it comes from one source where that can be, so that they say
// whose they are. A source that gave all of it in a round, and was wrong, is not asked for it
// again, whatever others fail with: so what is left is tried until it is right, or until none is
// left. That is known for longer than the file is wanted (DigestRefusals): who reads it again and
// again goes on with the rounds.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/dataset_sources.h"

namespace hearth {

// Of the sources of one set, for one file. On the key's shard, except where "any thread" is said.
class SourceOrder {
 public:
  // The file was wrong wherever it came from: it is asked for again where it was wrong after that.
  // The origin may have been put right.
  static constexpr auto kWrongHolds = std::chrono::minutes(10);

  // Those of `among` that did not give all of the file wrong in a round.
  [[nodiscard]] SourceMask admitted(SourceMask among, Clock::time_point now);
  // Of `among`, admitted ones, the source that is asked next: the round's, for all requests. It
  // changes when that gave up, or asked to be left alone (is not in `due`) while another one may be
  // asked. `well`: that answer, as far as is known; a round begins with one of them.
  [[nodiscard]] SourceMask next(SourceMask among, SourceMask due, SourceMask well);
  // A request has asked it as often as a single source would be, or it gives nothing: the round
  // goes on with others.
  void gaveUp(std::size_t source) { failed_.fetch_or(bitOfSource(source)); }
  // The round has not gone on without it. Any thread.
  [[nodiscard]] bool stands(std::size_t source) const { return ((failed_ >> source) & 1) == 0; }

 private:
  friend class SourceRounds;
  // `sources`: so many are in the set.
  explicit SourceOrder(std::size_t sources) : sources_(sources) {}
  void beginRound(std::uint32_t timesWrong);
  // `mirror` gave some of it, or is `known` to have given all, and that was wrong. Whether that is
  // new.
  bool blame(const SourceSet& set, std::size_t mirror, bool known, const std::string& why,
             Clock::time_point now);
  // The first gave all of it wrong, too: rather than mirrors it may be the digest that is wrong.
  void onlySuspect(const SourceSet& set, const std::string& why, Clock::time_point now);

  const std::size_t sources_;
  std::uint32_t timesWrong_ = 0;  // when they had given some of it
  SourceMask given_ = 0;          // some of it, since the file was hashed from its beginning
  SourceMask wrong_ = 0;          // all of it in a round, and that was wrong
  SourceMask convicted_ = 0;      // as liars, for this file
  SourceMask suspected_ = 0;      // for this file
  std::size_t from_ = 0;          // the round's source is looked for from here on
  std::optional<std::size_t> current_;
  Clock::time_point wrongAt_ = Clock::time_point::min();
  std::atomic<SourceMask> failed_{0};  // in this round
};

// Of one file, whichever datasets it is fetched as: each has numbers of its own for its sources. On
// the key's shard.
class SourceRounds {
 public:
  // So many rounds at last, where it is never known who gave all: two for each of so many sources.
  static constexpr std::size_t kMaxSourcesTried = 5;

  // When the key is opened, also again. `some`: some of it is here.
  void open(bool some);
  // Its bytes were wrong: what other agents hold of it may be as wrong, and it comes from one
  // source at a time.
  [[nodiscard]] bool inOrder() const { return timesWrong_ != 0; }
  // Null while it is not in order.
  [[nodiscard]] std::shared_ptr<SourceOrder> order(const std::shared_ptr<const SourceSet>& set);

  // Chunks came from these. Only of files that are compared with a digest: it is known until then.
  void gave(const std::shared_ptr<const SourceSet>& set, SourceMask sources);
  // Chunks came of which that is not known, as from other agents.
  void gaveOthers() { ofOthers_ = true; }

  // All of it was hashed, and is right.
  void right();
  // All of it is wrong, for the reason given: another round begins. A mirror that gave all is known
  // to lie, or suspected while the first source has done the same. Of several sources, or where it
  // is not known who gave all, whose bytes are wrong shows when all come from one. Returns the
  // names of mirrors that are put aside for it now.
  [[nodiscard]] std::vector<std::string> wrong(const std::string& why, Clock::time_point now);
  // So it is wherever it comes from, of `usable` ones of the set: those that may be asked for it.
  [[nodiscard]] bool everywhere(const std::shared_ptr<const SourceSet>& set,
                                SourceMask usable) const;
  // After that: all begins again when it is fetched next. Where the first source and mirrors were
  // all wrong it is rather the digest that is: the mirrors are not suspected for it.
  void again();

 private:
  // Nothing of it is here.
  void forgetGivers();
  // Of the one source that gave all; null: several did, or it is not known.
  [[nodiscard]] const SourceOrder* onlyGiver() const;
  [[nodiscard]] SourceOrder& of(const std::shared_ptr<const SourceSet>& set);
  void beginRound();

  std::uint32_t timesWrong_ = 0;
  std::uint32_t timesOfOthers_ = 0;  // of these, with nothing of any set
  bool ofOthers_ = false;
  // The sets are those of datasets, and go with them.
  std::map<std::weak_ptr<const SourceSet>, std::shared_ptr<SourceOrder>, std::owner_less<>> orders_;
};

}  // namespace hearth
