#include "gpu/gpu_runtime.h"

#include <dlfcn.h>
#include <sys/utsname.h>

#include <charconv>
#include <cstdlib>
#include <utility>

#include "gpu/cufile_trial.h"
#include "gpu/device_files.h"
#include "gpu/direct_support.h"
#include "gpu/host_device.h"

namespace hearth {
namespace {

// cuInit of eight GPUs without the persistence daemon takes several seconds.
constexpr std::chrono::milliseconds kTrialDeadline{20000};

std::string fromEnvironment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

std::string cudaLibrary() { return fromEnvironment("HEARTH_CUDA_LIBRARY", "libcuda.so.1"); }

Status trySystemCufile(bool peerToPeer) {
  const Result<std::string> program = findTrialProgram();
  if (!program.ok()) return program.error();
  const Status tried =
      runTrial({*program, "--trial", peerToPeer ? "p2pdma" : "nvidia-fs"}, kTrialDeadline);
  if (tried.ok()) return {};
  return tried.error().within("opening cuFile in another process");
}

// The number in "cuda:N"; none for other names.
std::optional<int> ordinalOf(std::string_view name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return std::nullopt;
  int ordinal = -1;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + 5, end, ordinal);
  if (error != std::errc() || rest != end || ordinal < 0) return std::nullopt;
  return ordinal;
}

}  // namespace

GpuRuntime::Seams GpuRuntime::system() {
  return {[] { return loadCuda(cudaLibrary()); },
          [] { return loadCufile(fromEnvironment("HEARTH_CUFILE_LIBRARY", "libcufile.so.0")); },
          trySystemCufile, fromEnvironment("HEARTH_GPU_ROOT", "")};
}

bool GpuRuntime::isDriverLoaded() {
  void* const library = dlopen(cudaLibrary().c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library != nullptr) dlclose(library);
  return library != nullptr;
}

const Result<CudaFunctions>& GpuRuntime::functions() {
  if (!cuda_.has_value()) cuda_.emplace(seams_.cuda());
  return *cuda_;
}

Status GpuRuntime::start() {
  const std::lock_guard lock(mutex_);
  if (functions().ok() && !std::exchange(started_, true)) {
    const int started = (*cuda_)->init(0);
    if (started != kCudaSuccess) cuda_.emplace(cudaError(cuda_->value(), "cuInit", started));
  }
  if (cuda_->ok()) return {};
  return cuda_->error();
}

Result<std::shared_ptr<Device>> GpuRuntime::deviceAt(std::uint64_t address) {
  unsigned type = 0;
  int ordinal = -1;
  {
    const std::lock_guard lock(mutex_);
    const Result<CudaFunctions>& cuda = functions();
    if (!cuda.ok()) return cuda.error();
    const bool known = cuda->pointerGetAttribute(&type, kCudaPointerMemoryType, address) == 0 &&
                       type == kCudaMemoryTypeDevice;
    if (!known) return std::shared_ptr<Device>();
    const int result = cuda->pointerGetAttribute(&ordinal, kCudaPointerDeviceOrdinal, address);
    if (result != kCudaSuccess) return cudaError(*cuda, "cuPointerGetAttribute", result);
  }
  return open("cuda:" + std::to_string(ordinal));
}

Result<std::shared_ptr<Device>> GpuRuntime::open(std::string_view name) {
  if (name == "cpu") return makeHostDevice();
  const std::optional<int> ordinal = ordinalOf(name);
  if (!ordinal.has_value()) {
    return Error{ErrorCode::kInvalidArgument,
                 "\"" + std::string(name) + "\" is no device; name cpu or cuda:0"};
  }
  if (const Status started = start(); !started.ok()) return started.error();
  const auto openDirect =
      [runtime = shared_from_this()](const std::shared_ptr<CudaPrimaryContext>& context)
      -> Result<std::shared_ptr<DirectFiles>> {
    Result<std::shared_ptr<CufileDriver>> driver = runtime->cufileDriver(*context);
    if (!driver.ok()) return driver.error();
    return makeCufileFiles(*driver, context);
  };
  Result<std::shared_ptr<CudaDevice>> device = CudaDevice::open(**cuda_, *ordinal, openDirect);
  if (!device.ok()) return device.error();
  return std::shared_ptr<Device>(*device);
}

Result<std::shared_ptr<CufileDriver>> GpuRuntime::cufileDriver(const CudaPrimaryContext& context,
                                                               bool trial) {
  const std::lock_guard lock(cufileMutex_);
  if (!cufile_.has_value()) cufile_.emplace(openCufile(context, trial));
  return *cufile_;
}

Result<std::shared_ptr<CufileDriver>> GpuRuntime::openCufile(const CudaPrimaryContext& context,
                                                             bool trial) {
  int version = 0;
  if (const int asked = context.cuda().driverGetVersion(&version); asked != kCudaSuccess) {
    return cudaError(context.cuda(), "cuDriverGetVersion", asked);
  }
  utsname kernel{};
  uname(&kernel);
  const DirectSupport support = findDirectSupport(version, kernel.release, seams_.root);
  if (const Status possible = checkDirectSupport(support); !possible.ok()) return possible.error();
  const bool peerToPeer = support.nvidiaFs.empty();
  Result<CufileFunctions> cufile = seams_.cufile();
  if (!cufile.ok()) return cufile.error();
  if (trial) {
    if (const Status tried = seams_.trial(peerToPeer); !tried.ok()) return tried.error();
  }
  return CufileDriver::open(*cufile, context, peerToPeer);
}

Result<std::shared_ptr<Device>> openDevice(std::string_view name) {
  // Never destroyed: the drivers' own exit handlers run in no known order.
  static const auto& runtime =
      *new std::shared_ptr<GpuRuntime>(std::make_shared<GpuRuntime>(GpuRuntime::system()));
  return runtime->open(name);
}

}  // namespace hearth
