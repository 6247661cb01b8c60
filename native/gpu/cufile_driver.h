// GPUDirect Storage: cuFile as the direct path of a GPU. cuFile's driver is one for the process, so
// one CufileDriver serves all GPUs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <string>

#include "gpu/cuda_device.h"
#include "gpu/cufile_functions.h"
#include "gpu/device.h"

namespace hearth {

// How bytes get from the disk to the GPU once the driver is open.
enum class CufileTransport : std::uint8_t { kNvidiaFs, kPeerToPeer };

struct CufileOpened {
  CufileTransport transport = CufileTransport::kNvidiaFs;
  std::string description;  // "cuFile 1.14 by nvidia-fs 2.19"
};

// An open driver; closed by the destructor. Any thread, but only in the process that opened it: no
// call is made after fork().
class CufileDriver {
 public:
  // cuFile has hung with 256 requests.
  static constexpr std::ptrdiff_t kMaxInFlight = 128;
  // Each takes room in the GPU's PCI window; memory beyond is used unregistered.
  static constexpr int kMaxRegistrations = 1024;

  // Compatibility mode is switched off first: in it cuFile goes through host memory and does not
  // say so. kUnsupported when the driver would only open in that mode. May hang (cuFile 1.20 does
  // where nvidia-fs is absent), so a child process tries the same before (cufile_trial.h).
  [[nodiscard]] static Result<std::shared_ptr<CufileDriver>> open(const CufileFunctions& cufile,
                                                                  const CudaPrimaryContext& context,
                                                                  bool peerToPeer);
  ~CufileDriver();
  CufileDriver(const CufileDriver&) = delete;
  CufileDriver& operator=(const CufileDriver&) = delete;

  [[nodiscard]] const CufileOpened& opened() const { return opened_; }

 private:
  friend class CufileFiles;
  friend class CufileFile;
  friend class CufileRegistration;
  CufileDriver(const CufileFunctions& cufile, CufileOpened opened);
  // kUnsupported in a child of the process that opened the driver.
  [[nodiscard]] Status checkProcess() const;

  const CufileFunctions cufile_;
  const CufileOpened opened_;
  const int process_;
  std::counting_semaphore<kMaxInFlight> inFlight_{kMaxInFlight};
  std::atomic<int> registrations_{0};
};

// The direct path of one GPU.
[[nodiscard]] std::shared_ptr<DirectFiles> makeCufileFiles(
    std::shared_ptr<CufileDriver> driver, std::shared_ptr<CudaPrimaryContext> context);

}  // namespace hearth
