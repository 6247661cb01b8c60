// Where the entries of one dataset can be read now, by its own credentials. Filled by the agent, by
// a base for all entries or by single locations, which expire; asked by fetchers on any shard.
// Bearer secrets: in memory only. Thread-safe.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "dataset/engine_event.h"
#include "dataset/reading_order.h"
#include "manifest/manifest.h"
#include "origin/origin_client.h"
#include "reactor/synchronization.h"

namespace hearth {

class LocationCache {
 public:
  // `dataset`: its id, for the events. `source`: whose locations these are, 0 the first source's.
  LocationCache(std::shared_ptr<const Manifest> manifest, std::string dataset, EventSink events,
                std::uint32_t source = 0);
  ~LocationCache();

  // Every entry's location is base + its path: for URLs each part percent-encoded. Replaces single
  // ones.
  void setBase(Location base);
  void set(std::uint32_t entry, Location location);
  void fail(std::uint32_t entry, const Error& error);
  // Forgets those that cannot be used any more.
  void sweep();
  // Single locations that are kept: the oldest go when there are more.
  static constexpr std::size_t kMaxKept = 8192;
  [[nodiscard]] std::size_t kept() const;
  // Forgets base and single ones: the dataset has other credentials now, or is gone.
  void clear();
  // Changes when base or credentials did: what was refused before may be given now.
  [[nodiscard]] std::uint64_t version() const { return version_.load(); }
  // Present and later callers get this error: the engine is shutting down.
  void close(const Error& error);
  // The origin refused this location: the next look-up asks again.
  void expire(std::uint32_t entry);

  // Continues on `reactor`, its caller's. Asks the agent when nothing valid is known; entries asked
  // for in the same turn make one event, and those that a reader in order comes to next are in it.
  // kDeadlineExceeded when no answer comes within `timeout`.
  static constexpr auto kAnswerTimeout = std::chrono::seconds(60);
  [[nodiscard]] Task<Result<Location>> find(Reactor& reactor, std::uint32_t entry,
                                            Clock::duration timeout = kAnswerTimeout);
  // The known location. When none is known, asks the agent for it as ahead of need.
  [[nodiscard]] std::optional<Location> peek(std::uint32_t entry);

 private:
  struct Waiter;

  struct Single {
    Location location;
    std::list<std::uint32_t>::iterator age;
  };

  [[nodiscard]] std::optional<Location> known(std::uint32_t entry) const;
  // Under the lock.
  [[nodiscard]] bool usable(std::uint32_t entry) const;
  void drop(std::unordered_map<std::uint32_t, Single>::iterator place);
  // Notes the entries to ask for ahead of the reader who looks `entry` up. True when there is a new
  // one.
  bool lookAhead(std::uint32_t entry);
  void answer(std::uint32_t entry, const Result<Location>& result);
  void askPending();

  const std::shared_ptr<const Manifest> manifest_;
  const std::string dataset_;
  const EventSink events_;
  const std::uint32_t source_;
  std::atomic<std::uint64_t> version_{0};
  mutable std::mutex mutex_;
  std::optional<Location> base_;
  std::unordered_map<std::uint32_t, Single> single_;
  std::list<std::uint32_t> ages_;  // of single_, the oldest first
  ReadingOrder order_;
  std::multimap<std::uint32_t, std::shared_ptr<Waiter>> waiting_;
  std::vector<std::uint32_t> pending_;
  std::vector<std::uint32_t> ahead_;
  std::optional<Error> closed_;
};

}  // namespace hearth
