#include "mount/holder_link.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hearth {
namespace {

Result<OwnedFd> copyOf(const OwnedFd& descriptor) {
  OwnedFd copy(fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return errnoError(errno, "copy a descriptor for the mount holder");
  return copy;
}

Result<HeldMount> copyOf(const HeldMount& mount) {
  auto device = copyOf(mount.device);
  if (!device) return device.error();
  auto shared = copyOf(mount.shared);
  if (!shared) return shared.error();
  return HeldMount{mount.record, std::move(*device), std::move(*shared)};
}

}  // namespace

HolderLink::HolderLink(Options options) : options_(std::move(options)) {}

HolderLink::~HolderLink() { close(); }

Error HolderLink::notConnected() {
  return {ErrorCode::kUnavailable,
          "the mount holder is away; mounts that are served go on, and it is connected to again "
          "as soon as it runs"};
}

std::shared_ptr<HolderClient> HolderLink::client() const {
  const std::lock_guard lock(mutex_);
  return client_ != nullptr && client_->alive() ? client_ : nullptr;
}

Error HolderLink::notConfigured() {
  return {ErrorCode::kUnavailable,
          "no mount holder is configured; start hearth-holder and set its socket"};
}

Status HolderLink::connect() {
  if (!configured()) return notConfigured();
  const std::lock_guard one(connecting_);
  if (client() != nullptr) return {};
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return notConnected();
    first = !attached_;
  }
  return first ? attachFirst() : recover();
}

Status HolderLink::attachFirst() {
  auto connected = HolderClient::connect(options_.socket, options_.callDeadline);
  if (!connected) return connected.error();
  auto held = (*connected)->attach(options_.owner);
  if (!held) return held.error();
  logMissingFeatures(**connected);
  // Mounts go to the present holder, whichever that is: this one may go at any time.
  for (HeldMount& mount : *held) {
    // An aborted mount has no descriptors.
    if (Status served = mount.record.aborted ? Status() : serve(mount); !served) return served;
    const std::lock_guard lock(mutex_);
    // An earlier holder that was lost before it had everything may have given the same mount.
    std::erase_if(found_, [&mount](const HeldMount& each) {
      return each.record.target == mount.record.target;
    });
    found_.push_back(std::move(mount));
  }
  return giveAll(std::move(*connected));
}

std::vector<HeldMount> HolderLink::takeMounts() {
  const std::lock_guard lock(mutex_);
  return std::exchange(found_, {});
}

Status HolderLink::recover() {
  auto connected = HolderClient::connect(options_.socket, options_.callDeadline);
  if (!connected) return connected.error();
  if (Status attached = (*connected)->reattach(options_.owner); !attached) return attached;
  logMissingFeatures(**connected);
  return giveAll(std::move(*connected));
}

Status HolderLink::giveAll(const std::shared_ptr<HolderClient>& client) {
  std::map<std::string, std::shared_ptr<HeldMount>> given;
  std::map<std::string, std::shared_ptr<const KeptMemory>> givenMemory;
  while (client->alive()) {
    std::vector<std::shared_ptr<HeldMount>> mounts;
    std::vector<std::shared_ptr<const KeptMemory>> memory;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [target, mount] : served_) {
        if (std::exchange(given[target], mount) != mount) mounts.push_back(mount);
      }
      for (const auto& [name, kept] : kept_) {
        if (std::exchange(givenMemory[name], kept.memory) != kept.memory)
          memory.push_back(kept.memory);
      }
      if (mounts.empty() && memory.empty()) {
        adopt(client);
        return {};
      }
    }
    for (const std::shared_ptr<HeldMount>& mount : mounts) give(*client, *mount);
    for (const std::shared_ptr<const KeptMemory>& kept : memory) give(*client, kept);
  }
  return notConnected();
}

void HolderLink::give(HolderClient& client, const HeldMount& mount) const {
  Status kept = client.enroll(mount);
  // A mount that the holder has already keeps the state of that time.
  if (kept && !mount.record.state.empty()) {
    kept = client.saveState(mount.record.target, mount.record.state);
  }
  if (kept || !client.alive()) return;
  options_.log(true, mount.record.target + " will be lost when this agent ends: the mount holder " +
                         "refused it: " + kept.error().message);
}

void HolderLink::give(HolderClient& client, const std::shared_ptr<const KeptMemory>& memory) {
  const Status kept = client.keepMemory(memory->record, memory->descriptor);
  const std::string& name = memory->record.name;
  {
    const std::lock_guard lock(mutex_);
    const auto there = kept_.find(name);
    if (there != kept_.end() && there->second.memory == memory) there->second.refusal = kept;
  }
  if (kept || !client.alive()) return;
  options_.log(true, "the memory '" + name + "' will be lost when this agent ends: the mount " +
                         "holder refused it: " + kept.error().message);
}

void HolderLink::logMissingFeatures(const HolderClient& client) const {
  const std::string missing = missingFeatures(kHolderFeatures, client.holder().features);
  if (missing.empty()) return;
  options_.log(true, "the mount holder (release " + client.holder().release +
                         ") is older: " + missing + " off until it is replaced");
}

void HolderLink::adopt(std::shared_ptr<HolderClient> client) {
  if (closing_) return;
  client_ = std::move(client);
  attached_ = true;
  if (!watcher_.joinable()) watcher_ = std::thread([this] { watch(); });
  changed_.notify_all();
}

void HolderLink::watch() {
  std::shared_ptr<HolderClient> watched;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || client_ != nullptr; });
      if (closing_) return;
      watched = client_;
    }
    watched->waitForEnd();
    {
      const std::lock_guard lock(mutex_);
      if (closing_) return;
      if (client_ != watched) continue;
      client_ = nullptr;
    }
    watched = nullptr;
    options_.log(true,
                 "the mount holder ended; this agent keeps its mounts and memory for the next one");
    for (auto wait = options_.firstPause; pause(wait);
         wait = std::min(wait * 2, options_.longestPause)) {
      const std::lock_guard one(connecting_);
      if (client() != nullptr) break;
      if (!recover()) continue;
      options_.log(false, "the mount holder is back, and holds the mounts of this agent again");
      break;
    }
  }
}

bool HolderLink::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return closing_; });
}

Status HolderLink::serve(const HeldMount& mount) {
  auto copy = copyOf(mount);
  if (!copy) return copy.error();
  const std::lock_guard lock(mutex_);
  served_[mount.record.target] = std::make_shared<HeldMount>(std::move(*copy));
  return {};
}

void HolderLink::forget(const std::string& target) {
  const std::lock_guard lock(mutex_);
  served_.erase(target);
}

Status HolderLink::saveState(const std::string& target, const std::string& state) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto mount = served_.find(target); mount != served_.end()) {
      // Makes another object, because the old one may be on its way to a holder.
      auto changed = copyOf(*mount->second);
      if (!changed) return changed.error();
      changed->record.state = state;
      mount->second = std::make_shared<HeldMount>(std::move(*changed));
    }
  }
  const std::shared_ptr<HolderClient> holder = client();
  if (holder == nullptr) return {};
  const Status saved = holder->saveState(target, state);
  // The next holder gets the state with the mount.
  return holder->alive() ? saved : Status();
}

Status HolderLink::keep(const HolderMemory& memory, const OwnedFd& descriptor) {
  auto copy = copyOf(descriptor);
  if (!copy) return copy.error();
  const auto kept = std::make_shared<const KeptMemory>(KeptMemory{memory, std::move(*copy)});
  {
    const std::lock_guard lock(mutex_);
    kept_[memory.name] = {kept, {}};
  }
  // From here on each new connection gives the memory.
  const std::shared_ptr<HolderClient> holder = client();
  if (holder == nullptr) return {};
  Status given = holder->keepMemory(memory, kept->descriptor);
  if (given || !holder->alive()) return {};
  const std::lock_guard lock(mutex_);
  if (const auto there = kept_.find(memory.name);
      there != kept_.end() && there->second.memory == kept)
    there->second.refusal = given;
  return given;
}

Status HolderLink::keeps(const std::string& name) const {
  if (client() == nullptr) return configured() ? notConnected() : notConfigured();
  const std::lock_guard lock(mutex_);
  const auto kept = kept_.find(name);
  if (kept == kept_.end())
    return Error{ErrorCode::kNotFound, "no memory '" + name + "' was given to the mount holder"};
  return kept->second.refusal;
}

void HolderLink::close() {
  std::thread watcher;
  std::shared_ptr<HolderClient> last;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    last = std::move(client_);
    watcher = std::move(watcher_);
    changed_.notify_all();
  }
  if (last != nullptr) last->end();
  if (watcher.joinable()) watcher.join();
  const std::lock_guard lock(mutex_);
  served_.clear();
  kept_.clear();
  found_.clear();
}

}  // namespace hearth
