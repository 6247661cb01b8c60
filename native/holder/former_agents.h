// The processes that were agents of an owner: whether all of them have ended, so that none uses
// the owner's memory by a mapping of its own. One thread.
#pragma once

#include <vector>

#include "base/owned_fd.h"

namespace hearth {

class FormerAgents {
 public:
  // So many that have not ended are watched; with more of them it is not known any more.
  static constexpr std::size_t kMax = 16;

  // An agent comes; `continues`: it is one that was there before.
  void arrive(OwnedFd process, bool continues);
  // The connection of the one that is there has ended.
  void leave();
  // The holder before this one has watched them: whether they have all ended, and whether an agent
  // is there, which is to come with `continues`.
  void inherit(bool allEnded, bool attached);
  // Nothing of the owner's is left that they know.
  void forget();
  // But for the agent that is there. False where that is not known.
  [[nodiscard]] bool allEnded() const;

 private:
  // Takes it off the list, and all that have ended.
  void forget(const OwnedFd& process);

  std::vector<OwnedFd> former_;
  OwnedFd present_;
  bool here_ = false;
  bool unknown_ = false;
  bool awaited_ = false;  // the agent of the holder before
};

}  // namespace hearth
