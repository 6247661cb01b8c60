#include "gpu/host_device.h"

namespace hearth {
namespace {

Error unsupported(const char* thing) {
  return {ErrorCode::kUnsupported, std::string("cpu has no ") + thing +
                                       "; processors reach its "
                                       "memory"};
}

class HostDevice final : public Device {
 public:
  std::string_view name() const override { return "cpu"; }
  std::string_view model() const override { return "host memory"; }
  bool isHost() const override { return true; }

  Result<std::shared_ptr<MemoryRegion>> allocate(std::uint64_t bytes) override {
    return MemoryRegion::allocate(bytes);
  }
  Result<std::shared_ptr<MemoryRegion>> adopt(std::uint64_t address, std::uint64_t bytes,
                                              std::shared_ptr<const void> owner) override {
    if (address == 0 || bytes == 0) {
      return Error{ErrorCode::kInvalidArgument, "there is no memory at address 0 or of 0 bytes"};
    }
    auto* const memory =
        reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
    return MemoryRegion::host({memory, bytes}, std::move(owner));
  }
  Status check(const MemoryRegion& region) override {
    if (region.isHost()) return {};
    return Error{ErrorCode::kInvalidArgument, "the memory is a GPU's, not the host's"};
  }
  Result<std::unique_ptr<PinnedMemory>> pin(std::size_t) override {
    return unsupported("pinned memory");
  }
  Result<std::unique_ptr<CopyStream>> stream() override { return unsupported("copy streams"); }
  Result<std::shared_ptr<DirectFiles>> directFiles() override { return unsupported("direct path"); }
  Status waitFor(std::uint64_t) override { return unsupported("events"); }
  Result<DmaBuf> exportDmaBuf(const MemoryRegion&) override { return unsupported("dma-buf"); }
};

}  // namespace

std::shared_ptr<Device> makeHostDevice() { return std::make_shared<HostDevice>(); }

}  // namespace hearth
