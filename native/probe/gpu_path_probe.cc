#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/owned_fd.h"
#include "gpu/device_files.h"
#include "gpu/gpu_runtime.h"
#include "probe/probes.h"

namespace hearth {
namespace {

constexpr std::size_t kTriedBytes = std::size_t{1} << 20;

// A file in the directory that is removed when the object goes.
class TriedFile {
 public:
  static Result<TriedFile> make(const std::string& directory) {
    std::string path = directory + "/.hearth-probe-XXXXXX";
    const OwnedFd file(mkostemp(path.data(), O_CLOEXEC));
    if (!file) return errnoError(errno, "make a file in " + directory);
    TriedFile made(path);
    const std::vector<char> bytes(kTriedBytes, 'h');
    const ssize_t put = write(file.get(), bytes.data(), bytes.size());
    if (put != static_cast<ssize_t>(bytes.size()) || fdatasync(file.get()) != 0) {
      return errnoError(errno, "write to " + directory);
    }
    return made;
  }
  TriedFile(TriedFile&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TriedFile& operator=(TriedFile&&) = delete;
  ~TriedFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TriedFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Status tryFile(const std::shared_ptr<Device>& device, const std::string& directory) {
  const Result<TriedFile> file = TriedFile::make(directory);
  if (!file.ok()) return file.error();
  Result<std::shared_ptr<MemoryRegion>> memory = device->allocate(kTriedBytes);
  if (!memory.ok()) return memory.error();
  DeviceFiles::Options options;
  options.choice = DeviceFiles::Choice::kDirect;
  options.lanes = 1;
  Result<std::unique_ptr<DeviceFiles>> files = DeviceFiles::open(device, options);
  if (!files.ok()) return files.error();
  const Result<Transferred> moved =
      (*files)->read({{{file->path(), 0, {*memory, 0, kTriedBytes}}}});
  if (!moved.ok()) return moved.error();
  return {};
}

}  // namespace

std::vector<Probe> probeGpuPath(const ProbeOptions& options, const std::string& directory,
                                const Stage& stage) {
  const std::string name = directory.empty() ? "gpu path" : "gpu path " + directory;
  stage("dlopen " + options.cudaLibrary);
  GpuRuntime::Seams seams;
  seams.cuda = [&] { return loadCuda(options.cudaLibrary); };
  seams.cufile = [&] {
    stage("cuFileDriverOpen of " + options.cufileLibrary);
    return loadCufile(options.cufileLibrary);
  };
  // This process is the one that may hang.
  seams.trial = [](bool) { return Status(); };
  seams.root = options.root;
  const auto runtime = std::make_shared<GpuRuntime>(std::move(seams));
  stage("cuInit");
  const Result<std::shared_ptr<Device>> device = runtime->open("cuda:0");
  if (!device.ok()) {
    return {{name, ProbeStatus::kMissing, "host memory only: " + device.error().message,
             "Nothing to do on a machine without GPUs."}};
  }
  Result<std::shared_ptr<DirectFiles>> direct = (*device)->directFiles();
  const auto bounced = [&](const Error& why) {
    return std::vector<Probe>{{name, ProbeStatus::kDegraded, "bounced: " + why.message,
                               "Bytes reach GPUs through pinned memory, which is nearly as fast "
                               "while the disk is the bottleneck; docs/gpu.md has the set-up."}};
  };
  if (!direct.ok()) return bounced(direct.error());
  if (!directory.empty()) {
    stage("a direct read from " + directory);
    if (const Status tried = tryFile(*device, directory); !tried.ok()) {
      return bounced(tried.error());
    }
  }
  return {{name, ProbeStatus::kOk, "direct: " + std::string((*direct)->description()), ""}};
}

}  // namespace hearth
