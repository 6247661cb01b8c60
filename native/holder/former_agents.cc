#include "holder/former_agents.h"

#include <algorithm>
#include <utility>

#include "holder/peer_process.h"

namespace hearth {

void FormerAgents::arrive(OwnedFd process, bool continues) {
  if (continues) {
    awaited_ = false;
    forget(process);
    // Where the kernel does not say, the one that left last is taken for it.
    if (!former_.empty() && !sameProcess(former_.back(), process)) former_.pop_back();
  }
  present_ = std::move(process);
  here_ = true;
}

void FormerAgents::leave() {
  if (!std::exchange(here_, false)) return;
  forget(present_);  // it is one process, however often it came
  if (!present_ || former_.size() == kMax) {
    unknown_ = true;
    return;
  }
  former_.push_back(std::move(present_));
}

void FormerAgents::forget(const OwnedFd& process) {
  std::erase_if(former_, [&process](const OwnedFd& each) {
    return hasEnded(each) || sameProcess(each, process).value_or(false);
  });
}

void FormerAgents::inherit(bool allEnded, bool attached) {
  unknown_ = unknown_ || !allEnded;
  awaited_ = awaited_ || attached;
}

void FormerAgents::forget() {
  former_.clear();
  unknown_ = false;
  awaited_ = false;
}

bool FormerAgents::allEnded() const {
  return !unknown_ && !awaited_ && std::ranges::all_of(former_, hasEnded);
}

}  // namespace hearth
