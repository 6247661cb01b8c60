#include "key_space.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

namespace hearth::nixl {
namespace {

constexpr int kCompletionsInARow = 64;

std::string reasonOf(int error) { return std::generic_category().message(error); }

}  // namespace

std::unique_ptr<KeySpace> KeySpace::open(const PluginSettings& settings, std::string& problem) {
  std::unique_ptr<KeySpace> opened(new KeySpace);
  const xfer_gd2fs_options options{
      .cp_address = settings.addresses.empty() ? nullptr : settings.addresses.c_str(),
      .cluster_id = settings.cluster.empty() ? nullptr : settings.cluster.c_str(),
      .timeout = settings.timeoutMs};
  opened->timeoutMs_ = settings.timeoutMs;
  opened->context_.reset(xfer_gd2fs_connect(&options));
  if (opened->context_ == nullptr) {
    problem = "no agent of the cluster can be used: " + reasonOf(errno);
    return nullptr;
  }
  const hearth_kv_space space{.size = sizeof space,
                              .volume = settings.volume.c_str(),
                              .fingerprint = settings.fingerprint.data(),
                              .fingerprint_bytes = settings.fingerprint.size(),
                              .salt = settings.salt.data(),
                              .salt_bytes = settings.salt.size()};
  for (Space* const handle : {&opened->transfers_, &opened->questions_}) {
    handle->reset(hearth_kv_open(opened->context_.get(), &space));
    if (*handle != nullptr) continue;
    problem =
        "the key space of the volume " + settings.volume + " cannot be opened: " + reasonOf(errno);
    return nullptr;
  }
  return opened;
}

// The spaces go first: their batches use transfers and memory.
KeySpace::~KeySpace() {
  transfers_.reset();
  questions_.reset();
}

xfer_gd2fs_iomem* KeySpace::registerMemory(void* address, std::size_t bytes) {
  return xfer_gd2fs_reg_iomem(context_.get(), address, bytes, nullptr);
}

int KeySpace::unregisterMemory(xfer_gd2fs_iomem* memory) {
  return -xfer_gd2fs_dereg_iomem(context_.get(), memory);
}

Status KeySpace::post(std::shared_ptr<Transfer> transfer) {
  const void* const id = transfer.get();
  Transfer& posted = *transfer;
  {
    const std::lock_guard lock(mutex_);
    inFlight_[id] = std::move(transfer);
  }
  const Status status = posted.post(transfers_.get(), timeoutMs_);
  if (status != Status::kInProgress) {
    const std::lock_guard lock(mutex_);
    inFlight_.erase(id);
  }
  return status;
}

void KeySpace::poll() {
  std::array<hearth_kv_completion, kCompletionsInARow> completions{};
  completions[0].size = sizeof completions[0];
  const int taken = hearth_kv_poll(transfers_.get(), completions.data(), kCompletionsInARow);
  for (const hearth_kv_completion& each : std::span(completions).first(std::max(taken, 0))) {
    std::shared_ptr<Transfer> ended;
    {
      const std::lock_guard lock(mutex_);
      const auto found = inFlight_.find(each.id);
      if (found == inFlight_.end()) continue;
      ended = std::move(found->second);
      inFlight_.erase(found);
    }
    ended->finish(each);
  }
}

void KeySpace::cancel(const std::shared_ptr<Transfer>& transfer) {
  hearth_kv_cancel(transfers_.get(), transfer.get());
  poll();
}

bool KeySpace::isAtRest() { return hearth_kv_drain(transfers_.get(), 0) == 0; }

int KeySpace::find(const std::vector<std::string>& keys, std::vector<bool>& found) {
  found.clear();
  const std::lock_guard lock(findMutex_);
  while (found.size() < keys.size()) {
    const std::size_t count =
        std::min<std::size_t>(keys.size() - found.size(), HEARTH_KV_MAX_ITEMS);
    std::vector<hearth_kv_item> items(count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string& key = keys[found.size() + i];
      items[i].size = sizeof items[i];
      items[i].key = key.data();
      items[i].key_bytes = key.size();
    }
    if (const int error = findSome(items); error != 0) return error;
    for (const hearth_kv_item& item : items) found.push_back(item.status == 0);
  }
  return 0;
}

int KeySpace::findSome(std::vector<hearth_kv_item>& items) {
  const hearth_kv_batch batch{.size = sizeof batch,
                              .id = items.data(),
                              .items = items.data(),
                              .count = items.size(),
                              .timeout_ms = timeoutMs_};
  if (const int result = hearth_kv_exists(questions_.get(), &batch); result != 0) return -result;
  hearth_kv_completion completion{};
  completion.size = sizeof completion;
  // The batch ends by its timeout.
  const int taken = hearth_kv_wait(questions_.get(), &completion, 1, -1);
  return taken == 1 ? completion.status : EIO;
}

}  // namespace hearth::nixl
