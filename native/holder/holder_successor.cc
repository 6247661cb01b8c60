#include "holder/holder_successor.h"

#include <utility>

#include "holder/holder_client.h"

namespace hearth {

Status takeOver(const std::string& socketPath, HeldMounts& mounts) {
  const auto before = HolderClient::connect(socketPath);
  if (!before) return before.error();
  if (((*before)->holder().features[0] & kHolderHandsOver) == 0) {
    return Error{ErrorCode::kUnsupported,
                 "the holder at " + socketPath +
                     " cannot hand over; end it, and agents give their mounts to this one"};
  }
  auto all = (*before)->handOver();
  if (!all) return all.error();
  if (Status done = (*before)->finishHandOver(); !done) return done;
  const auto now = HeldMounts::Time::clock::now();
  for (HeldMount& mount : all->mounts) {
    const auto since = now - std::chrono::seconds(mount.record.absentSeconds);
    mount.record.attached = false;
    mount.record.absentSeconds = 0;
    mounts.adopt({std::move(mount.record), std::move(mount.device), std::move(mount.shared)},
                 since);
  }
  for (KeptMemory& memory : all->memory) {
    const auto since = now - std::chrono::seconds(memory.record.absentSeconds);
    memory.record.absentSeconds = 0;
    mounts.adopt({std::move(memory.record), std::move(memory.descriptor)}, since);
  }
  return {};
}

}  // namespace hearth
