// The drivers of this process: CUDA, and cuFile once a device asks for its direct path.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gpu/cuda_device.h"
#include "gpu/cufile_driver.h"

namespace hearth {

// Any thread.
class GpuRuntime : public std::enable_shared_from_this<GpuRuntime> {
 public:
  struct Seams {
    std::function<Result<CudaFunctions>()> cuda;
    std::function<Result<CufileFunctions>()> cufile;
    // Opens cuFile elsewhere first; an error leaves this process without the direct path. The
    // argument: over PCI P2PDMA.
    std::function<Status(bool peerToPeer)> trial;
    std::string root;  // before /proc
  };
  // Libraries by $HEARTH_CUDA_LIBRARY (libcuda.so.1) and $HEARTH_CUFILE_LIBRARY (libcufile.so.0).
  [[nodiscard]] static Seams system();

  explicit GpuRuntime(Seams seams) : seams_(std::move(seams)) {}
  // As openDevice().
  [[nodiscard]] Result<std::shared_ptr<Device>> open(std::string_view name);
  // The driver alone; opened once, for good. `trial` false: without trying elsewhere, for the trial
  // itself.
  [[nodiscard]] Result<std::shared_ptr<CufileDriver>> cufileDriver(
      const CudaPrimaryContext& context, bool trial = true);

 private:
  [[nodiscard]] Result<std::shared_ptr<CufileDriver>> openCufile(const CudaPrimaryContext& context,
                                                                 bool trial);
  [[nodiscard]] Status start();

  const Seams seams_;
  std::mutex mutex_;  // guards all below
  std::optional<Result<CudaFunctions>> cuda_;
  std::mutex cufileMutex_;
  std::optional<Result<std::shared_ptr<CufileDriver>>> cufile_;
};

}  // namespace hearth
