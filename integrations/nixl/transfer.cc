#include "transfer.h"

#include <algorithm>
#include <cerrno>
#include <map>

#include "plugin_log.h"

namespace hearth::nixl {
namespace {

struct Part {
  std::uint64_t offset = 0;
  xfer_gd2fs_sge memory{};
};

// True: the parts, sorted by offset, follow one another from the first byte on.
bool coverFromStart(const std::vector<Part>& parts) {
  std::uint64_t end = 0;
  for (const Part& part : parts) {
    if (part.offset != end) return false;
    end += part.memory.len;
  }
  return end != 0;
}

Status statusOf(int error) {
  switch (error) {
    case 0:
      return Status::kSuccess;
    case ENOENT:
      return Status::kNotFound;
    case EMSGSIZE:
    case EINVAL:
      return Status::kInvalidParameter;
    case EACCES:
      return Status::kNotAllowed;
    case EOPNOTSUPP:
      return Status::kNotSupported;
    default:
      return Status::kBackendError;
  }
}

}  // namespace

Status Transfer::prepare(const TransferList& local, const TransferList& remote,
                         std::string& problem) {
  if (local.items.size() != remote.items.size() || local.items.empty()) {
    problem = "a transfer has as many parts of memory as of objects, and at least one";
    return Status::kInvalidParameter;
  }
  std::map<std::string, std::vector<Part>> objects;
  for (std::size_t i = 0; i < local.items.size(); ++i) {
    const auto* const memory = dynamic_cast<const HostMemory*>(local.items[i].metadata);
    const auto* const object = dynamic_cast<const ObjectKey*>(remote.items[i].metadata);
    if (memory == nullptr || object == nullptr || local.items[i].length != remote.items[i].length) {
      problem = "a part of a transfer is registered memory and as many bytes of an object";
      return Status::kInvalidParameter;
    }
    objects[object->key].push_back(
        {.offset = remote.items[i].address,
         .memory = {.addr = reinterpret_cast<void*>(local.items[i].address),
                    .len = local.items[i].length,
                    .iomem = memory->iomem}});
  }
  if (objects.size() > HEARTH_KV_MAX_ITEMS) {
    problem = "a transfer has at most " + std::to_string(HEARTH_KV_MAX_ITEMS) + " objects";
    return Status::kInvalidParameter;
  }
  for (auto& [key, parts] : objects) {
    std::ranges::sort(parts, {}, &Part::offset);
    if (!coverFromStart(parts)) {
      problem = "objects are written and read whole: the parts of " + key + " leave bytes out";
      return Status::kInvalidParameter;
    }
    std::vector<xfer_gd2fs_sge>& memory = memory_.emplace_back();
    for (const Part& part : parts) memory.push_back(part.memory);
    bytes_.push_back(parts.back().offset + parts.back().memory.len);
    keys_.push_back(key);
  }
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    items_.push_back({.size = sizeof(hearth_kv_item),
                      .key = keys_[i].data(),
                      .key_bytes = keys_[i].size(),
                      .sges = memory_[i].data(),
                      .sge_count = memory_[i].size()});
  }
  return Status::kSuccess;
}

Status Transfer::post(hearth_kv* space, unsigned timeoutMs) {
  status_.store(Status::kInProgress, std::memory_order_release);
  atRest_.store(false, std::memory_order_release);
  const hearth_kv_batch batch{.size = sizeof batch,
                              .id = this,
                              .items = items_.data(),
                              .count = items_.size(),
                              .timeout_ms = timeoutMs};
  const int result =
      operation_ == Operation::kWrite ? hearth_kv_put(space, &batch) : hearth_kv_get(space, &batch);
  if (result == 0) return Status::kInProgress;
  const Status failed = statusOf(-result);
  atRest_.store(true, std::memory_order_release);
  status_.store(failed, std::memory_order_release);
  logProblem("a transfer was not accepted", -result);
  return failed;
}

void Transfer::finish(const hearth_kv_completion& completion) {
  const Status ended = outcome(completion);
  atRest_.store((completion.flags & HEARTH_KV_NOT_AT_REST) == 0, std::memory_order_release);
  status_.store(ended, std::memory_order_release);
}

Status Transfer::outcome(const hearth_kv_completion& completion) const {
  if (completion.status != 0) logProblem("a transfer failed", completion.status);
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].status != 0) return statusOf(items_[i].status);
    if (operation_ == Operation::kRead && items_[i].value_bytes != bytes_[i]) {
      logProblem("an object is shorter than the memory that it was read into: " + keys_[i]);
      return Status::kInvalidParameter;
    }
  }
  return Status::kSuccess;
}

}  // namespace hearth::nixl
