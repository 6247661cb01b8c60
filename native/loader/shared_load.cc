#include "loader/shared_load.h"

#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "gpu/device_files.h"
#include "loader/loaded_check.h"
#include "memory/memory_touch.h"

namespace hearth {
namespace {

using Memories = std::vector<std::shared_ptr<MemoryRegion>>;

// The memory of each file begins at a page that the kernel can make a large one.
constexpr std::uint64_t kFileAlignment = std::uint64_t{2} << 20;

// Where the memory of each file begins in that of all, and behind them the end of the last.
std::vector<std::uint64_t> placesOf(const LoadPlan& plan) {
  std::vector<std::uint64_t> places{0};
  for (const FilePlan& file : plan.files) {
    const std::uint64_t end = places.back() + file.memoryBytes;
    places.push_back((end + kFileAlignment - 1) / kFileAlignment * kFileAlignment);
  }
  return places;
}

// Equal for ranks that load the same bytes of the same files to the same places. FNV-1a of words;
// ranks may err but do not deceive.
std::uint64_t hashOf(const LoadPlan& plan) {
  std::uint64_t hash = 0xCBF29CE484222325;
  const auto add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x100000001B3; };
  for (const FilePlan& file : plan.files) {
    for (const std::uint64_t word : file.file->identity()) add(word);
    for (const PlannedRead& read : file.reads) {
      add(read.offset);
      add(read.inMemory);
      add(read.size);
    }
  }
  return hash;
}

// A mapping of all of the file; unmapped by the last owner.
class Mapping {
 public:
  // `flags`: MAP_SHARED or MAP_PRIVATE.
  static Result<std::shared_ptr<Mapping>> of(const OwnedFd& file, std::uint64_t bytes, int flags) {
    void* const data =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, file.get(), 0);
    if (data == MAP_FAILED) return errnoError(errno, "map the memory of the model");
    madvise(data, bytes, MADV_HUGEPAGE);
    return std::make_shared<Mapping>(static_cast<std::byte*>(data), bytes);
  }
  Mapping(std::byte* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { munmap(data_, bytes_); }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* const data_;
  const std::uint64_t bytes_;
};

// Makes large pages of the memory that a share fills: see touchWindows() of slice_load.cc.
Status touchShare(const LoadPlan& share, const std::vector<std::uint64_t>& places,
                  const OwnedFd& memory) {
  constexpr std::uint64_t kPage = kDirectReadAlignment;
  for (std::size_t i = 0; i < share.files.size(); ++i) {
    const std::vector<PlannedRead>& reads = share.files[i].reads;
    if (reads.empty()) continue;
    const std::uint64_t begin = (places[i] + reads.front().inMemory) / kPage * kPage;
    const std::uint64_t end = places[i] + reads.back().inMemory + reads.back().size;
    const auto touched =
        touchMemory(memory.get(), begin, (end - begin + kPage - 1) / kPage * kPage);
    if (!touched) return touched.error();
  }
  return {};
}

Status readShare(const LoadPlan& share, const std::vector<std::uint64_t>& places,
                 const OwnedFd& memory, const ReadOptions& options) {
  if (Status touched = touchShare(share, places, memory); !touched) return touched;
  const auto mapping = Mapping::of(memory, places.back(), MAP_SHARED);
  if (!mapping) return mapping.error();
  std::vector<FileDestination> destinations;
  for (std::size_t i = 0; i < share.files.size(); ++i) {
    destinations.push_back({&share.files[i], (*mapping)->data() + places[i]});
  }
  if (Status read = readInParallel(destinations, options); !read) return read;
  for (std::size_t i = 0; i < share.files.size(); ++i) {
    const auto address = reinterpret_cast<std::uintptr_t>((*mapping)->data() + places[i]);
    if (Status same = checkLoaded(share.files[i], address, nullptr); !same) return same;
  }
  return {};
}

Result<Memories> onHost(const LoadPlan& plan, const std::vector<std::uint64_t>& places,
                        const OwnedFd& memory) {
  const auto mapping = Mapping::of(memory, places.back(), MAP_PRIVATE);
  if (!mapping) return mapping.error();
  Memories memories;
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    const std::uint64_t bytes = plan.files[i].memoryBytes;
    memories.push_back(bytes == 0
                           ? nullptr
                           : MemoryRegion::host({(*mapping)->data() + places[i], bytes}, *mapping));
  }
  return memories;
}

Result<Memories> onDevice(const LoadPlan& plan, const std::vector<std::uint64_t>& places,
                          const OwnedFd& memory, const std::shared_ptr<Device>& device) {
  // Nothing but memory is read, which no storage device can write into a GPU.
  auto files = DeviceFiles::open(device, {.choice = DeviceFiles::Choice::kBounced});
  if (!files) return files.error();
  const std::string path = "/proc/self/fd/" + std::to_string(memory.get());
  Memories memories;
  std::vector<FilePiece> pieces;
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    const FilePlan& file = plan.files[i];
    memories.emplace_back();
    if (file.memoryBytes == 0) continue;
    auto allocated = device->allocate(file.memoryBytes);
    if (!allocated) return allocated.error().within("memory for " + file.file->path());
    memories.back() = std::move(*allocated);
    for (const PlannedRead& read : file.reads) {
      pieces.push_back({path, places[i] + read.inMemory,
                        MemorySlice{memories.back(), read.inMemory, read.size}});
    }
  }
  const auto moved = (*files)->read(pieces);
  if (!moved) return moved.error();
  return memories;
}

}  // namespace

Result<Memories> loadTogether(const LoadPlan& plan, const RankPlace& place,
                              const std::shared_ptr<Device>& device, const ReadOptions& options) {
  const std::vector<std::uint64_t> places = placesOf(plan);
  auto ranks = NodeRanks::meet(place, hashOf(plan), places.back());
  if (!ranks) return ranks.error();
  if (places.back() == 0) {
    if (const Status all = (*ranks)->finish({}); !all) return all.error();
    return Memories(plan.files.size());
  }
  const Status read =
      readShare(shareOf(plan, place.rank, place.ranks), places, (*ranks)->memory(), options);
  if (const Status all = (*ranks)->finish(read); !all) return all.error();
  return device ? onDevice(plan, places, (*ranks)->memory(), device)
                : onHost(plan, places, (*ranks)->memory());
}

}  // namespace hearth
