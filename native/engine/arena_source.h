// Where an engine's arena comes from: the holder keeps it for the owner's next agent, so that what
// is in memory outlives an agent's end. What an agent before has left is taken over with its index;
// where there is none, or it is not to be trusted, both are made and given to the holder.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "arena/arena.h"
#include "arena/arena_index.h"
#include "base/result.h"

namespace hearth {

class HolderClient;
class HolderLink;
struct KeptMemory;

// How an engine came by its arena.
struct ArenaOrigin {
  bool adopted = false;  // it is that of the agent before
  std::string givenUp;   // why the one of the agent before was not taken; empty when none was there
  std::string smaller;   // why it is smaller than was asked for; empty when it is not
};

struct OpenedArena {
  std::unique_ptr<Arena> arena;
  std::unique_ptr<ArenaIndex> index;  // of it
  ArenaFindings found;                // its quarantine is released, but for `quarantined`
  ArenaOrigin origin;
};

class ArenaSource {
 public:
  struct Options {
    std::uint64_t bytes = 0;        // as ArenaOptions; less where the holder touches no more
    std::uint64_t fewestBytes = 0;  // not less than these
    ArenaPageKind best = ArenaPageKind::kTransparent;
    std::shared_ptr<HolderLink> holder;
    // Processes that had the arena before get so long to end.
    std::chrono::milliseconds formerAgentsTimeout{10'000};
    // A warning, or a line of information; on the thread of open().
    std::function<void(bool warning, const std::string& line)> log;
  };

  explicit ArenaSource(Options options);
  ~ArenaSource();
  ArenaSource(const ArenaSource&) = delete;
  ArenaSource& operator=(const ArenaSource&) = delete;

  // Once. Blocks until the holder has answered and the agents before have ended, each up to its
  // deadline, and while huge pages are taken. Without a holder the arena is new, and given to the
  // holder that is connected later. Where the holder of this moment touches memory, holders take
  // the arena's room and are charged, now and by later calls of Arena::commit(), which are
  // kUnavailable while none is there; else whoever calls. What it gives may outlive this object.
  [[nodiscard]] Result<OpenedArena> open();

  // After open(). Any thread, never waits. Whether the holder has what the next agent needs.
  [[nodiscard]] Status kept() const;
  // Whether holders take the room, and are charged.
  [[nodiscard]] bool touchedByHolder() const;

  // Name of the arena at the holder: by the pages that were asked for, so that who asks for others
  // gets another arena.
  [[nodiscard]] static std::string nameOf(ArenaPageKind best);
  static constexpr char kIndexName[] = "arena-index";

 private:
  class Room;

  // Who takes the arena's room, and how much that may be.
  void chooseRoom(const HolderClient& client);
  [[nodiscard]] Result<OpenedArena> adopt(HolderClient& client);
  // As the holder has it when no former agent runs any more.
  [[nodiscard]] Result<KeptMemory> takeArena(HolderClient& client) const;
  [[nodiscard]] Result<OpenedArena> create();
  // Lets the holder forget what no agent takes any more.
  void dropOthers(HolderClient& client, bool all) const;
  [[nodiscard]] ArenaOptions arenaOptions() const;

  const Options options_;
  const std::string name_;
  const std::shared_ptr<Room> room_;
  std::uint64_t bytes_;
  std::string smaller_;
};

}  // namespace hearth
