// Scenarios that MemoryTierOrders runs in every order, and the faults that it may find in one. For
// tests.
#pragma once

#include <array>
#include <cstddef>
#include <ostream>

namespace hearth::testing_support {

enum class Fault {
  kNone,
  kWrongBytes,  // a reader gets bytes of another chunk
  kStale,       // a dropped chunk is found
  kSleeps,      // a request waits, and no one will serve it
  kSlotLost,    // not all slots are back in the end
};

inline void PrintTo(Fault fault, std::ostream* out) {
  constexpr std::array kNames = {"none", "wrong bytes", "stale", "sleeps", "slot lost"};
  *out << kNames.at(static_cast<std::size_t>(fault));
}

// The actors of a scenario, beside the request for a slot.
struct Scenario {
  const char* name;
  bool begins = true;     // with a chunk of the model in memory
  int readers = 0;        // of that chunk
  bool isLent = false;    // to a peer; a waiter looks again after a time
  bool lands = false;     // the same chunk comes in once more
  bool arrives = false;   // it comes in half by half, and a peer is answered from the first one
  bool fails = false;     // the same, and the second half does not come
  bool drops = false;     // the model's digest is wrong
  bool lends = false;     // another shard may give slots, and the request is background work
  std::size_t turns = 0;  // of the reactor between steps
};

namespace scenarios {

inline constexpr Scenario kTwoReaders{.name = "two readers", .readers = 2, .turns = 2};
inline constexpr Scenario kLanding{
    .name = "landing and drop", .readers = 1, .lands = true, .drops = true, .turns = 1};
inline constexpr Scenario kFirstLanding{
    .name = "first landing", .begins = false, .readers = 1, .lands = true, .turns = 2};
inline constexpr Scenario kPeer{.name = "peer", .readers = 1, .isLent = true, .turns = 2};
inline constexpr Scenario kTwoShards{
    .name = "two shards", .readers = 1, .drops = true, .lends = true, .turns = 2};
inline constexpr Scenario kArriving{
    .name = "arriving", .begins = false, .readers = 1, .arrives = true, .turns = 1};
inline constexpr Scenario kFailing{.name = "failing", .begins = false, .fails = true, .turns = 2};

}  // namespace scenarios

}  // namespace hearth::testing_support
