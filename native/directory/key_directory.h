// The directory of one content key: the agents that hold each of its chunks, fetch them from the
// origin, or want them. A pure state machine: no input/output, no clock of its own. It lives
// on the agent that is first in rendezvous order for the key; losing it loses no bytes, only
// knowledge that the agents can give again (report()).
//
// A chunk that no agent holds or fetches is granted to the first who asks and can fetch it at once.
// Agents ask for as much as they can fetch, all in the same order: so they divide a file by how
// fast they are, and what is on its way is what all of them need next.
//
// A holder gives a chunk to few agents at a time; the others wait for these, and then have more
// holders to choose from. So no agent gives much more than it gets, whichever agent fetched from
// the origin. The nearest holder that is free gives the chunk: zones exchange chunks among
// themselves.
//
// The directory does not send an agent back to a holder that failed it for a while
// (failure_reports.h); it goes on sending other agents. When several agents report the same holder,
// the directory asks the holder for its chunks (suspects()): it believes agents about themselves,
// and about others only their own experience.
//
// Invariant: at any moment at most one agent has the grant to fetch a chunk from the origin. A
// grant ends when its agent reports the chunk, gives it up, is gone, has shown no progress with the
// key for kGrantTimeout while another agent asks, or has failed one asker for kSuspectTimeout: then
// this asker gets the grant. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/generated/constants.h"
#include "directory/active_reads.h"
#include "directory/failure_reports.h"

namespace hearth {

inline constexpr std::uint32_t kChunksPerStripe = kStripeBytes / kChunkBytes;
static_assert(kChunksPerStripe == 16, "a stripe's chunks are a 16-bit mask");
// Of a file of 16 TiB; of what lies behind nothing is believed.
inline constexpr std::size_t kMaxStripes = std::size_t{1} << 18;

// Bit i: chunk i of the stripe is resident.
using ChunkMask = std::uint16_t;
// The chunk's bit in the mask of its stripe.
inline ChunkMask bitOf(std::uint32_t chunk) {
  return static_cast<ChunkMask>(1u << (chunk % kChunksPerStripe));
}

struct StripeHolder {
  std::string node;
  ChunkMask chunks = 0;
  ChunkMask inMemory = 0;  // of these; the rest is on a disk, or where is not known
  auto operator<=>(const StripeHolder&) const = default;
};

// The purpose for which an asker wants chunks.
enum class Intent : std::uint8_t {
  // Learn where they are: runs look while they wait for a turn at the origin, or for room to read.
  // They bring the chunks next, so who looks wants the key and is one of its sharers.
  kLookUp,
  kRead,         // read them now from who is named as their holder
  kFetch,        // fetch them from the origin now, if no agent holds or fetches them
  kReadThrough,  // read them now from who is named as their holder, and keep nothing
  kInspect,      // learn who holds them, and bring none: it changes nothing
};

// About an agent that has just failed the asker; empty: none has.
struct FailureReport {
  std::string node;
  bool held = false;  // it was asked for what it holds, not for what it fetches

  bool operator==(const FailureReport&) const = default;
};

// Where chunks of a stripe can be had. Chunks in none of the masks have to wait.
struct LocateAnswer {
  // The holders to read from, and the chunks to read from each; never the asker. The directory
  // picks the nearest holder, and among equally near ones the holder that gave the least lately.
  std::vector<StripeHolder> holders;
  // Other agents that will have the rest soon: they fetch it from the origin, or read it.
  std::vector<StripeHolder> fetchers;
  // The chunks that the asker itself fetches.
  ChunkMask granted = 0;
  // Agents that want the key, the asker among them unless it reads through: what the origin gives
  // is divided by their number, and who reads through asks the origin for nothing.
  std::uint32_t sharers = 1;
  // Of the chunks that a holder is named for: those that others could give, too.
  ChunkMask elsewhere = 0;
  // Of the chunks that a fetcher is named for: those that it fetches from the origin, and passes on
  // while they come. The asker may read them there at once.
  ChunkMask arriving = 0;

  // The agent that holds the chunk, or else fetches it; empty: none is known.
  [[nodiscard]] const std::string& holderOf(std::uint32_t chunk) const;
  [[nodiscard]] const std::string& fetcherOf(std::uint32_t chunk) const;
  // The agent to read the chunk from now; empty: none.
  [[nodiscard]] const std::string& giverOf(std::uint32_t chunk) const;
};

// The state of an agent's copy of a key, by its own account, when it asks before evicting
// (copy_releases.h).
struct CopyState {
  bool stored = false;  // all that it holds is in its cache file
  std::string asked;  // whom it has asked for leave to evict the key; empty: it has asked no agent
  std::uint64_t request = 0;  // which of its questions that was: LeaveRequest::number

  bool operator==(const CopyState&) const = default;
};

// All that one agent knows of its own part in a key; what report() restores.
struct AgentReport {
  bool wants = false;                   // it brings chunks of it now
  std::vector<ChunkMask> held;          // by stripe; shorter means nothing more
  std::vector<std::uint32_t> fetching;  // chunks whose grant it has
  std::vector<ChunkMask> inMemory;      // of what is held, by stripe
  // None: an agent of a release that evicts without a question.
  std::optional<CopyState> copy = std::nullopt;
};

class KeyDirectory {
 public:
  using TimePoint = Clock::time_point;
  static constexpr std::chrono::seconds kGrantTimeout{30};
  // An agent that was granted a chunk may not know it yet when it is asked for it. Shorter than the
  // asker's attempts take.
  static constexpr std::chrono::milliseconds kSuspectTimeout{300};
  static constexpr std::chrono::seconds kGaveHalfLife{2};
  // Between two queries to an agent that others suspect.
  static constexpr std::chrono::seconds kAskAgain{1};
  // Agents that read one chunk from one other at the same time, while no reader waits for the
  // bytes.
  static constexpr std::size_t kReadersPerHolder = 2;
  // While one does: more of them would get the bytes from there later than from one of these.
  static constexpr std::size_t kDemandReadersPerHolder = 8;
  // That read a chunk from its fetcher while it comes from the origin: for as long as the origin
  // gives less to each agent than their links carry, all of them have it at the origin's pace.
  static constexpr std::size_t kReadersOfArriving = 8;
  // Grants of one report. Each is a chunk for which its agent has memory: no agent has as many.
  static constexpr std::size_t kMaxReportedGrants = std::size_t{1} << 14;

  // How far two agents are from one another; equal for all if it is not given.
  using Distance = std::function<unsigned(const std::string& asker, const std::string& holder)>;

  // It goes by what agents ask and report, and by no size of the file: who is wrong about that
  // would hide from all others what lies behind.
  explicit KeyDirectory(Distance distance = {}) : distance_(std::move(distance)) {}

  // `node` wants these chunks of the stripe, and stores what it reads or fetches, unless it
  // reads through, which makes it no agent of the key. The agent of `failure` is not named to it
  // as a holder of them for a while, or loses its grants of them to the asker when it goes on
  // failing it.
  [[nodiscard]] LocateAnswer locate(const std::string& node, std::uint32_t stripe, ChunkMask chunks,
                                    Intent intent, const FailureReport& failure, TimePoint now);
  // `node` holds these chunks of the stripe now (all that it holds, not only what is new).
  void have(const std::string& node, std::uint32_t stripe, ChunkMask chunks, TimePoint now);
  // The grants of these chunks are given back unused, or what came of them was not kept: no agent
  // is sent to wait for `node` any more.
  void giveUp(const std::string& node, std::uint32_t stripe, ChunkMask chunks);
  // `node` has evicted the key, so it no longer wants it either; it asks when it does again.
  void dropped(const std::string& node);
  // `node` left the cluster or restarted.
  void gone(const std::string& node);
  // Takes an agent's answer to the question for its part. Believes the first kMaxReportedGrants of
  // its grants.
  void report(const std::string& node, const AgentReport& report, TimePoint now);

  // Agents that several others report as not giving their chunks, and that the directory has not
  // asked lately. The caller asks them now, and calls correct() or unanswered() with the outcome.
  [[nodiscard]] std::vector<std::string> suspects(TimePoint now);
  // `node` said that it holds this and nothing else when it was asked, at `asked`; what it has
  // reported since is newer.
  void correct(const std::string& node, const AgentReport& report, TimePoint asked);
  // It does not answer us either: for FailureReports::kLifetime, or until it reports something, it
  // is not named as a holder.
  void unanswered(const std::string& node, TimePoint now);

  // At most `count` agents without `except` that were reported to hold some of the key and are not
  // known to be away; who holds the most chunks first.
  [[nodiscard]] std::vector<std::string> holders(const std::string& except, std::size_t count,
                                                 TimePoint now) const;

  [[nodiscard]] bool empty() const { return agents_.empty(); }

 private:
  struct Agent {
    bool wants = false;
    std::vector<ChunkMask> held;
    TimePoint lastProgress;              // with what it was granted
    std::optional<TimePoint> asked;      // as a suspect
    std::optional<TimePoint> awayUntil;  // not named before
    std::uint32_t gave = 0;  // chunks that others were sent to it for; halved every kGaveHalfLife
  };
  // Another agent as one request sees it: what decides between holders is computed once, not once a
  // chunk. Refers into agents_.
  struct Neighbour {
    const std::string& node;
    const Agent& agent;
    unsigned distance;
    std::uint64_t hash;
  };
  struct Grant {
    std::string node;
    // Agents that fail to read from the grant's agent, each with the time of its first failure.
    std::map<std::string, TimePoint> suspectedSince;
  };

  [[nodiscard]] bool ended(const Grant& grant, const std::string& asker, TimePoint now) const;
  // The asker cannot get the chunk from whom it was granted to.
  [[nodiscard]] static bool suspected(Grant& grant, const std::string& asker,
                                      const FailureReport& failure, TimePoint now);
  // The holders of the chunk, as one asker may use them.
  struct Holding {
    std::string holder;   // whom the asker may read it from; empty: none, or those that do are busy
    bool busy = false;    // there is none only because they are
    bool hidden = false;  // there is a holder from which the asker could not read it
    std::size_t seen = 0;  // those whom the asker may read it from, now or later
  };
  // Agents other than the asker that hold any of these chunks.
  [[nodiscard]] std::vector<Neighbour> neighboursOf(const std::string& asker, std::uint32_t stripe,
                                                    ChunkMask chunks) const;
  [[nodiscard]] Holding holdingOf(const std::string& asker, std::span<const Neighbour> neighbours,
                                  std::uint32_t chunk, Intent intent, TimePoint now) const;
  void noteRead(const std::string& asker, std::uint32_t chunk, const std::string& holder,
                Intent intent, TimePoint now);
  // Drops what no longer holds now that the asker asks for the chunk again.
  void dropStale(const std::string& asker, std::uint32_t chunk, Intent intent,
                 const FailureReport& failure, TimePoint now);
  // The agent that has the chunk soon, although no holder could give it now; may grant the chunk to
  // the asker. `answer` notes that the asker may read it there while it comes.
  [[nodiscard]] std::string soonAt(const std::string& asker, std::uint32_t chunk, Intent intent,
                                   const Holding& holding, const FailureReport& failure,
                                   TimePoint now, LocateAnswer& answer);
  // Grants the chunk to the asker if no other fetches it. Returns the agent that fetches it now.
  [[nodiscard]] std::string fetcherFor(const std::string& asker, std::uint32_t chunk, Intent intent,
                                       const FailureReport& failure, TimePoint now);

  const Distance distance_;
  std::map<std::string, Agent> agents_;
  std::map<std::uint32_t, Grant> grants_;  // by chunk
  ActiveReads reads_;
  FailureReports failureReports_;
  std::set<std::string> suspects_;  // not asked yet
  TimePoint halvedAt_{};
};

}  // namespace hearth
