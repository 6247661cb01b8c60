#include "holder/holder_successor.h"

#include <utility>

#include "holder/holder_client.h"

namespace hearth {
namespace {

// One that has answered for the last time, or has died, is out of its lock within this; a kernel
// under load closes files late.
constexpr auto kLockTimeout = std::chrono::seconds(5);

void adoptAll(HandedOver all, HeldMounts& mounts) {
  const auto now = HeldMounts::Time::clock::now();
  for (HeldMount& mount : all.mounts) {
    const auto since = now - std::chrono::seconds(mount.record.absentSeconds);
    mount.record.attached = false;
    mount.record.absentSeconds = 0;
    mounts.adopt({std::move(mount.record), std::move(mount.device), std::move(mount.shared)},
                 since);
  }
  for (KeptMemory& memory : all.memory) {
    const auto since = now - std::chrono::seconds(memory.record.absentSeconds);
    memory.record.absentSeconds = 0;
    mounts.adopt({std::move(memory.record), std::move(memory.descriptor)}, since);
  }
}

bool has(const HolderClient& holder, std::uint64_t feature) {
  return (holder.holder().features[0] & feature) != 0;
}

}  // namespace

Result<HolderListener> takeOver(const std::string& socketPath, HeldMounts& mounts) {
  HolderListener listener;
  const auto before = HolderClient::connect(socketPath);
  if (!before && before.code() == ErrorCode::kUnavailable) return listener;
  if (!before) return before.error();
  if (!has(**before, kHolderHandsOver)) {
    return Error{ErrorCode::kUnsupported,
                 "the holder at " + socketPath +
                     " cannot hand over; end it, and agents give their mounts to this one"};
  }
  auto all = (*before)->handOver();
  if (!all) return all.error();
  if (has(**before, kHolderGivesSocket)) {
    auto given = (*before)->takeListener();
    if (!given) return given.error();
    listener = std::move(*given);
  }
  const Status done = (*before)->finishHandOver();
  // The former holder did nothing for a request it refused.
  if (!done && (*before)->alive()) return done.error();
  if (!done || !listener.lock) {
    // Without our own copy of it, which would keep it taken.
    listener.lock.reset();
    auto lock = lockHolder(socketPath, kLockTimeout);
    if (!lock) return done ? lock.error() : done.error();
    listener.lock = std::move(*lock);
  }
  adoptAll(std::move(*all), mounts);
  return listener;
}

}  // namespace hearth
