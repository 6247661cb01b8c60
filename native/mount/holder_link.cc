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
  if (!copy) return errnoError(errno, "copy a descriptor of a mount");
  return copy;
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

Result<std::vector<HeldMount>> HolderLink::connect(const std::string& socket) {
  const std::lock_guard one(connecting_);
  if (client() != nullptr) return std::vector<HeldMount>();
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return notConnected();
    socket_ = socket;
    first = !attached_;
  }
  if (!first) {
    if (Status recovered = recover(); !recovered) return recovered.error();
    return std::vector<HeldMount>();
  }
  auto connected = HolderClient::connect(socket, options_.callDeadline);
  if (!connected) return connected.error();
  auto held = (*connected)->attach(options_.owner);
  if (!held) return held.error();
  logMissingFeatures(**connected);
  const std::lock_guard lock(mutex_);
  adopt(std::move(*connected));
  return held;
}

Status HolderLink::recover() {
  std::string socket;
  {
    const std::lock_guard lock(mutex_);
    socket = socket_;
  }
  auto connected = HolderClient::connect(socket, options_.callDeadline);
  if (!connected) return connected.error();
  if (Status attached = (*connected)->reattach(options_.owner); !attached) return attached;
  logMissingFeatures(**connected);
  return giveAll(std::move(*connected));
}

Status HolderLink::giveAll(const std::shared_ptr<HolderClient>& client) {
  std::map<std::string, std::shared_ptr<HeldMount>> given;
  while (client->alive()) {
    std::vector<std::shared_ptr<HeldMount>> changed;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [target, mount] : served_) {
        if (std::exchange(given[target], mount) != mount) changed.push_back(mount);
      }
      if (changed.empty()) {
        adopt(client);
        return {};
      }
    }
    for (const std::shared_ptr<HeldMount>& mount : changed) give(*client, *mount);
  }
  return notConnected();
}

void HolderLink::give(HolderClient& client, const HeldMount& mount) const {
  Status kept = client.enroll(mount);
  // What it has already stays as it is there, with the state of that time.
  if (kept && !mount.record.state.empty()) {
    kept = client.saveState(mount.record.target, mount.record.state);
  }
  if (kept || !client.alive()) return;
  options_.log(true, mount.record.target + " ends with this agent, because the mount holder " +
                         "does not take it: " + kept.error().message);
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
    options_.log(true, "the mount holder has gone; mounts are served on and given to the next one");
    for (auto wait = options_.firstPause; pause(wait);
         wait = std::min(wait * 2, options_.longestPause)) {
      const std::lock_guard one(connecting_);
      if (client() != nullptr) break;
      if (!recover()) continue;
      options_.log(false, "the mount holder is back and has the mounts of this agent");
      break;
    }
  }
}

bool HolderLink::pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return closing_; });
}

Status HolderLink::serve(const HeldMount& mount) {
  auto device = copyOf(mount.device);
  if (!device) return device.error();
  auto shared = copyOf(mount.shared);
  if (!shared) return shared.error();
  auto copy =
      std::make_shared<HeldMount>(HeldMount{mount.record, std::move(*device), std::move(*shared)});
  const std::lock_guard lock(mutex_);
  served_[mount.record.target] = std::move(copy);
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
      // Another object, because the old one may be on its way to a holder.
      auto changed =
          std::make_shared<HeldMount>(HeldMount{mount->second->record, OwnedFd(), OwnedFd()});
      changed->record.state = state;
      auto device = copyOf(mount->second->device);
      auto shared = copyOf(mount->second->shared);
      if (!device) return device.error();
      if (!shared) return shared.error();
      changed->device = std::move(*device);
      changed->shared = std::move(*shared);
      mount->second = std::move(changed);
    }
  }
  const std::shared_ptr<HolderClient> holder = client();
  if (holder == nullptr) return {};
  const Status saved = holder->saveState(target, state);
  // The next holder gets it with the mount.
  return holder->alive() ? saved : Status();
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
}

}  // namespace hearth
