#include "directory/key_directory.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>
#include <utility>

#include "directory/placement.h"

namespace hearth {
namespace {

ChunkMask heldOf(const std::vector<ChunkMask>& held, std::uint32_t stripe) {
  return stripe < held.size() ? held[stripe] : ChunkMask{0};
}

void addTo(std::vector<StripeHolder>& agents, const std::string& node, std::uint32_t chunk) {
  const auto known = std::find_if(agents.begin(), agents.end(),
                                  [&](const StripeHolder& each) { return each.node == node; });
  if (known != agents.end()) {
    known->chunks |= bitOf(chunk);
  } else {
    agents.push_back({node, bitOf(chunk)});
  }
}

// A reader that reads through keeps nothing, so the directory sends no other reader to wait for it.
std::size_t readersPerHolder(Intent intent) {
  if (intent == Intent::kRead) return KeyDirectory::kReadersPerHolder;
  if (intent == Intent::kFetch) return KeyDirectory::kDemandReadersPerHolder;
  return std::numeric_limits<std::size_t>::max();
}

const std::string& named(const std::vector<StripeHolder>& agents, std::uint32_t chunk) {
  static const std::string kNone;
  for (const StripeHolder& agent : agents) {
    if ((agent.chunks & bitOf(chunk)) != 0) return agent.node;
  }
  return kNone;
}

}  // namespace

const std::string& LocateAnswer::holderOf(std::uint32_t chunk) const {
  return named(holders, chunk);
}

const std::string& LocateAnswer::fetcherOf(std::uint32_t chunk) const {
  return named(fetchers, chunk);
}

const std::string& LocateAnswer::giverOf(std::uint32_t chunk) const {
  const std::string& holder = holderOf(chunk);
  return holder.empty() && (arriving & bitOf(chunk)) != 0 ? fetcherOf(chunk) : holder;
}

bool KeyDirectory::ended(const Grant& grant, const std::string& asker, TimePoint now) const {
  if (grant.node == asker) return false;
  const auto agent = agents_.find(grant.node);
  return agent == agents_.end() || now - agent->second.lastProgress > kGrantTimeout;
}

bool KeyDirectory::suspected(Grant& grant, const std::string& asker, const FailureReport& failure,
                             TimePoint now) {
  if (grant.node == asker) return false;
  if (grant.node == failure.node) grant.suspectedSince.try_emplace(asker, now);
  const auto since = grant.suspectedSince.find(asker);
  return since != grant.suspectedSince.end() && now - since->second >= kSuspectTimeout;
}

std::vector<KeyDirectory::Neighbour> KeyDirectory::neighboursOf(const std::string& asker,
                                                                std::uint32_t stripe,
                                                                ChunkMask chunks) const {
  std::vector<Neighbour> neighbours;
  for (const auto& [node, agent] : agents_) {
    if (node == asker || (heldOf(agent.held, stripe) & chunks) == 0) continue;
    neighbours.push_back({.node = node,
                          .agent = agent,
                          .distance = distance_ ? distance_(asker, node) : 0,
                          .hash = nodeHash(node)});
  }
  return neighbours;
}

KeyDirectory::Holding KeyDirectory::holdingOf(const std::string& asker,
                                              std::span<const Neighbour> neighbours,
                                              std::uint32_t chunk, Intent intent,
                                              TimePoint now) const {
  const std::uint32_t stripe = chunk / kChunksPerStripe;
  // Of equals another one for each asker and chunk.
  const std::uint64_t item = stripeItem(nodeHash(asker), chunk);
  using Rank = std::tuple<unsigned, std::uint32_t, std::uint64_t>;
  std::optional<std::pair<Rank, const std::string*>> best;
  Holding holding;
  for (const Neighbour& one : neighbours) {
    if ((heldOf(one.agent.held, stripe) & bitOf(chunk)) == 0) continue;
    const bool away = one.agent.awayUntil && now < *one.agent.awayUntil;
    if (away || failureReports_.holds(chunk, asker, one.node, now)) {
      holding.hidden = true;
      continue;
    }
    ++holding.seen;
    if (reads_.readersOf(chunk, one.node) >= readersPerHolder(intent)) {
      holding.busy = true;
      continue;
    }
    const Rank rank(one.distance, one.agent.gave, placementWeight(item, one.hash));
    if (!best || rank < best->first) best.emplace(rank, &one.node);
  }
  if (best) holding.holder = *best->second;
  return holding;
}

void KeyDirectory::noteRead(const std::string& asker, std::uint32_t chunk,
                            const std::string& holder, Intent intent, TimePoint now) {
  if (now - halvedAt_ >= kGaveHalfLife) {
    for (auto& [node, agent] : agents_) agent.gave /= 2;
    halvedAt_ = now;
  }
  ++agents_[holder].gave;
  if (intent != Intent::kReadThrough) reads_.begin(chunk, asker, holder, now);
}

void KeyDirectory::dropStale(const std::string& asker, std::uint32_t chunk, Intent intent,
                             const FailureReport& failure, TimePoint now) {
  // Beside one that keeps nothing the same agent may read the chunk to keep it.
  if (intent != Intent::kReadThrough) reads_.end(chunk, asker);
  if (failure.node.empty()) return;
  if (now - reads_.since(chunk, failure.node) >= kSuspectTimeout) {
    reads_.end(chunk, failure.node);
  }
  // A chunk that it could not give while it was on its way may be there by now.
  const auto failed = failure.held ? agents_.find(failure.node) : agents_.end();
  const std::uint32_t stripe = chunk / kChunksPerStripe;
  if (failed == agents_.end() || (heldOf(failed->second.held, stripe) & bitOf(chunk)) == 0) return;
  if (failureReports_.note(chunk, asker, failure.node, now)) suspects_.insert(failure.node);
}

std::string KeyDirectory::fetcherFor(const std::string& asker, std::uint32_t chunk, Intent intent,
                                     const FailureReport& failure, TimePoint now) {
  auto grant = grants_.find(chunk);
  if (grant != grants_.end() && ended(grant->second, asker, now)) {
    grants_.erase(grant);
    grant = grants_.end();
  }
  if (grant != grants_.end() && suspected(grant->second, asker, failure, now)) {
    // For others its agent may be doing well: it stays theirs until the asker fetches itself.
    if (intent != Intent::kFetch) return {};
    grants_.erase(grant);
    grant = grants_.end();
  }
  if (grant == grants_.end()) {
    if (intent != Intent::kFetch) return {};
    grant = grants_.emplace(chunk, Grant{.node = asker, .suspectedSince = {}}).first;
  }
  return grant->second.node;
}

std::string KeyDirectory::soonAt(const std::string& asker, std::uint32_t chunk, Intent intent,
                                 const Holding& holding, const FailureReport& failure,
                                 TimePoint now, LocateAnswer& answer) {
  std::string other;
  if (holding.busy || holding.hidden) other = reads_.nameReader(chunk, asker, now);
  if (!other.empty() || holding.busy) return other;
  other = fetcherFor(asker, chunk, intent, failure, now);
  const bool keeps = intent == Intent::kRead || intent == Intent::kFetch;
  if (other.empty() || other == asker || !(keeps || intent == Intent::kLookUp)) return other;
  if (reads_.readersOf(chunk, other) >= kReadersOfArriving) {
    std::string reader = reads_.nameReader(chunk, asker, now);
    return reader.empty() ? other : reader;
  }
  answer.arriving |= bitOf(chunk);
  if (keeps) noteRead(asker, chunk, other, intent, now);
  return other;
}

LocateAnswer KeyDirectory::locate(const std::string& node, std::uint32_t stripe, ChunkMask chunks,
                                  Intent intent, const FailureReport& failure, TimePoint now) {
  // A reader that reads through fetches nothing by itself, and no update of it would end its part
  // in the key.
  const bool passive = intent == Intent::kReadThrough || intent == Intent::kInspect;
  if (!passive) agents_[node].wants = true;
  if (stripe >= kMaxStripes) return {};
  // An agent that means to keep a chunk does not have it, whatever it reported before: the report
  // of an eviction may be on its way, or lost. One such request of an agent is under way at a time;
  // others may come late, behind the update that it has the chunk.
  const bool keeps = intent == Intent::kRead || intent == Intent::kFetch;
  if (keeps) {
    std::vector<ChunkMask>& held = agents_[node].held;
    if (stripe < held.size()) held[stripe] &= static_cast<ChunkMask>(~chunks);
  }
  LocateAnswer answer;
  answer.sharers = static_cast<std::uint32_t>(std::count_if(
      agents_.begin(), agents_.end(), [](const auto& agent) { return agent.second.wants; }));
  const std::vector<Neighbour> neighbours = neighboursOf(node, stripe, chunks);
  for (std::uint32_t i = 0; i < kChunksPerStripe; ++i) {
    const std::uint32_t chunk = stripe * kChunksPerStripe + i;
    if ((chunks & bitOf(chunk)) == 0) continue;
    if (intent != Intent::kInspect) dropStale(node, chunk, intent, failure, now);
    const Holding holding = holdingOf(node, neighbours, chunk, intent, now);
    if (!holding.holder.empty()) {
      addTo(answer.holders, holding.holder, chunk);
      if (holding.seen > 1) answer.elsewhere |= bitOf(chunk);
      if (intent != Intent::kLookUp && intent != Intent::kInspect)
        noteRead(node, chunk, holding.holder, intent, now);
      continue;
    }
    const std::string other = soonAt(node, chunk, intent, holding, failure, now, answer);
    if (other == node) {
      if (intent != Intent::kFetch) continue;
      answer.granted |= bitOf(chunk);
      agents_[node].lastProgress = now;
    } else if (!other.empty()) {
      addTo(answer.fetchers, other, chunk);
    }
  }
  return answer;
}

void KeyDirectory::have(const std::string& node, std::uint32_t stripe, ChunkMask chunks,
                        TimePoint now) {
  if (stripe >= kMaxStripes) return;
  Agent& agent = agents_[node];
  agent.lastProgress = now;
  agent.awayUntil.reset();
  if (agent.held.size() <= stripe) agent.held.resize(stripe + 1, 0);
  agent.held[stripe] = chunks;
  const std::uint32_t first = stripe * kChunksPerStripe;
  for (std::uint32_t i = 0; i < kChunksPerStripe; ++i) {
    if ((agent.held[stripe] & bitOf(i)) != 0) reads_.end(first + i, node);
  }
  for (auto grant = grants_.lower_bound(first);
       grant != grants_.end() && grant->first < first + kChunksPerStripe;) {
    if (grant->second.node != node) {
      ++grant;
      continue;
    }
    grant->second.suspectedSince.clear();
    grant =
        (agent.held[stripe] & bitOf(grant->first)) != 0 ? grants_.erase(grant) : std::next(grant);
  }
}

void KeyDirectory::giveUp(const std::string& node, std::uint32_t stripe, ChunkMask chunks) {
  if (stripe >= kMaxStripes) return;
  for (std::uint32_t i = 0; i < kChunksPerStripe; ++i) {
    if ((chunks & bitOf(i)) == 0) continue;
    const std::uint32_t chunk = stripe * kChunksPerStripe + i;
    const auto grant = grants_.find(chunk);
    if (grant != grants_.end() && grant->second.node == node) grants_.erase(grant);
    reads_.end(chunk, node);
  }
}

void KeyDirectory::dropped(const std::string& node) {
  agents_.erase(node);
  reads_.forget(node);
  failureReports_.forget(node);
  suspects_.erase(node);
}

void KeyDirectory::gone(const std::string& node) {
  dropped(node);
  std::erase_if(grants_, [&](const auto& grant) { return grant.second.node == node; });
}

void KeyDirectory::report(const std::string& node, const AgentReport& report, TimePoint now) {
  if (!report.wants && report.held.empty()) return;
  Agent& agent = agents_[node];
  agent.wants = agent.wants || report.wants;
  agent.lastProgress = now;
  for (std::uint32_t stripe = 0; stripe < report.held.size(); ++stripe) {
    if (report.held[stripe] != 0) have(node, stripe, report.held[stripe], now);
  }
  const std::size_t believed = std::min(report.fetching.size(), kMaxReportedGrants);
  for (const std::uint32_t chunk : std::span(report.fetching).first(believed)) {
    if (chunk / kChunksPerStripe < kMaxStripes)
      grants_.try_emplace(chunk, Grant{.node = node, .suspectedSince = {}});
  }
}

std::vector<std::string> KeyDirectory::holders(const std::string& except, std::size_t count,
                                               TimePoint now) const {
  std::vector<std::pair<int, std::string>> found;  // fewer chunks are a greater number
  for (const auto& [node, agent] : agents_) {
    if (node == except || (agent.awayUntil && now < *agent.awayUntil)) continue;
    int chunks = 0;
    for (const ChunkMask mask : agent.held) chunks += std::popcount(mask);
    if (chunks != 0) found.emplace_back(-chunks, node);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> nodes;
  for (auto& [chunks, node] : found) {
    if (nodes.size() < count) nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<std::string> KeyDirectory::suspects(TimePoint now) {
  std::vector<std::string> nodes;
  std::erase_if(suspects_, [&](const std::string& node) {
    const auto agent = agents_.find(node);
    if (agent == agents_.end()) return true;
    std::optional<TimePoint>& asked = agent->second.asked;
    if (asked && now - *asked < kAskAgain) return false;
    asked = now;
    nodes.push_back(node);
    return true;
  });
  return nodes;
}

void KeyDirectory::correct(const std::string& node, const AgentReport& report, TimePoint asked) {
  const auto found = agents_.find(node);
  if (found == agents_.end()) return;
  Agent& agent = found->second;
  agent.awayUntil.reset();
  if (agent.lastProgress > asked) return;
  agent.held = report.held;
}

void KeyDirectory::unanswered(const std::string& node, TimePoint now) {
  const auto agent = agents_.find(node);
  if (agent != agents_.end()) agent->second.awayUntil = now + FailureReports::kLifetime;
}

}  // namespace hearth
