#include "engine/arena_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "mount/holder_link.h"

namespace hearth {
namespace {

constexpr std::string_view kNamePrefix = "arena.";
// Pause between two questions whether former agents have ended.
constexpr auto kEndPause = std::chrono::milliseconds(20);
// Bytes touched by one call: other calls to the holder pass in between.
constexpr std::uint64_t kTouchedAtOnce = 64ULL << 20;

// Higher than the generation of any memory that agents of this machine have given to a holder.
std::uint64_t nextGeneration() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

// Gives an arena to the holder and takes its room there. Any thread.
class ArenaSource::Room {
 public:
  Room(std::shared_ptr<HolderLink> holder, std::string name)
      : holder_(std::move(holder)), name_(std::move(name)) {}

  // From now on holders take the room.
  void takeByHolder() { byHolder_ = true; }
  // The holder has this file already.
  void noteKept(std::uint64_t inode) { kept_ = inode; }

  Status keep(int file) {
    struct stat about {};
    if (::fstat(file, &about) != 0) return errnoError(errno, "looking at memory for chunks");
    if (kept_ == about.st_ino) return {};
    const OwnedFd copy(::fcntl(file, F_DUPFD_CLOEXEC, 0));
    if (!copy) return errnoError(errno, "copying the descriptor of memory for chunks");
    HolderMemory memory;
    memory.name = name_;
    memory.bytes = static_cast<std::uint64_t>(about.st_size);
    memory.generation = nextGeneration();
    const Status kept = holder_->keep(memory, copy);
    if (kept.ok()) kept_ = about.st_ino;
    return kept;
  }

  // As ArenaTouch.
  Result<TouchedMemory> touch(int file, std::uint64_t offset, std::uint64_t bytes) {
    if (!byHolder_) return touchMemory(file, offset, bytes);
    const std::shared_ptr<HolderClient> client = holder_->client();
    if (client == nullptr) return away();
    // The holder touches only memory that it keeps; huge pages are touched before there is an
    // arena.
    if (Status kept = keep(file); !kept.ok()) return kept.error();
    const auto page = pageBytesOf(file);
    if (!page.ok()) return page.error();
    const auto huge =
        client->touchMemory(name_, offset, bytes, std::max<std::uint64_t>(kTouchedAtOnce, *page));
    if (huge.ok()) return TouchedMemory{*huge};
    return client->alive() ? huge.error() : away();
  }

  [[nodiscard]] bool byHolder() const { return byHolder_; }

 private:
  static Error away() {
    return {ErrorCode::kUnavailable,
            "the mount holder, which is charged for memory for chunks, is away"};
  }

  const std::shared_ptr<HolderLink> holder_;
  const std::string name_;
  std::atomic<std::uint64_t> kept_{0};  // the inode of the file given last
  std::atomic<bool> byHolder_{false};
};

ArenaSource::ArenaSource(Options options)
    : options_(std::move(options)),
      name_(nameOf(options_.best)),
      room_(std::make_shared<Room>(options_.holder, name_)),
      bytes_(options_.bytes) {}

ArenaSource::~ArenaSource() = default;

std::string ArenaSource::nameOf(ArenaPageKind best) {
  return std::string(kNamePrefix) + std::string(arenaPageKindName(best));
}

Status ArenaSource::kept() const {
  if (Status arena = options_.holder->keeps(name_); !arena.ok()) return arena;
  return options_.holder->keeps(kIndexName);
}

bool ArenaSource::touchedByHolder() const { return room_->byHolder(); }

ArenaOptions ArenaSource::arenaOptions() const {
  ArenaOptions arena;
  arena.bytes = bytes_;
  arena.best = options_.best;
  arena.touch = [room = room_](int file, std::uint64_t offset, std::uint64_t bytes) {
    return room->touch(file, offset, bytes);
  };
  return arena;
}

Result<OpenedArena> ArenaSource::open() {
  const Status connected = options_.holder->connect();
  if (!connected.ok() && options_.holder->configured())
    options_.log(true,
                 "memory for chunks does not outlive this agent yet: " + connected.error().message);
  const std::shared_ptr<HolderClient> client = options_.holder->client();
  std::string givenUp;
  if (client != nullptr) {
    chooseRoom(*client);
    auto adopted = adopt(*client);
    if (adopted.ok()) adopted->origin.smaller = smaller_;
    if (adopted.ok()) return adopted;
    if (adopted.code() != ErrorCode::kNotFound) {
      givenUp = adopted.error().message;
      options_.log(
          true, "the memory for chunks of the agent before is given up for a new one: " + givenUp);
    }
    dropOthers(*client, true);
  }
  auto made = create();
  if (made.ok()) made->origin = {false, std::move(givenUp), smaller_};
  return made;
}

void ArenaSource::chooseRoom(const HolderClient& client) {
  const std::uint64_t most = client.holder().touchBytes;
  if (most == 0) return;
  room_->takeByHolder();
  if (most >= bytes_) return;
  bytes_ = std::max(most, options_.fewestBytes);
  smaller_ =
      "it is " + mebibytes(bytes_) + " and not " + mebibytes(options_.bytes) +
      ", as the mount holder touches no more (--arena-bytes); replace that while the agent "
      "runs (delete its pod, or start hearth-holder --take-over), then start the agent again";
  options_.log(true, "memory for chunks: " + smaller_);
}

Result<KeptMemory> ArenaSource::takeArena(HolderClient& client) const {
  const auto until = Clock::now() + options_.formerAgentsTimeout;
  for (;;) {
    auto kept = client.takeMemory(name_);
    if (!kept.ok() || kept->record.usersGone) return kept;
    if (Clock::now() >= until) {
      return Error{ErrorCode::kInUse,
                   "a process that was the agent before may still write into it: the mount holder "
                   "has not seen it end within " +
                       std::to_string(options_.formerAgentsTimeout.count()) + " ms"};
    }
    std::this_thread::sleep_for(kEndPause);
  }
}

Result<OpenedArena> ArenaSource::adopt(HolderClient& client) {
  auto kept = takeArena(client);
  if (!kept.ok()) return kept.error();
  const HolderMemory record = kept->record;
  const auto page = pageBytesOf(kept->descriptor.get());
  if (!page.ok()) return page.error();
  const std::uint64_t unit = std::max<std::uint64_t>(*page, kChunkBytes);
  if (record.bytes != bytes_ / unit * unit) {
    return Error{ErrorCode::kInvalidArgument, "it has " + mebibytes(record.bytes) + ", and " +
                                                  mebibytes(bytes_) + " are wanted"};
  }
  struct stat about {};
  if (::fstat(kept->descriptor.get(), &about) != 0)
    return errnoError(errno, "looking at memory for chunks");
  // The holder demands only a seal against shrinking, and every slot that is set up must have room.
  if (static_cast<std::uint64_t>(about.st_size) != record.bytes) {
    return Error{ErrorCode::kInvalidArgument, "it is not as long as the mount holder says"};
  }
  room_->noteKept(about.st_ino);
  auto arena = Arena::adopt(std::move(kept->descriptor), arenaOptions());
  if (!arena.ok()) return arena.error();
  auto index = client.takeMemory(kIndexName);
  // An agent that ended after it gave the arena and before it gave the index has left no index.
  if (!index.ok()) return Error{ErrorCode::kInvalidArgument, "what is in it is not known"};
  auto adopted = ArenaIndex::adopt(**arena, std::move(index->descriptor));
  if (!adopted.ok()) return adopted.error();
  OpenedArena opened{
      std::move(*arena), std::move(adopted->index), std::move(adopted->findings), {}};
  if (!opened.found.refused.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "what is in it is not known: of its index, " + opened.found.refused};
  }
  opened.found.quarantined = opened.index->releaseQuarantine(*opened.arena);
  opened.origin.adopted = true;
  // Lets the next holder have them: this one has them already.
  if (Status same = options_.holder->keep(record, opened.arena->file()); !same.ok())
    return same.error();
  if (Status same = options_.holder->keep(index->record, opened.index->file()); !same.ok())
    return same.error();
  options_.log(false,
               "took over the memory for chunks of the agent before: " + mebibytes(record.bytes) +
                   " with " + std::to_string(opened.found.valid.size()) + " chunks");
  dropOthers(client, false);
  return opened;
}

Result<OpenedArena> ArenaSource::create() {
  OpenedArena opened;
  auto arena = Arena::create(arenaOptions());
  if (!arena.ok()) return arena.error();
  opened.arena = std::move(*arena);
  auto index = ArenaIndex::create(*opened.arena);
  if (!index.ok()) return index.error();
  opened.index = std::move(*index);
  HolderMemory record;
  record.name = kIndexName;
  record.bytes = opened.index->bytes();
  record.generation = nextGeneration();
  Status kept = room_->keep(opened.arena->file().get());
  if (kept.ok()) kept = options_.holder->keep(record, opened.index->file());
  // The agent works without a holder; status reports it, too.
  if (!kept.ok())
    options_.log(true,
                 "memory for chunks does not outlive this agent: the mount holder refused "
                 "it: " +
                     kept.error().message);
  return opened;
}

void ArenaSource::dropOthers(HolderClient& client, bool all) const {
  const auto list = client.listMemory();
  if (!list.ok()) return;  // it has gone; the next one has none of this
  for (const HolderMemory& memory : *list) {
    const bool ours = memory.name == name_ || memory.name == kIndexName;
    const bool other = !ours && memory.name.starts_with(kNamePrefix);
    if (!other && !(ours && all)) continue;
    if (const Status dropped = client.dropMemory(memory.name); !dropped.ok())
      options_.log(true, "cannot let the mount holder forget the memory '" + memory.name +
                             "': " + dropped.error().message);
  }
}

}  // namespace hearth
