#include "volume/follower_list.h"

#include <algorithm>

namespace hearth {
namespace {

// Records that became durable within it count as durable at its beginning.
constexpr Clock::duration kGrain = std::chrono::milliseconds(25);

}  // namespace

FollowerList::FollowerList(const std::vector<std::string>& listed, std::uint64_t firstRecord,
                           Time now)
    : firstRecord_(firstRecord), durable_(firstRecord) {
  for (std::size_t i = 0; i < listed.size(); ++i) {
    nodes_[listed[i]].listed = true;
    nodes_[listed[i]].candidate = i;
  }
  marks_.push_back({firstRecord, now});
}

void FollowerList::setCandidates(const std::vector<std::string>& nodes) {
  for (auto& [name, node] : nodes_) node.candidate.reset();
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes_[nodes[i]].candidate = i;
  std::erase_if(nodes_, [](const auto& entry) {
    return !entry.second.candidate && !entry.second.mayBeListed();
  });
}

void FollowerList::setListed(const std::vector<std::string>& nodes) {
  for (auto& [name, node] : nodes_) {
    node.listed = std::ranges::find(nodes, name) != nodes.end();
    node.asked = false;
    node.leaving = false;
  }
}

void FollowerList::setDurable(std::uint64_t record, Time now) {
  if (record <= durable_) return;
  durable_ = record;
  if (!marks_.empty() && now - marks_.back().at < kGrain) {
    marks_.back().record = record;
  } else {
    marks_.push_back({record, now});
  }
  // A node that lacks one of these is late, whichever it is.
  while (marks_.size() > 1 && marks_[1].at + kMaxLag < now) marks_.pop_front();
}

void FollowerList::setConfirmed(const std::string& node, std::uint64_t record) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  found->second.confirmed = record;
  found->second.diverged = false;
}

void FollowerList::setDiverged(const std::string& node) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  found->second.confirmed = 0;
  found->second.diverged = true;
}

std::optional<FollowerList::Time> FollowerList::behindSince(const Node& node) const {
  if (node.confirmed >= durable_) return std::nullopt;
  const auto lacks =
      std::ranges::find_if(marks_, [&](const Mark& mark) { return mark.record > node.confirmed; });
  return lacks->at;
}

bool FollowerList::isLate(const Node& node, Time now) const {
  const auto since = behindSince(node);
  return since && now - *since >= kMaxLag;
}

bool FollowerList::mayStay(const Node& node, Time now) const {
  return node.candidate && !node.leaving && !node.diverged && !isLate(node, now);
}

bool FollowerList::mayCome(const Node& node, Time now) const {
  const bool paused = node.droppedAt && now - *node.droppedAt < kPause;
  return node.candidate && !node.leaving && !node.diverged && !paused && node.confirmed >= durable_;
}

std::vector<std::string> FollowerList::wanted(Time now) {
  std::vector<std::string> list;
  std::vector<std::pair<std::size_t, std::string>> coming;
  for (auto& [name, node] : nodes_) {
    if (!node.mayBeListed()) {
      if (mayCome(node, now)) coming.emplace_back(*node.candidate, name);
    } else if (mayStay(node, now)) {
      list.push_back(name);
    } else if (!node.leaving) {
      // It stays off until a list without it was written.
      node.leaving = true;
      node.droppedAt = now;
      if (node.candidate) ++dropped_;
    }
  }
  std::ranges::sort(coming);
  for (const auto& [place, name] : coming) {
    if (list.size() >= kMaxFollowers) break;
    nodes_[name].asked = true;
    list.push_back(name);
  }
  std::ranges::sort(list);
  return list;
}

std::optional<FollowerList::Time> FollowerList::nextChange(Time now) const {
  std::optional<Time> next;
  const auto consider = [&](Time at) {
    if (at > now && (!next || at < *next)) next = at;
  };
  for (const auto& [name, node] : nodes_) {
    const auto since = behindSince(node);
    if (node.mayBeListed() && since) consider(*since + kMaxLag);
    if (!node.mayBeListed() && node.droppedAt) consider(*node.droppedAt + kPause);
  }
  return next;
}

bool FollowerList::mayBeListed(const std::string& node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.mayBeListed();
}

bool FollowerList::isCandidate(const std::string& node) const {
  const auto found = nodes_.find(node);
  return found != nodes_.end() && found->second.candidate.has_value();
}

bool FollowerList::hasBegun() const {
  return std::ranges::all_of(nodes_, [this](const auto& entry) {
    return !entry.second.mayBeListed() || entry.second.confirmed >= firstRecord_;
  });
}

bool FollowerList::isInTime(Time now) const {
  return std::ranges::none_of(nodes_, [this, now](const auto& entry) {
    const Node& node = entry.second;
    return node.mayBeListed() && (node.diverged || isLate(node, now));
  });
}

std::uint64_t FollowerList::committed() const {
  std::uint64_t all = durable_;
  for (const auto& [name, node] : nodes_) {
    if (node.mayBeListed()) all = std::min(all, node.confirmed);
  }
  return all;
}

std::vector<FollowerList::Row> FollowerList::rows(Time now) const {
  std::vector<Row> rows;
  for (const auto& [name, node] : nodes_) {
    const auto since = behindSince(node);
    rows.push_back({.node = name,
                    .listed = node.mayBeListed(),
                    .confirmed = node.confirmed,
                    .lag = durable_ - std::min(durable_, node.confirmed),
                    .lagTime = since ? now - *since : Clock::duration{}});
  }
  return rows;
}

}  // namespace hearth
