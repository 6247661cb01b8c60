#include "loader/slice_load.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "loader/slice_schedule.h"
#include "loader/slice_sink.h"
#include "loader/window_reader.h"
#include "memory/memory_touch.h"

namespace hearth {
namespace {

using Files = std::span<const std::shared_ptr<const ModelFile>>;

// Ranks meet once a window, which takes far less time than filling it.
constexpr std::uint64_t kWindowBytes = std::uint64_t{16} << 20;
// While each rank takes its own from one, they read the others: storage needs as much under way.
constexpr std::size_t kSlots = 4;

// The memory that all ranks see: some windows, and behind them what each rank wants.
struct SharedLayout {
  std::uint64_t wantedOfRank = 0;  // the greatest number
  unsigned ranks = 1;

  [[nodiscard]] std::uint64_t bytes() const {
    return kSlots * kWindowBytes + ranks * wantedOfRank * sizeof(WantedRows);
  }
};

class SharedMemory {
 public:
  static Result<SharedMemory> map(const OwnedFd& memory, const SharedLayout& layout) {
    auto region = MemoryRegion::map(memory.get(), 0, layout.bytes());
    if (!region) return region.error();
    return SharedMemory(std::move(*region), layout);
  }
  [[nodiscard]] std::byte* window(std::size_t number) const {
    return region_->bytes().data() + number % kSlots * kWindowBytes;
  }
  void tell(unsigned rank, std::span<const WantedRows> wanted) const {
    // memcpy(3) takes no null pointer, also of no bytes.
    if (!wanted.empty()) std::memcpy(wantedOf(rank), wanted.data(), wanted.size_bytes());
  }
  // Entries that a rank has not told are empty.
  [[nodiscard]] std::vector<std::vector<WantedRows>> all() const {
    std::vector<std::vector<WantedRows>> all(layout_.ranks);
    if (layout_.wantedOfRank == 0) return all;
    for (unsigned rank = 0; rank < layout_.ranks; ++rank) {
      all[rank].resize(layout_.wantedOfRank);
      std::memcpy(all[rank].data(), wantedOf(rank), layout_.wantedOfRank * sizeof(WantedRows));
      std::erase_if(all[rank], [](const WantedRows& rows) { return rows.rows.bytes() == 0; });
    }
    return all;
  }

 private:
  SharedMemory(std::shared_ptr<MemoryRegion> region, const SharedLayout& layout)
      : region_(std::move(region)), layout_(layout) {}
  [[nodiscard]] std::byte* wantedOf(unsigned rank) const {
    return region_->bytes().data() + kSlots * kWindowBytes +
           rank * layout_.wantedOfRank * sizeof(WantedRows);
  }

  std::shared_ptr<MemoryRegion> region_;
  SharedLayout layout_;
};

// The first rank does it before any reads: of large pages the kernel asks storage for 2 MiB at a
// time, of small ones for some hundred pieces that are not beside each other.
Status touchWindows(const OwnedFd& memory, std::uint64_t bytesOfFiles) {
  const std::uint64_t pages = (bytesOfFiles + kDirectReadAlignment - 1) / kDirectReadAlignment;
  const auto touched =
      touchMemory(memory.get(), 0, std::min(kSlots * kWindowBytes, pages * kDirectReadAlignment));
  return touched ? Status() : Status(touched.error());
}

std::vector<WantedRows> wantedBy(const LoadPlan& plan, Files files) {
  std::vector<WantedRows> wanted;
  for (const FilePlan& file : plan.files) {
    const auto index =
        static_cast<std::uint64_t>(std::ranges::find(files, file.file) - files.begin());
    for (const RowRead& rows : file.rows) wanted.push_back({index, rows});
  }
  return wanted;
}

std::uint64_t hashOf(Files files, bool isOnDevice) {
  std::uint64_t hash = isOnDevice ? 0xCBF29CE484222325 : 0x84222325CBF29CE4;  // FNV-1a of words
  for (const auto& file : files) {
    for (const std::uint64_t word : file->identity()) hash = (hash ^ word) * 0x100000001B3;
  }
  return hash;
}

class SliceLoad {
 public:
  SliceLoad(Files files, const std::vector<std::shared_ptr<MemoryRegion>>& memories,
            SliceSchedule schedule, const SharedMemory& shared, const RankPlace& place,
            SliceSink& sink, const ReadOptions& options, std::uint64_t total)
      : files_(files),
        memories_(memories),
        schedule_(std::move(schedule)),
        windows_(windowsOf(schedule_.shared, kWindowBytes)),
        shared_(shared),
        place_(place),
        sink_(sink),
        options_(options),
        total_(total) {}

  Status run(NodeRanks& ranks) {
    std::vector<SliceWindow> shares;
    for (const SliceWindow& window : windows_) {
      shares.push_back(shareOf(window, place_.rank, place_.ranks));
    }
    std::vector<std::byte*> slots;
    for (std::size_t slot = 0; slot < kSlots; ++slot) slots.push_back(shared_.window(slot));
    WindowReader reader(files_, shares, std::move(slots), options_.threads);
    reader.allow(kSlots);
    Status mine = readOwn();
    for (std::size_t number = 0; number < windows_.size(); ++number) {
      Status read = reader.await(number);
      if (mine.ok()) mine = std::move(read);
      if (Status all = ranks.agree(mine); !all) return all;
      // All have read their shares of this window and have taken their own from the one before.
      reader.allow(number + kSlots);
      mine = take(number);
    }
    if (mine.ok()) mine = sink_.finish();
    return ranks.agree(mine);
  }

 private:
  Status readOwn() {
    std::vector<FilePlan> plans;
    for (const WantedRows& each : schedule_.own) {
      const RowRead& rows = each.rows;
      planOf(each.file, plans).reads.push_back({rows.offset, rows.inMemory, rows.rowBytes});
    }
    std::vector<FileDestination> destinations;
    for (const FilePlan& plan : plans) {
      destinations.push_back({&plan, memories_[indexOf(plan)]->bytes().data()});
    }
    ReadOptions options = options_;
    std::uint64_t before = 0;
    options.progress = [&](std::uint64_t done, std::uint64_t) {
      return report(done - std::exchange(before, done)).ok();
    };
    return readInParallel(destinations, options);
  }

  Status take(std::size_t number) {
    if (Status ready = sink_.begin(); !ready) return ready;
    std::uint64_t taken = 0;
    for (const auto& [range, inWindow] : windows_[number]) {
      auto wanted = std::ranges::partition_point(schedule_.taken, [&](const WantedRows& each) {
        return std::pair(each.file, each.rows.end()) <= std::pair(range.file, range.offset);
      });
      for (; wanted != schedule_.taken.end() && wanted->file == range.file &&
             wanted->rows.offset < range.offset + range.size;
           ++wanted) {
        const RowRange in = rangeOf(wanted->rows, range.offset, range.size);
        if (in.size == 0) continue;
        copyRows(wanted->rows, range.offset, range.size, shared_.window(number) + inWindow,
                 sink_.place(range.file, in.begin, in.size));
        taken += in.size;
      }
    }
    if (Status sent = sink_.end(); !sent) return sent;
    return report(taken);
  }

  Status report(std::uint64_t bytes) {
    done_ += bytes;
    if (bytes == 0 || !options_.progress || options_.progress(done_, total_)) return {};
    return Error{ErrorCode::kCancelled, "the load was cancelled"};
  }

  // Appended when the file has none yet; ranges come by file.
  FilePlan& planOf(std::uint64_t file, std::vector<FilePlan>& plans) const {
    if (plans.empty() || plans.back().file != files_[file]) {
      plans.push_back({.file = files_[file]});
    }
    return plans.back();
  }
  std::size_t indexOf(const FilePlan& plan) const {
    return static_cast<std::size_t>(std::ranges::find(files_, plan.file) - files_.begin());
  }

  const Files files_;
  const std::vector<std::shared_ptr<MemoryRegion>>& memories_;  // of each file
  const SliceSchedule schedule_;
  const std::vector<SliceWindow> windows_;
  const SharedMemory& shared_;
  const RankPlace& place_;
  SliceSink& sink_;
  const ReadOptions& options_;
  const std::uint64_t total_;
  std::uint64_t done_ = 0;
};

}  // namespace

Status loadSlices(const LoadPlan& plan, Files files,
                  const std::vector<std::shared_ptr<MemoryRegion>>& memories,
                  const RankPlace& place, const std::shared_ptr<Device>& device,
                  const ReadOptions& options) {
  SharedLayout layout{.ranks = place.ranks};
  for (const auto& file : files) layout.wantedOfRank += file->header().tensors.size();
  const auto ranks = NodeRanks::meet(place, hashOf(files, device != nullptr), layout.bytes());
  if (!ranks) return ranks.error();
  std::vector<std::shared_ptr<MemoryRegion>> ofFiles(files.size());
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    ofFiles[std::ranges::find(files, plan.files[i].file) - files.begin()] = memories[i];
  }
  std::vector<std::uint64_t> fileBytes;
  for (const auto& file : files) fileBytes.push_back(file->bytes());
  const std::uint64_t bytes = std::accumulate(fileBytes.begin(), fileBytes.end(), std::uint64_t{0});
  const auto shared = SharedMemory::map((*ranks)->memory(), layout);
  const auto sink = SliceSink::open(ofFiles, device, kWindowBytes);
  Status mine = !shared ? Status(shared.error()) : sink ? Status() : Status(sink.error());
  if (mine.ok() && place.rank == 0) mine = touchWindows((*ranks)->memory(), bytes);
  if (mine.ok()) shared->tell(place.rank, wantedBy(plan, files));
  if (Status all = (*ranks)->agree(mine); !all) return all;
  SliceSchedule schedule = scheduleSlices(shared->all(), fileBytes, place.rank, device == nullptr);
  return SliceLoad(files, ofFiles, std::move(schedule), *shared, place, **sink, options,
                   plan.readBytes())
      .run(**ranks);
}

}  // namespace hearth
