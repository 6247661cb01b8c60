// One NVIDIA GPU. It shares the primary context with everybody else in the process (PyTorch, the
// CUDA runtime), so memory of theirs can be adopted.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gpu/cuda_functions.h"
#include "gpu/device.h"

namespace hearth {

// A retained primary context. Released by the destructor.
class CudaPrimaryContext {
 public:
  [[nodiscard]] static Result<std::shared_ptr<CudaPrimaryContext>> retain(const CudaFunctions& cuda,
                                                                          int device);
  ~CudaPrimaryContext();
  CudaPrimaryContext(const CudaPrimaryContext&) = delete;
  CudaPrimaryContext& operator=(const CudaPrimaryContext&) = delete;

  [[nodiscard]] const CudaFunctions& cuda() const { return cuda_; }
  [[nodiscard]] CudaContext handle() const { return context_; }
  [[nodiscard]] int device() const { return device_; }

 private:
  CudaPrimaryContext(const CudaFunctions& cuda, int device, CudaContext context)
      : cuda_(cuda), device_(device), context_(context) {}
  const CudaFunctions cuda_;
  const int device_;
  const CudaContext context_;
};

// Makes the context the calling thread's for as long as it lives, and the former one again then.
class CudaScope {
 public:
  explicit CudaScope(const CudaPrimaryContext& context);
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  const CudaFunctions& cuda_;
  Status status_;
};

class CudaDevice final : public Device {
 public:
  // Opens the device's way past host memory; called once, on the thread of the first directFiles().
  using OpenDirect =
      std::function<Result<std::shared_ptr<DirectFiles>>(std::shared_ptr<CudaPrimaryContext>)>;
  // `ordinal` as CUDA_VISIBLE_DEVICES leaves them. cuInit has been called.
  [[nodiscard]] static Result<std::shared_ptr<CudaDevice>> open(const CudaFunctions& cuda,
                                                                int ordinal, OpenDirect openDirect);

  std::string_view name() const override { return name_; }
  std::string_view model() const override { return model_; }
  bool isHost() const override { return false; }
  Result<std::shared_ptr<MemoryRegion>> allocate(std::uint64_t bytes) override;
  Result<std::shared_ptr<MemoryRegion>> adopt(std::uint64_t address, std::uint64_t bytes,
                                              std::shared_ptr<const void> owner) override;
  Status check(const MemoryRegion& region) override;
  Result<std::unique_ptr<PinnedMemory>> pin(std::size_t bytes) override;
  Result<std::unique_ptr<CopyStream>> stream() override;
  Result<std::shared_ptr<DirectFiles>> directFiles() override;
  Status waitFor(std::uint64_t event) override;
  Result<DmaBuf> exportDmaBuf(const MemoryRegion& region) override;

 private:
  CudaDevice(std::shared_ptr<CudaPrimaryContext> context, int ordinal, std::string model,
             OpenDirect openDirect);
  [[nodiscard]] Status checkRange(std::uint64_t address, std::uint64_t bytes) const;

  const std::shared_ptr<CudaPrimaryContext> context_;
  const int ordinal_;
  const std::string name_, model_;
  const OpenDirect openDirect_;
  std::mutex mutex_;  // guards direct_
  std::optional<Result<std::shared_ptr<DirectFiles>>> direct_;
};

}  // namespace hearth
