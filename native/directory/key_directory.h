// The directory of one content key: who holds which of its stripes, who fetches them from the
// origin, and who wants them. A pure state machine: no input/output, no clock of its own. It lives
// on the agent that is first in rendezvous order for the key; losing it loses no bytes, only
// knowledge that the agents can give again (report()).
//
// What must stay true: at any moment at most one agent has the grant to fetch a stripe from the
// origin. A grant ends when its agent reports the stripe whole, gives it up, is gone, has shown no
// progress for kGrantPatience while somebody else asks, or cannot be read from: at once before it
// has taken the grant up, after kDoubtPatience when it is fetching. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/content_key.h"
#include "base/generated/constants.h"

namespace hearth {

inline constexpr std::uint32_t kChunksPerStripe = kStripeBytes / kChunkBytes;
static_assert(kChunksPerStripe == 16, "a stripe's chunks are a 16-bit mask");

// Bit i: chunk i of the stripe is resident.
using ChunkMask = std::uint16_t;

struct StripeHolder {
  std::string node;
  ChunkMask chunks = 0;
  auto operator<=>(const StripeHolder&) const = default;
};

// Where a stripe can be had.
struct LocateAnswer {
  // Agents that hold some of it, the fullest first; never the asker.
  std::vector<StripeHolder> holders;
  // Who fetches from the origin what no holder has: the asker itself when `granted`.
  std::string fetcher;
  bool granted = false;
};

// All that one agent knows of its own part in a key; what report() restores.
struct AgentReport {
  bool wants = false;
  std::vector<ChunkMask> held;          // by stripe; shorter means nothing more
  std::vector<std::uint32_t> fetching;  // stripes whose grant it has
};

class KeyDirectory {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kGrantPatience{30};
  // An agent that has just begun may have turned somebody away a moment before. Shorter than the
  // asker's attempts take.
  static constexpr std::chrono::milliseconds kDoubtPatience{300};

  KeyDirectory(ContentKey key, std::uint64_t size);

  [[nodiscard]] std::uint32_t stripes() const { return stripes_; }
  // The mask of a whole stripe (the last one may be short).
  [[nodiscard]] ChunkMask whole(std::uint32_t stripe) const;

  // `node` wants this stripe and stores what it gets. `avoid`: an agent that just failed the asker;
  // it is neither named as holder nor kept as fetcher.
  [[nodiscard]] LocateAnswer locate(const std::string& node, std::uint32_t stripe,
                                    std::string_view avoid, TimePoint now);
  // `node` holds these chunks of the stripe now (all that it holds, not only news).
  void have(const std::string& node, std::uint32_t stripe, ChunkMask chunks, TimePoint now);
  // The grant is given back unused.
  void giveUp(const std::string& node, std::uint32_t stripe);
  // `node` has evicted the key, so it no longer wants it either; it asks when it does again.
  void dropped(const std::string& node);
  // `node` left the cluster or restarted.
  void gone(const std::string& node);
  // What an agent answered when asked for its part.
  void report(const std::string& node, const AgentReport& report, TimePoint now);

  [[nodiscard]] bool empty() const { return agents_.empty(); }

 private:
  struct Agent {
    bool wants = false;
    std::vector<ChunkMask> held;
  };
  struct Grant {
    std::string node;
    TimePoint lastProgress;
    bool taken = false;  // its agent knows of it
    // Since when somebody fails to read from its agent.
    std::optional<TimePoint> doubted;
  };

  [[nodiscard]] static bool ended(Grant& grant, const std::string& asker, std::string_view avoid,
                                  TimePoint now);

  [[nodiscard]] const std::string& assignee(std::uint32_t stripe, const std::string& asker,
                                            std::string_view avoid) const;

  std::uint64_t prefix_;
  std::uint64_t chunks_;
  std::uint32_t stripes_;
  std::map<std::string, Agent> agents_;
  std::map<std::uint32_t, Grant> grants_;
};

}  // namespace hearth
