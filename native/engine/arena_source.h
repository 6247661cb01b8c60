// Opens an engine's arena. The holder keeps the arena for the owner's next agent, so that chunks in
// memory outlive an agent's end. open() takes over the arena and index of the previous agent; where
// there are none, or they cannot be trusted, it makes both and gives them to the holder.
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
  bool adopted = false;  // it is the previous agent's
  std::string givenUp;   // why the previous agent's was not taken; empty when there was none
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
    std::uint64_t fewestBytes = 0;  // no less than these
    ArenaPageKind best = ArenaPageKind::kTransparent;
    std::shared_ptr<HolderLink> holder;
    // Former agents' processes get so long to end.
    std::chrono::milliseconds formerAgentsTimeout{10'000};
    // A warning, or a line of information; on the thread of open().
    std::function<void(bool warning, const std::string& line)> log;
  };

  explicit ArenaSource(Options options);
  ~ArenaSource();
  ArenaSource(const ArenaSource&) = delete;
  ArenaSource& operator=(const ArenaSource&) = delete;

  // Call once. Blocks until the holder has answered and former agents have ended, each up to its
  // deadline, and while huge pages are taken. Without a holder the arena is new, and given to the
  // holder that connects later. Where the present holder touches memory, holders take the arena's
  // room and are charged, now and by later calls of Arena::commit(), which are kUnavailable while
  // no holder is there; otherwise the caller takes the room. The result may outlive this object.
  [[nodiscard]] Result<OpenedArena> open();

  // Call after open(). Any thread, never waits. Ok: the holder has what the next agent needs.
  [[nodiscard]] Status kept() const;
  // True: holders take the room, and are charged.
  [[nodiscard]] bool touchedByHolder() const;

  // Name of the arena at the holder: by the kind of pages asked for, so that a request for other
  // pages gets another arena.
  [[nodiscard]] static std::string nameOf(ArenaPageKind best);
  static constexpr char kIndexName[] = "arena-index";

 private:
  class Room;

  // Decides whether the holder takes the arena's room, and how much the arena may have.
  void chooseRoom(const HolderClient& client);
  [[nodiscard]] Result<OpenedArena> adopt(HolderClient& client);
  // Takes the arena from the holder, once no former agent runs any more.
  [[nodiscard]] Result<KeptMemory> takeArena(HolderClient& client) const;
  [[nodiscard]] Result<OpenedArena> create();
  // Makes the holder forget memory that no agent takes any more.
  void dropOthers(HolderClient& client, bool all) const;
  [[nodiscard]] ArenaOptions arenaOptions() const;

  const Options options_;
  const std::string name_;
  const std::shared_ptr<Room> room_;
  std::uint64_t bytes_;
  std::string smaller_;
};

}  // namespace hearth
