// The functions of libcufile over FakeGpu.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "gpu/testing/fake_gpu.h"

namespace hearth::testing_gpu {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kMaxInFlight = 128;

int asCufile(int result) { return result == 0 || result >= 5000 ? result : kCufileCudaDriverError; }

}  // namespace

struct FakeCufile {
  static FakeGpu& gpu() { return FakeGpu::instance(); }
  static CufileStatus status(int result) {
    return {asCufile(result), asCufile(result) == kCufileCudaDriverError ? result : 0};
  }
  // Breaches of what every call but driverOpen() and its preparations has in common.
  static bool mayCall(const char* call) {
    gpu().currentDevice(call);
    if (!gpu().driverOpen_) gpu().breach(std::string(call) + " without an open driver");
    return gpu().driverOpen_;
  }

  static CufileStatus driverOpen() {
    FakeGpu::Lock lock(gpu().mutex_);
    gpu().currentDevice("cuFileDriverOpen");
    if (const int result = gpu().enter(lock, "cuFileDriverOpen"); result != 0) {
      return status(result);
    }
    if (gpu().driverOpen_) gpu().breach("the cuFile driver is opened twice");
    const auto storage = gpu().options_.storage;
    const bool works = storage == FakeOptions::Storage::kNvidiaFs ||
                       (storage == FakeOptions::Storage::kPeerToPeer && gpu().peerToPeer_);
    if (!works && !gpu().compatibility_) return status(kCufileDriverNotInitialized);
    gpu().driverOpen_ = true;
    return status(0);
  }
  static CufileStatus driverClose() {
    FakeGpu::Lock lock(gpu().mutex_);
    const int result = gpu().enter(lock, "cuFileDriverClose", false);
    if (!gpu().driverOpen_) gpu().breach("the cuFile driver is closed and not open");
    if (!gpu().handles_.empty()) gpu().breach("the cuFile driver closes before its files");
    if (!gpu().registered_.empty()) gpu().breach("the cuFile driver closes before its memory");
    gpu().driverOpen_ = false;
    return status(result);
  }
  static CufileStatus driverGetProperties(CufileProperties* properties) {
    FakeGpu::Lock lock(gpu().mutex_);
    if (const int result = gpu().enter(lock, "cuFileDriverGetProperties"); result != 0) {
      return status(result);
    }
    *properties = {};
    if (gpu().options_.storage == FakeOptions::Storage::kNvidiaFs) {
      properties->nvidiaFs = {2, 19, 4, 16384, kCufileNvme, 0};
    } else if (gpu().options_.storage == FakeOptions::Storage::kPeerToPeer) {
      properties->features = kCufilePeerToPeer;
    }
    if (gpu().compatibility_ || gpu().options_.alwaysAllowsCompatibility) {
      properties->nvidiaFs.controlFlags |= kCufileCompatibilityAllowed;
    }
    return status(0);
  }
  static CufileStatus getVersion(int* version) {
    *version = 1140;
    return status(0);
  }
  static CufileStatus setParameterBool(int parameter, bool value) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int result = gpu().enter(lock, "cuFileSetParameterBool");
    if (gpu().driverOpen_) gpu().breach("a parameter of cuFile is set after the driver is open");
    if (result != 0) return status(result);
    if (parameter == kCufileAllowCompatibility) gpu().compatibility_ = value;
    if (parameter == kCufileUsePeerToPeer) gpu().peerToPeer_ = value;
    return status(0);
  }

  static CufileStatus handleRegister(CufileHandle* handle, CufileDescription* description) {
    FakeGpu::Lock lock(gpu().mutex_);
    if (!mayCall("cuFileHandleRegister")) return status(kCufileDriverNotInitialized);
    if (const int result = gpu().enter(lock, "cuFileHandleRegister"); result != 0) {
      return status(result);
    }
    const int flags = fcntl(description->descriptor, F_GETFL);
    if (description->type != kCufileOpaqueDescriptor || flags < 0 || (flags & O_DIRECT) == 0) {
      gpu().breach("a file is registered that is not open with O_DIRECT");
      return status(kCufileDirectIoNotSet);
    }
    *handle = reinterpret_cast<CufileHandle>(gpu().nextHandle_++);
    gpu().handles_[*handle] = description->descriptor;
    return status(0);
  }
  static void handleDeregister(CufileHandle handle) {
    FakeGpu::Lock lock(gpu().mutex_);
    gpu().enter(lock, "cuFileHandleDeregister", false);
    if (!mayCall("cuFileHandleDeregister")) return;
    const auto found = gpu().handles_.find(handle);
    if (found == gpu().handles_.end()) {
      gpu().breach("a file is deregistered that is not registered");
      return;
    }
    if (gpu().handlesInUse_.contains(handle)) gpu().breach("a file is deregistered in flight");
    if (fcntl(found->second, F_GETFL) < 0) gpu().breach("a file is closed while it is registered");
    gpu().handles_.erase(found);
  }
  static CufileStatus bufferRegister(const void* address, std::size_t bytes, int flags) {
    FakeGpu::Lock lock(gpu().mutex_);
    if (!mayCall("cuFileBufRegister")) return status(kCufileDriverNotInitialized);
    if (const int result = gpu().enter(lock, "cuFileBufRegister"); result != 0) {
      return status(result);
    }
    const auto start = reinterpret_cast<std::uint64_t>(address);
    if (flags != 0 || !gpu().isAllocated(start, bytes)) return status(kCufileInvalidValue);
    if (gpu().registered_.contains(start)) return status(kCufileMemoryAlreadyRegistered);
    gpu().registered_[start] = bytes;
    return status(0);
  }
  static CufileStatus bufferDeregister(const void* address) {
    FakeGpu::Lock lock(gpu().mutex_);
    const int result = gpu().enter(lock, "cuFileBufDeregister", false);
    if (!mayCall("cuFileBufDeregister")) return status(kCufileDriverNotInitialized);
    const auto found = gpu().registered_.find(reinterpret_cast<std::uint64_t>(address));
    if (found == gpu().registered_.end()) {
      gpu().breach("memory is deregistered that is not registered");
      return status(kCufileMemoryNotRegistered);
    }
    for (const FakeGpu::Use& use : gpu().inFlight_) {
      if (use.address < found->first + found->second && found->first < use.address + use.bytes) {
        gpu().breach("memory is deregistered in flight");
      }
    }
    gpu().registered_.erase(found);
    return status(result);
  }

  static ssize_t move(const char* call, bool isRead, CufileHandle handle, std::uint64_t base,
                      std::size_t bytes, off_t fileOffset, off_t baseOffset) {
    FakeGpu::Lock lock(gpu().mutex_);
    if (!mayCall(call)) return -kCufileDriverNotInitialized;
    if (const int result = gpu().enter(lock, call); result != 0) return -asCufile(result);
    const auto found = gpu().handles_.find(handle);
    if (found == gpu().handles_.end()) {
      gpu().breach(std::string(call) + " of a file that is not registered");
      return -kCufileHandleNotRegistered;
    }
    const std::uint64_t address = base + static_cast<std::uint64_t>(baseOffset);
    if (!isAllowed(call, isRead, found->second, base, address, bytes, fileOffset)) {
      return -kCufileInvalidValue;
    }
    gpu().handlesInUse_.insert(handle);
    gpu().inFlight_.push_back({address, bytes});
    gpu().mostInFlight_ = std::max(gpu().mostInFlight_, gpu().inFlight_.size());
    if (gpu().inFlight_.size() > kMaxInFlight) gpu().breach("more than 128 requests in flight");
    std::byte* const memory = gpu().shadowOf(address);
    const int file = found->second;
    // Now and then only some of the pages.
    const std::size_t asked =
        bytes > kPage && gpu().random_() % 8 == 0 ? bytes / 2 / kPage * kPage + kPage : bytes;
    lock.unlock();
    const std::size_t pages = (std::min(asked, bytes) + kPage - 1) / kPage * kPage;
    const ssize_t moved = isRead ? pread(file, memory, pages, fileOffset)
                                 : pwrite(file, memory, std::min(asked, bytes), fileOffset);
    const int error = errno;
    lock.lock();
    gpu().handlesInUse_.erase(gpu().handlesInUse_.find(handle));
    gpu().inFlight_.erase(std::ranges::find_if(gpu().inFlight_, [&](const FakeGpu::Use& use) {
      return use.address == address && use.bytes == bytes;
    }));
    errno = error;
    return std::min(moved, static_cast<ssize_t>(bytes));
  }
  static bool isAllowed(const char* call, bool isRead, int file, std::uint64_t base,
                        std::uint64_t address, std::size_t bytes, off_t fileOffset) {
    const std::string name = call;
    struct stat info {};
    if (fstat(file, &info) != 0) {
      gpu().breach(name + " of a file that is closed");
      return false;
    }
    const bool reachesEnd = fileOffset + static_cast<off_t>(bytes) >= info.st_size;
    if (((static_cast<std::uint64_t>(fileOffset) | address) % kPage) != 0 ||
        (bytes % kPage != 0 && !(isRead && reachesEnd))) {
      gpu().breach(name + " with a misaligned offset, address or size");
    }
    if (!isRead && fileOffset + static_cast<off_t>(bytes) > info.st_size) {
      gpu().breach(name + " would make the file longer");
    }
    const auto known = gpu().registered_.find(base);
    if (known != gpu().registered_.end() && address + bytes > base + known->second) {
      gpu().breach(name + " beyond the registered memory");
      return false;
    }
    return gpu().isAllocated(address, bytes);
  }
  static ssize_t read(CufileHandle handle, void* base, std::size_t bytes, off_t fileOffset,
                      off_t baseOffset) {
    return move("cuFileRead", true, handle, reinterpret_cast<std::uint64_t>(base), bytes,
                fileOffset, baseOffset);
  }
  static ssize_t write(CufileHandle handle, const void* base, std::size_t bytes, off_t fileOffset,
                       off_t baseOffset) {
    return move("cuFileWrite", false, handle, reinterpret_cast<std::uint64_t>(base), bytes,
                fileOffset, baseOffset);
  }
};

CufileFunctions FakeGpu::cufile() {
  return {FakeCufile::driverOpen,
          FakeCufile::driverClose,
          FakeCufile::driverGetProperties,
          FakeCufile::handleRegister,
          FakeCufile::handleDeregister,
          FakeCufile::bufferRegister,
          FakeCufile::bufferDeregister,
          FakeCufile::read,
          FakeCufile::write,
          FakeCufile::getVersion,
          FakeCufile::setParameterBool};
}

}  // namespace hearth::testing_gpu
