#include "gpu/load_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "base/owned_fd.h"

namespace hearth {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{64} << 20;
constexpr int kPieces = 500;

Error broken(const std::string& what) { return {ErrorCode::kInternal, what}; }

Status refusesWrongMemory(Device& device) {
  Result<std::shared_ptr<MemoryRegion>> memory = device.allocate(kBytes);
  if (!memory.ok()) return memory.error();
  const std::uint64_t address = (*memory)->address();
  if (!device.adopt(address + 8, kBytes / 2, *memory).ok()) {
    return broken("a part of the memory is refused");
  }
  if (device.adopt(address, std::uint64_t{1} << 50, *memory).ok()) {
    return broken("a petabyte is accepted");
  }
  int onHost = 0;
  if (device.adopt(reinterpret_cast<std::uint64_t>(&onHost), sizeof onHost, nullptr).ok()) {
    return broken("memory of the host is accepted");
  }
  Result<std::shared_ptr<MemoryRegion>> adopted = device.adopt(address, kBytes, nullptr);
  if (!adopted.ok()) return adopted.error();
  memory->reset();
  if (device.check(**adopted).ok()) return broken("freed memory is accepted");
  return {};
}

Result<std::vector<std::byte>> readBack(Device& device, std::uint64_t address, std::size_t bytes) {
  Result<std::unique_ptr<PinnedMemory>> pinned = device.pin(bytes);
  if (!pinned.ok()) return pinned.error();
  Result<std::unique_ptr<CopyStream>> stream = device.stream();
  if (!stream.ok()) return stream.error();
  Status status = (*stream)->copyOut((*pinned)->bytes(), address);
  if (status.ok()) status = (*stream)->mark(0);
  if (status.ok()) status = (*stream)->wait(0);
  if (!status.ok()) return status.error();
  const std::span<std::byte> bytesOf = (*pinned)->bytes();
  return std::vector<std::byte>(bytesOf.begin(), bytesOf.end());
}

// Pieces of any offset and size, side by side in memory, as the tensors of a file are.
Status readsAnyPieces(const std::shared_ptr<Device>& device, const LoadOptions& options) {
  const OwnedFd file(open(options.paths.front().c_str(), O_RDONLY | O_CLOEXEC));
  const off_t size = file ? lseek(file.get(), 0, SEEK_END) : -1;
  if (size <= 0) return errnoError(errno, "open " + options.paths.front());
  Result<std::shared_ptr<MemoryRegion>> memory = device->allocate(kBytes);
  if (!memory.ok()) return memory.error();
  std::mt19937_64 random(1);
  std::vector<FilePiece> pieces;
  std::vector<std::byte> expected;
  for (int index = 0; index < kPieces; ++index) {
    const std::uint64_t offset = random() % static_cast<std::uint64_t>(size);
    const std::uint64_t most =
        std::min<std::uint64_t>(static_cast<std::uint64_t>(size) - offset, kBytes / kPieces);
    const std::uint64_t bytes = 1 + random() % most;
    pieces.push_back({options.paths.front(), offset, {*memory, expected.size(), bytes}});
    expected.resize(expected.size() + bytes);
    const ssize_t got = pread(file.get(), expected.data() + expected.size() - bytes, bytes,
                              static_cast<off_t>(offset));
    if (got != static_cast<ssize_t>(bytes)) return errnoError(errno, "read the file");
  }
  Result<std::unique_ptr<DeviceFiles>> files = DeviceFiles::open(device, options.files);
  if (!files.ok()) return files.error();
  const Result<Transferred> moved = (*files)->read(pieces);
  if (!moved.ok()) return moved.error();
  Result<std::vector<std::byte>> got = readBack(*device, (*memory)->address(), expected.size());
  if (!got.ok()) return got.error();
  return *got == expected ? Status() : broken("bytes differ");
}

Status exportsDmaBuf(Device& device, std::string& detail) {
  Result<std::shared_ptr<MemoryRegion>> memory = device.allocate(kBytes);
  if (!memory.ok()) return memory.error();
  Result<Device::DmaBuf> exported = device.exportDmaBuf(**memory);
  if (!exported.ok()) return exported.error();
  detail = "offset " + std::to_string(exported->offset);
  return {};
}

}  // namespace

Result<std::vector<LoadCheck>> runChecks(const LoadOptions& options) {
  Result<std::shared_ptr<Device>> device = openDevice(options.device);
  if (!device.ok()) return device.error();
  std::vector<LoadCheck> checks;
  checks.push_back({"wrong memory is refused", refusesWrongMemory(**device), ""});
  checks.push_back({"pieces of any size arrive", readsAnyPieces(*device, options), ""});
  std::string detail;
  const Status exported = exportsDmaBuf(**device, detail);
  checks.push_back({"memory is exported by dma-buf", exported, detail});
  return checks;
}

}  // namespace hearth
