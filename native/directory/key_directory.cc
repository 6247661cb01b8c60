#include "directory/key_directory.h"

#include <algorithm>
#include <bit>

#include "directory/placement.h"

namespace hearth {
namespace {

// An answer names no more holders: the asker tries one or two before it asks again.
constexpr std::size_t kHoldersNamed = 4;

ChunkMask heldOf(const std::vector<ChunkMask>& held, std::uint32_t stripe) {
  return stripe < held.size() ? held[stripe] : ChunkMask{0};
}

}  // namespace

KeyDirectory::KeyDirectory(ContentKey key, std::uint64_t size)
    : prefix_(key.prefix()),
      chunks_((size + kChunkBytes - 1) / kChunkBytes),
      stripes_(static_cast<std::uint32_t>((size + kStripeBytes - 1) / kStripeBytes)) {}

ChunkMask KeyDirectory::whole(std::uint32_t stripe) const {
  const std::uint64_t first = std::uint64_t{stripe} * kChunksPerStripe;
  const std::uint64_t count =
      first >= chunks_ ? 0 : std::min<std::uint64_t>(kChunksPerStripe, chunks_ - first);
  return static_cast<ChunkMask>((1u << count) - 1);
}

const std::string& KeyDirectory::assignee(std::uint32_t stripe, const std::string& asker,
                                          std::string_view avoid) const {
  const std::uint64_t item = stripeItem(prefix_, stripe);
  const std::string* best = &asker;
  std::uint64_t bestWeight = placementWeight(item, nodeHash(asker));
  for (const auto& [node, agent] : agents_) {
    if (!agent.wants || node == avoid) continue;
    const std::uint64_t weight = placementWeight(item, nodeHash(node));
    if (weight > bestWeight) {
      best = &node;
      bestWeight = weight;
    }
  }
  return *best;
}

bool KeyDirectory::ended(Grant& grant, const std::string& asker, std::string_view avoid,
                         TimePoint now) {
  if (grant.node == asker) return false;
  if (now - grant.lastProgress > kGrantPatience) return true;
  if (grant.node != avoid) return false;
  if (!grant.taken) return true;
  if (!grant.doubted) grant.doubted = now;
  return now - *grant.doubted >= kDoubtPatience;
}

LocateAnswer KeyDirectory::locate(const std::string& node, std::uint32_t stripe,
                                  std::string_view avoid, TimePoint now) {
  agents_[node].wants = true;
  const auto failed = agents_.find(std::string(avoid));
  if (failed != agents_.end() && stripe < failed->second.held.size())
    failed->second.held[stripe] = 0;
  LocateAnswer answer;
  ChunkMask covered = heldOf(agents_[node].held, stripe);
  for (const auto& [holder, agent] : agents_) {
    const ChunkMask chunks = heldOf(agent.held, stripe);
    if (holder == node || chunks == 0) continue;
    answer.holders.push_back({holder, chunks});
    covered |= chunks;
  }
  // The fullest first; equals in an order that differs from asker to asker, so that they share the
  // load.
  const std::uint64_t spread = nodeHash(node) ^ stripe;
  std::sort(answer.holders.begin(), answer.holders.end(),
            [&](const StripeHolder& a, const StripeHolder& b) {
              const int countA = std::popcount(a.chunks), countB = std::popcount(b.chunks);
              if (countA != countB) return countA > countB;
              return placementWeight(spread, nodeHash(a.node)) >
                     placementWeight(spread, nodeHash(b.node));
            });
  if (answer.holders.size() > kHoldersNamed) answer.holders.resize(kHoldersNamed);

  auto grant = grants_.find(stripe);
  if (grant != grants_.end() && ended(grant->second, node, avoid, now)) {
    grants_.erase(grant);
    grant = grants_.end();
  }
  if (grant == grants_.end() && covered == whole(stripe)) return answer;
  if (grant == grants_.end()) {
    grant =
        grants_.emplace(stripe, Grant{.node = assignee(stripe, node, avoid), .lastProgress = now})
            .first;
  }
  answer.fetcher = grant->second.node;
  answer.granted = answer.fetcher == node;
  if (answer.granted) {
    grant->second.lastProgress = now;
    grant->second.taken = true;
  }
  return answer;
}

void KeyDirectory::have(const std::string& node, std::uint32_t stripe, ChunkMask chunks,
                        TimePoint now) {
  if (stripe >= stripes_) return;
  auto& held = agents_[node].held;
  if (held.size() <= stripe) held.resize(stripe + 1, 0);
  held[stripe] = chunks & whole(stripe);
  const auto grant = grants_.find(stripe);
  if (grant == grants_.end() || grant->second.node != node) return;
  if (held[stripe] == whole(stripe)) {
    grants_.erase(grant);
  } else {
    grant->second.lastProgress = now;
    grant->second.doubted.reset();
  }
}

void KeyDirectory::giveUp(const std::string& node, std::uint32_t stripe) {
  const auto grant = grants_.find(stripe);
  if (grant != grants_.end() && grant->second.node == node) grants_.erase(grant);
}

void KeyDirectory::dropped(const std::string& node) { agents_.erase(node); }

void KeyDirectory::gone(const std::string& node) {
  agents_.erase(node);
  std::erase_if(grants_, [&](const auto& grant) { return grant.second.node == node; });
}

void KeyDirectory::report(const std::string& node, const AgentReport& report, TimePoint now) {
  if (!report.wants && report.held.empty()) return;
  Agent& agent = agents_[node];
  agent.wants = agent.wants || report.wants;
  for (std::uint32_t stripe = 0; stripe < report.held.size() && stripe < stripes_; ++stripe) {
    if (report.held[stripe] != 0) have(node, stripe, report.held[stripe], now);
  }
  for (const std::uint32_t stripe : report.fetching) {
    if (stripe < stripes_)
      grants_.try_emplace(stripe, Grant{.node = node, .lastProgress = now, .taken = true});
  }
}

}  // namespace hearth
