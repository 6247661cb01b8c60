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
  // True when the program has loaded the system's driver; this call never loads the driver.
  [[nodiscard]] static bool isDriverLoaded();
  // As openDevice().
  [[nodiscard]] Result<std::shared_ptr<Device>> open(std::string_view name);
  // The GPU to which the byte at that address belongs; null where the driver knows of none. Never
  // starts a driver that the program has not started, as children of fork() could not use it then.
  [[nodiscard]] Result<std::shared_ptr<Device>> deviceAt(std::uint64_t address);
  // The driver alone; opened once, for good. `trial` false: without trying elsewhere, for the trial
  // itself.
  [[nodiscard]] Result<std::shared_ptr<CufileDriver>> cufileDriver(
      const CudaPrimaryContext& context, bool trial = true);

 private:
  [[nodiscard]] Result<std::shared_ptr<CufileDriver>> openCufile(const CudaPrimaryContext& context,
                                                                 bool trial);
  [[nodiscard]] Status start();
  // With the mutex held.
  [[nodiscard]] const Result<CudaFunctions>& functions();

  const Seams seams_;
  std::mutex mutex_;  // guards all below
  std::optional<Result<CudaFunctions>> cuda_;
  bool started_ = false;
  std::mutex cufileMutex_;
  std::optional<Result<std::shared_ptr<CufileDriver>>> cufile_;
};

}  // namespace hearth
