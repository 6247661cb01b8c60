#include "hearth_engine.h"

#include <cerrno>
#include <utility>

#include "plugin_log.h"

namespace hearth::nixl {
namespace {

struct PostedTransfer final : RequestHandle {
  explicit PostedTransfer(Operation operation) : transfer(std::make_shared<Transfer>(operation)) {}
  const std::shared_ptr<Transfer> transfer;
};

Transfer& transferOf(RequestHandle* handle) {
  return *static_cast<PostedTransfer*>(handle)->transfer;
}

}  // namespace

HearthEngine::HearthEngine(const InitParameters& init) : BackendEngine(init) {
  PluginSettings settings;
  std::string problem;
  if (readSettings(parameters(), settings, problem)) space_ = KeySpace::open(settings, problem);
  if (space_ == nullptr) {
    logProblem(problem);
    failed = true;
  }
}

std::vector<MemoryKind> HearthEngine::kinds() { return {MemoryKind::kDram, MemoryKind::kObject}; }

Status HearthEngine::registerMemory(const BlobDescriptor& memory, const MemoryKind& kind,
                                    Metadata*& metadata) {
  switch (kind) {
    case MemoryKind::kDram: {
      auto registered = std::make_unique<HostMemory>();
      registered->iomem =
          space_->registerMemory(reinterpret_cast<void*>(memory.address), memory.length);
      if (registered->iomem == nullptr) {
        logProblem("memory cannot be registered", errno);
        return Status::kBackendError;
      }
      metadata = registered.release();
      return Status::kSuccess;
    }
    case MemoryKind::kObject: {
      if (memory.info.empty() || memory.info.size() > HEARTH_KV_MAX_KEY_BYTES) {
        logProblem("an object's key has 1 to 4096 bytes");
        return Status::kInvalidParameter;
      }
      auto object = std::make_unique<ObjectKey>();
      object->key = memory.info;
      metadata = object.release();
      return Status::kSuccess;
    }
    default:
      return Status::kNotSupported;
  }
}

Status HearthEngine::deregisterMemory(Metadata* metadata) {
  const std::unique_ptr<Metadata> owned(metadata);
  const auto* const memory = dynamic_cast<const HostMemory*>(metadata);
  if (memory == nullptr) return Status::kSuccess;
  const int error = space_->unregisterMemory(memory->iomem);
  if (error == 0) return Status::kSuccess;
  logProblem("memory cannot be deregistered", error);
  return Status::kBackendError;
}

Status HearthEngine::prepareTransfer(const Operation& operation, const TransferList& local,
                                     const TransferList& remote, const std::string&,
                                     RequestHandle*& handle, const OptionalArguments*) const {
  auto prepared = std::make_unique<PostedTransfer>(operation);
  std::string problem;
  const Status status = prepared->transfer->prepare(local, remote, problem);
  if (status != Status::kSuccess) {
    logProblem(problem);
    return status;
  }
  handle = prepared.release();
  return Status::kSuccess;
}

Status HearthEngine::postTransfer(const Operation&, const TransferList&, const TransferList&,
                                  const std::string&, RequestHandle*& handle,
                                  const OptionalArguments*) const {
  return space_->post(static_cast<PostedTransfer*>(handle)->transfer);
}

Status HearthEngine::checkTransfer(RequestHandle* handle) const {
  const Transfer& transfer = transferOf(handle);
  if (transfer.status() == Status::kInProgress) space_->poll();
  return transfer.status();
}

Status HearthEngine::releaseRequest(RequestHandle* handle) const {
  const std::shared_ptr<Transfer> transfer = static_cast<PostedTransfer*>(handle)->transfer;
  if (transfer->status() == Status::kInProgress) space_->cancel(transfer);
  if (!transfer->isAtRest() && !space_->isAtRest()) return Status::kNotAllowed;
  delete handle;
  return Status::kSuccess;
}

Status HearthEngine::queryMemory(const QueryList& objects,
                                 std::vector<std::optional<Parameters>>& answers) const {
  if (objects.kind != MemoryKind::kObject) return Status::kNotSupported;
  std::vector<std::string> keys;
  for (const BlobDescriptor& object : objects.items) keys.push_back(object.info);
  std::vector<bool> found;
  if (const int error = space_->find(keys, found); error != 0) {
    logProblem("objects cannot be looked for", error);
    return Status::kBackendError;
  }
  for (const bool exists : found) {
    if (exists) {
      answers.emplace_back(Parameters{{"found", "1"}});
    } else {
      answers.emplace_back();
    }
  }
  return Status::kSuccess;
}

}  // namespace hearth::nixl
