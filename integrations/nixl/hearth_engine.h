// The NIXL back end HEARTH: objects are values of a key space of a volume. libnixl calls it from
// any thread, several at once; only create_engine(), registrations and queries block.
#pragma once

#include <memory>

#include "key_space.h"
#include "nixl_abi.h"

namespace hearth::nixl {

class HearthEngine final : public BackendEngine {
 public:
  // Fails, with a line in the log, without settings or agents.
  explicit HearthEngine(const InitParameters& init);

  [[nodiscard]] static std::vector<MemoryKind> kinds();

  bool supportsRemote() const override { return false; }
  bool supportsLocal() const override { return true; }
  bool supportsNotifications() const override { return false; }
  std::vector<MemoryKind> memoryKinds() const override { return kinds(); }
  Status registerMemory(const BlobDescriptor& memory, const MemoryKind& kind,
                        Metadata*& metadata) override;
  Status deregisterMemory(Metadata* metadata) override;
  Status connect(const std::string&) override { return Status::kSuccess; }
  Status disconnect(const std::string&) override { return Status::kSuccess; }
  Status unloadMetadata(Metadata*) override { return Status::kSuccess; }
  Status prepareTransfer(const Operation& operation, const TransferList& local,
                         const TransferList& remote, const std::string& agent,
                         RequestHandle*& handle, const OptionalArguments*) const override;
  Status postTransfer(const Operation& operation, const TransferList& local,
                      const TransferList& remote, const std::string& agent, RequestHandle*& handle,
                      const OptionalArguments*) const override;
  Status checkTransfer(RequestHandle* handle) const override;
  // Ends a transfer that is in flight. kNotAllowed while its memory may still be touched: libnixl
  // then keeps the handle.
  Status releaseRequest(RequestHandle* handle) const override;
  // Of objects: which of them exist, as {"found": "1"}.
  Status queryMemory(const QueryList& objects,
                     std::vector<std::optional<Parameters>>& answers) const override;

 private:
  std::unique_ptr<KeySpace> space_;
};

}  // namespace hearth::nixl
