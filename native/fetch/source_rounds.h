// The fetches of one file after its bytes were not those of its digest. From then on the file comes
// in rounds: in each round all of it comes from one source where that can be, so that wrong bytes
// tell whose they are. A source that gave all of it wrong is not asked for it again, whatever
// others fail with; so the rounds end when the file is right or no source is left. DigestRefusals
// keeps the rounds for longer than the file is wanted: a reader that comes back goes on with them.
// On the key's shard, except for members marked "any thread".
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataset/dataset_sources.h"

namespace hearth {

class SourceRounds {
 public:
  // A source that was wrong is asked again after this long: the origin may have been put right.
  static constexpr auto kWrongHolds = std::chrono::minutes(10);
  // Where no round tells who gave all, the file gets two rounds for each source, of at most so
  // many.
  static constexpr std::size_t kMaxSourcesTried = 5;

  // Call each time the key is opened. `some`: some of the file is here.
  void open(bool some);
  // True: the file's bytes were wrong. Other agents may hold wrong bytes, too, so the file comes
  // from one source at a time.
  [[nodiscard]] bool inOrder() const { return timesWrong_ != 0; }

  // Chunks came from `sources` of the set. Only for files that are compared with a digest, until
  // they are. Sources of another set count as unknown ones.
  void gave(const std::shared_ptr<const SourceSet>& set, SourceMask sources);
  // Chunks came from unknown sources, as from other agents.
  void gaveOthers() { ofOthers_ = true; }

  // The source of `view` to ask for all requests of the round, which begins with a source that
  // answers, and changes it only when it gave up. 0: all that have the file gave it wrong.
  [[nodiscard]] SourceMask next(const std::shared_ptr<const SourceSet>& set,
                                const SourceRanking::View& view, Clock::time_point now);
  // A request has asked `source` as often as a single source would be, or it gives nothing, or it
  // asks to be left alone: the round goes on with others.
  void gaveUp(std::size_t source) { gaveUp_.fetch_or(bitOfSource(source)); }
  // True: the round has not gone on without `source`. Any thread.
  [[nodiscard]] bool stands(std::size_t source) const { return !isIn(gaveUp_, source); }
  [[nodiscard]] bool gaveWrong(std::size_t source) const { return isIn(wrong_, source); }

  // The whole file was hashed, and is right.
  void right();
  // The whole file is wrong: begins another round. A mirror that gave all of it is quarantined as a
  // liar; one that gave some is suspected, as is every mirror once the first source gave all of it
  // wrong, since the digest may be wrong then. `why` names the file. Returns the names of mirrors
  // that are quarantined now.
  [[nodiscard]] std::vector<std::string> wrong(const std::string& why, Clock::time_point now);
  // True: the file is wrong from every source of the set. `having`: sources that may be asked for
  // it.
  [[nodiscard]] bool everywhere(const std::shared_ptr<const SourceSet>& set, SourceMask having);
  // Call after everywhere(): all begins again when the file is fetched next. Where the first source
  // was wrong, too, the mirrors' quarantine for this file ends.
  void again();

 private:
  // Datasets with the same mirrors number them alike. With other mirrors the rounds begin again.
  void use(const std::shared_ptr<const SourceSet>& set);
  // The set's source that gave all; nothing: several did, or it is not known.
  [[nodiscard]] std::optional<std::size_t> onlyGiver() const;
  void beginRound();

  std::weak_ptr<const SourceSet> set_;  // datasets own it
  std::vector<std::string> names_;      // of its mirrors
  std::uint32_t timesWrong_ = 0;
  std::string why_;       // of the first time
  SourceMask given_ = 0;  // gave some of it, since the file was hashed from its beginning
  bool ofOthers_ = false;
  SourceMask wrong_ = 0;  // gave all of it, and wrong
  Clock::time_point wrongAt_ = Clock::time_point::min();
  std::optional<std::size_t> current_;  // the round's source
  std::atomic<SourceMask> gaveUp_{0};   // in this round
};

}  // namespace hearth
