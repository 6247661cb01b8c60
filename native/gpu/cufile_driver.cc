#include "gpu/cufile_driver.h"

#include <unistd.h>

#include <cerrno>

namespace hearth {
namespace {

// "1.14" of 1140, as cuFileGetVersion counts.
std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// cuFile takes addresses of the GPU as pointers, which nobody here may follow.
void* asPointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

Result<CufileOpened> describe(const CufileFunctions& cufile) {
  CufileProperties properties{};
  if (const CufileStatus asked = cufile.driverGetProperties(&properties); asked.code != 0) {
    return cufileError("cuFileDriverGetProperties", asked);
  }
  int version = 0;
  std::string name = "cuFile";
  if (cufile.getVersion != nullptr && cufile.getVersion(&version).code == 0) {
    name += " " + versionText(version);
  }
  if ((properties.nvidiaFs.controlFlags & kCufileCompatibilityAllowed) != 0) {
    return Error{ErrorCode::kUnsupported,
                 name +
                     " may go through host memory without a word (compatibility mode); set "
                     "allow_compat_mode to false in cufile.json, or install cuFile 1.14 or "
                     "later"};
  }
  const auto& module = properties.nvidiaFs;
  if (module.majorVersion != 0 || module.minorVersion != 0) {
    return CufileOpened{CufileTransport::kNvidiaFs, name + " by nvidia-fs " +
                                                        std::to_string(module.majorVersion) + "." +
                                                        std::to_string(module.minorVersion)};
  }
  if (isPeerToPeer(properties)) {
    return CufileOpened{CufileTransport::kPeerToPeer, name + " by PCI P2PDMA"};
  }
  return Error{ErrorCode::kUnsupported,
               name +
                   " opens without nvidia-fs and without PCI P2PDMA; load nvidia-fs, or use the "
                   "open kernel modules with Linux 6.2 or later"};
}

}  // namespace

// Memory of a region that cuFile has pinned.
class CufileRegistration final : public MemoryRegistration {
 public:
  CufileRegistration(std::shared_ptr<CufileDriver> driver,
                     std::shared_ptr<CudaPrimaryContext> context, std::uint64_t address)
      : driver_(std::move(driver)), context_(std::move(context)), address_(address) {}
  ~CufileRegistration() override {
    const CudaScope scope(*context_);
    if (driver_->checkProcess().ok()) {
      driver_->cufile_.bufferDeregister(asPointer(address_));
    }
    --driver_->registrations_;
  }
  CufileRegistration(const CufileRegistration&) = delete;
  CufileRegistration& operator=(const CufileRegistration&) = delete;

 private:
  const std::shared_ptr<CufileDriver> driver_;
  const std::shared_ptr<CudaPrimaryContext> context_;
  const std::uint64_t address_;
};

class CufileFiles final : public DirectFiles,
                          public MemoryDevice,
                          public std::enable_shared_from_this<CufileFiles> {
 public:
  CufileFiles(std::shared_ptr<CufileDriver> driver, std::shared_ptr<CudaPrimaryContext> context)
      : driver_(std::move(driver)), context_(std::move(context)) {}

  std::string_view description() const override { return driver_->opened().description; }
  Result<std::shared_ptr<DirectFile>> open(int file) override;

  std::string_view name() const override { return "cuFile"; }
  Result<std::unique_ptr<MemoryRegistration>> enroll(const MemoryRegion& region) override {
    if (++driver_->registrations_ > CufileDriver::kMaxRegistrations) {
      --driver_->registrations_;
      return Error{ErrorCode::kOutOfSpace, "cuFile knows as many regions as it may"};
    }
    const CudaScope scope(*context_);
    Status status = scope.status();
    if (status.ok()) status = driver_->checkProcess();
    if (status.ok()) {
      const CufileStatus answer =
          driver_->cufile_.bufferRegister(asPointer(region.address()), region.size(), 0);
      if (answer.code == 0) {
        return std::unique_ptr<MemoryRegistration>(
            new CufileRegistration(driver_, context_, region.address()));
      }
      status = cufileError("cuFileBufRegister", answer);
    }
    --driver_->registrations_;
    return status.error();
  }

 private:
  friend class CufileFile;
  const std::shared_ptr<CufileDriver> driver_;
  const std::shared_ptr<CudaPrimaryContext> context_;
};

class CufileFile final : public DirectFile {
 public:
  CufileFile(std::shared_ptr<CufileFiles> files, CufileHandle handle)
      : files_(std::move(files)), handle_(handle) {}
  ~CufileFile() override {
    const CudaScope scope(*files_->context_);
    if (files_->driver_->checkProcess().ok()) files_->driver_->cufile_.handleDeregister(handle_);
  }
  CufileFile(const CufileFile&) = delete;
  CufileFile& operator=(const CufileFile&) = delete;

  Result<std::size_t> read(std::uint64_t offset, const std::shared_ptr<MemoryRegion>& region,
                           std::uint64_t inRegion, std::size_t size) override {
    return call("cuFileRead", region, inRegion, [&](void* base, off_t inBase) {
      return files_->driver_->cufile_.read(handle_, base, size, static_cast<off_t>(offset), inBase);
    });
  }
  Result<std::size_t> write(std::uint64_t offset, const std::shared_ptr<MemoryRegion>& region,
                            std::uint64_t inRegion, std::size_t size) override {
    return call("cuFileWrite", region, inRegion, [&](void* base, off_t inBase) {
      return files_->driver_->cufile_.write(handle_, base, size, static_cast<off_t>(offset),
                                            inBase);
    });
  }

 private:
  template <class Call>
  Result<std::size_t> call(const char* name, const std::shared_ptr<MemoryRegion>& region,
                           std::uint64_t inRegion, Call make) {
    CufileDriver& driver = *files_->driver_;
    if (const Status own = driver.checkProcess(); !own.ok()) return own.error();
    const CudaScope scope(*files_->context_);
    if (!scope.status().ok()) return scope.status().error();
    // cuFile takes unregistered memory as well, over buffers of its own on the GPU.
    const bool registered = region->registrationWith(files_).ok();
    const std::uint64_t base = region->address() + (registered ? 0 : inRegion);
    driver.inFlight_.acquire();
    errno = 0;
    const ssize_t moved = make(asPointer(base), registered ? static_cast<off_t>(inRegion) : 0);
    const int error = errno;
    driver.inFlight_.release();
    if (moved < 0) return cufileIoError(name, moved, error);
    return static_cast<std::size_t>(moved);
  }

  const std::shared_ptr<CufileFiles> files_;
  const CufileHandle handle_;
};

Result<std::shared_ptr<DirectFile>> CufileFiles::open(int file) {
  if (const Status own = driver_->checkProcess(); !own.ok()) return own.error();
  const CudaScope scope(*context_);
  if (!scope.status().ok()) return scope.status().error();
  CufileDescription description{kCufileOpaqueDescriptor, {file}, nullptr};
  CufileHandle handle = nullptr;
  if (const CufileStatus answer = driver_->cufile_.handleRegister(&handle, &description);
      answer.code != 0) {
    return cufileError("cuFileHandleRegister", answer);
  }
  return std::shared_ptr<DirectFile>(std::make_shared<CufileFile>(shared_from_this(), handle));
}

Result<std::shared_ptr<CufileDriver>> CufileDriver::open(const CufileFunctions& cufile,
                                                         const CudaPrimaryContext& context,
                                                         bool peerToPeer) {
  const CudaScope scope(context);
  if (!scope.status().ok()) return scope.status().error();
  if (cufile.setParameterBool != nullptr) {
    for (const auto& [parameter, value] : {std::pair{kCufileAllowCompatibility, false},
                                           std::pair{kCufileUsePeerToPeer, peerToPeer}}) {
      if (const CufileStatus set = cufile.setParameterBool(parameter, value); set.code != 0) {
        return cufileError("cuFileSetParameterBool", set);
      }
    }
  }
  const CufileStatus answer = cufile.driverOpen();
  if (answer.code == kCufileDriverNotInitialized && peerToPeer) {
    return Error{ErrorCode::kUnsupported,
                 "cuFileDriverOpen failed: nvidia-fs is not loaded, and PCI P2PDMA finds no NVMe "
                 "disk that it can use here (5001); `modprobe nvidia-fs`, or put the files on ext4 "
                 "or xfs on an NVMe disk without RAID"};
  }
  if (answer.code != 0) return cufileError("cuFileDriverOpen", answer);
  Result<CufileOpened> opened = describe(cufile);
  if (!opened.ok()) {
    cufile.driverClose();
    return opened.error();
  }
  return std::shared_ptr<CufileDriver>(new CufileDriver(cufile, std::move(*opened)));
}

CufileDriver::CufileDriver(const CufileFunctions& cufile, CufileOpened opened)
    : cufile_(cufile), opened_(std::move(opened)), process_(getpid()) {}

CufileDriver::~CufileDriver() {
  if (checkProcess().ok()) cufile_.driverClose();
}

Status CufileDriver::checkProcess() const {
  if (getpid() == process_) return {};
  return Error{ErrorCode::kUnsupported,
               "cuFile was opened before fork() and cannot be used in the child; open the device "
               "in the child"};
}

std::shared_ptr<DirectFiles> makeCufileFiles(std::shared_ptr<CufileDriver> driver,
                                             std::shared_ptr<CudaPrimaryContext> context) {
  return std::make_shared<CufileFiles>(std::move(driver), std::move(context));
}

}  // namespace hearth
