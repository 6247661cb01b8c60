#include "loader/model_loader.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>

#include "gpu/device_files.h"
#include "loader/loaded_check.h"
#include "loader/mapped_file.h"
#include "loader/shared_load.h"
#include "loader/slice_load.h"

namespace hearth {
namespace {

using Memories = std::vector<std::shared_ptr<MemoryRegion>>;

// Between two reports of progress.
constexpr std::uint64_t kDeviceStepBytes = std::uint64_t{256} << 20;

Status readToHost(const LoadPlan& plan, const Memories& memories, const ReadOptions& options) {
  std::vector<FileDestination> destinations;
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    if (memories[i]) destinations.push_back({&plan.files[i], memories[i]->bytes().data()});
  }
  return readInParallel(destinations, options);
}

// The planned reads, cut so that progress can be reported.
std::vector<FilePiece> devicePieces(const LoadPlan& plan, const Memories& memories) {
  std::vector<FilePiece> pieces;
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    for (const PlannedRead& read : plan.files[i].reads) {
      for (std::uint64_t done = 0; done < read.size; done += kDeviceStepBytes) {
        const std::uint64_t size = std::min(kDeviceStepBytes, read.size - done);
        pieces.push_back({plan.files[i].file->path(), read.offset + done,
                          MemorySlice{memories[i], read.inMemory + done, size}});
      }
    }
  }
  return pieces;
}

Status readToDevice(const LoadPlan& plan, const Memories& memories,
                    const std::shared_ptr<Device>& device, const ReadOptions& options) {
  auto files = DeviceFiles::open(device, {});
  if (!files) return files.error();
  const std::vector<FilePiece> pieces = devicePieces(plan, memories);
  std::uint64_t done = 0;
  for (std::size_t next = 0; next < pieces.size();) {
    const std::size_t first = next;
    std::uint64_t step = 0;
    while (next < pieces.size() && step < kDeviceStepBytes) step += pieces[next++].memory.size;
    const auto moved = (*files)->read(std::span(pieces).subspan(first, next - first));
    if (!moved) return moved.error();
    done += step;
    if (options.progress && !options.progress(done, plan.readBytes())) {
      return Error{ErrorCode::kCancelled, "the load was cancelled"};
    }
  }
  return {};
}

// The memory of the machine with its swap, or of the container.
std::uint64_t hostMemoryBytes() {
  struct sysinfo machine {};
  if (sysinfo(&machine) != 0) return UINT64_MAX;
  std::uint64_t most = (std::uint64_t{machine.totalram} + machine.totalswap) * machine.mem_unit;
  std::uint64_t container = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> container) most = std::min(most, container);
  return most;
}

// Pages are only promised when they are mapped: a load of more than there is would end the process.
Status checkRoom(const LoadPlan& plan) {
  std::uint64_t needed = 0;
  for (const FilePlan& file : plan.files) {
    if (!file.reads.empty() || !file.rows.empty()) needed += file.memoryBytes;
  }
  const std::uint64_t most = hostMemoryBytes();
  if (needed <= most) return {};
  return Error{ErrorCode::kOutOfSpace,
               "the tensors need " + std::to_string(needed) + " bytes of memory, and there are " +
                   std::to_string(most) +
                   "; load fewer by name, or give the machine or the container more memory"};
}

// Memory for each file of the plan that has none yet; null for one without bytes. `device` is null
// for the host.
Result<Memories> allocateFor(const LoadPlan& plan, Memories memories, Device* device) {
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    const FilePlan& file = plan.files[i];
    if (file.memoryBytes == 0 || memories[i]) continue;
    auto memory = device != nullptr ? device->allocate(file.memoryBytes)
                                    : MemoryRegion::allocate(file.memoryBytes);
    if (!memory) return memory.error().within("memory for " + file.file->path());
    memories[i] = std::move(*memory);
  }
  return memories;
}

// Memory for each file of the plan: of those that can be mapped, whose plans then have no reads.
Memories mapCached(LoadPlan& plan) {
  Memories memories(plan.files.size());
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    if (plan.files[i].memoryBytes == 0) continue;
    auto mapped = mapCachedFile(plan.files[i]);
    if (!mapped) continue;
    plan.files[i] = std::move(mapped->plan);
    memories[i] = std::move(mapped->memory);
  }
  return memories;
}

// Memory for each file of the plan with all of its bytes in it.
Result<Memories> readAll(LoadPlan& plan, std::span<const std::shared_ptr<const ModelFile>> files,
                         const std::shared_ptr<Device>& device, const LoadOptions& options) {
  if (!options.slices && options.place && options.place->ranks != 1) {
    if (const Status room = checkRoom(plan); !room) return room.error();
    return loadTogether(plan, *options.place, device, options.read);
  }
  Memories mapped(plan.files.size());
  if (!device && options.mapsCachedFiles) mapped = mapCached(plan);
  if (!device) {
    if (const Status room = checkRoom(plan); !room) return room.error();
  }
  Result<Memories> memories = allocateFor(plan, std::move(mapped), device.get());
  if (!memories) return memories;
  Status read;
  if (options.slices) {
    read = loadSlices(plan, files, *memories, options.place.value_or(RankPlace{}), device,
                      options.read);
  } else if (device) {
    read = readToDevice(plan, *memories, device, options.read);
  } else {
    read = readToHost(plan, *memories, options.read);
  }
  if (!read) return read.error();
  return memories;
}

Result<std::vector<std::shared_ptr<const ModelFile>>> openAll(std::span<const std::string> paths) {
  std::vector<std::shared_ptr<const ModelFile>> files;
  for (const std::string& path : paths) {
    auto file = ModelFile::open(path);
    if (!file) return file.error();
    files.push_back(std::move(*file));
  }
  return files;
}

Status checkReads(const FilePlan& plan) {
  for (const PlannedRead& read : plan.reads) {
    const std::uint64_t inFile = plan.file->bytes();
    const bool isInFile = read.offset <= inFile && read.size <= inFile - read.offset;
    // A read past the page cache fills its last page.
    const std::uint64_t page = kDirectReadAlignment;
    const bool isInMemory =
        read.inMemory <= plan.memoryBytes && read.size <= plan.memoryBytes &&
        (read.size + page - 1) / page * page <= plan.memoryBytes - read.inMemory;
    if (!isInFile || !isInMemory) {
      return Error{ErrorCode::kInvalidArgument,
                   plan.file->path() + ": " + std::to_string(read.size) + " bytes from " +
                       std::to_string(read.offset) + " on leave the file or the memory"};
    }
  }
  return {};
}

}  // namespace

Status readModelFile(const std::string& path, const std::optional<ModelLayout>& layout,
                     std::vector<PlannedRead> reads, std::uint64_t address, std::uint64_t bytes,
                     const LoadOptions& options) {
  auto file = ModelFile::open(path);
  if (!file) return file.error();
  if (layout) {
    if (Status same = (*file)->checkLayout(*layout); !same) return same;
  }
  LoadPlan plan;
  plan.files.push_back({.file = *file, .memoryBytes = bytes, .reads = std::move(reads)});
  if (Status inside = checkReads(plan.files.front()); !inside) return inside;
  Status read;
  std::shared_ptr<Device> device;
  if (options.device == "cpu") {
    const FileDestination destination{
        &plan.files.front(), reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address))};
    read = readInParallel({&destination, 1}, options.read);
  } else {
    const auto opened = openDevice(options.device);
    if (!opened) return opened.error();
    device = *opened;
    auto memory = device->adopt(address, bytes, nullptr);
    if (!memory) return memory.error();
    read = readToDevice(plan, {std::move(*memory)}, device, options.read);
  }
  return read.ok() ? checkLoaded(plan.files.front(), address, device) : read;
}

Result<LoadedModel> loadModel(std::span<const std::string> paths, const LoadOptions& options) {
  if (options.slices && options.mapsCachedFiles) {
    return Error{ErrorCode::kInvalidArgument, "slices are copied; load them without mapping files"};
  }
  std::shared_ptr<Device> device;
  if (options.device != "cpu") {
    auto opened = openDevice(options.device);
    if (!opened) return opened.error();
    device = std::move(*opened);
  }
  const auto files = openAll(paths);
  if (!files) return files.error();
  Result<LoadPlan> plan = options.slices ? planSlices(*files, options.names, *options.slices)
                                         : planLoad(*files, options.names);
  if (!plan) return plan.error();
  LoadedModel model{.plan = std::move(*plan)};
  const Result<Memories> memories = readAll(model.plan, *files, device, options);
  if (!memories) return memories.error();
  for (std::size_t i = 0; i < model.plan.files.size(); ++i) {
    const FilePlan& file = model.plan.files[i];
    const std::uint64_t address = (*memories)[i] ? (*memories)[i]->address() : 0;
    if (const Status same = checkLoaded(file, address, device); !same) return same.error();
    for (const PlacedTensor& tensor : file.tensors) {
      model.tensors.push_back({tensor.entry.get(), (*memories)[i], tensor.inMemory});
    }
  }
  return model;
}

}  // namespace hearth
