#include "gpu/load_run.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "base/clock.h"
#include "gpu/opened_file.h"

namespace hearth {
namespace {

constexpr std::size_t kComparedBytes = std::size_t{8} << 20;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t wholePages(std::uint64_t bytes) {
  return (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
}

// The files one after the other, each at a multiple of 4096.
struct Layout {
  std::vector<FilePiece> pieces;
  std::uint64_t bytes = 0;
};

Result<Layout> layOut(const std::vector<std::string>& paths) {
  Layout layout;
  for (const std::string& path : paths) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return errnoError(errno, "stat " + path);
    const auto size = static_cast<std::uint64_t>(info.st_size);
    layout.pieces.push_back({path, 0, {nullptr, layout.bytes, size}});
    layout.bytes += wholePages(size);
  }
  if (layout.bytes == 0) return Error{ErrorCode::kInvalidArgument, "the files are empty"};
  return layout;
}

// Copies memory of the device to the host and back without DeviceFiles.
class Window {
 public:
  static Result<Window> make(Device& device, std::size_t bytes) {
    Window window(bytes);
    if (device.isHost()) return window;
    Result<std::unique_ptr<PinnedMemory>> pinned = device.pin(bytes);
    if (!pinned.ok()) return pinned.error();
    Result<std::unique_ptr<CopyStream>> stream = device.stream();
    if (!stream.ok()) return stream.error();
    window.pinned_ = std::move(*pinned);
    window.stream_ = std::move(*stream);
    return window;
  }
  // The bytes of the region, valid until the next call.
  Result<std::span<const std::byte>> get(const MemoryRegion& region, std::uint64_t offset,
                                         std::size_t bytes) {
    if (region.isHost()) return std::span<const std::byte>(region.bytes().subspan(offset, bytes));
    const std::span<std::byte> into = pinned_->bytes().first(bytes);
    Status status = stream_->copyOut(into, region.address() + offset);
    if (status.ok()) status = stream_->mark(0);
    if (status.ok()) status = stream_->wait(0);
    if (!status.ok()) return status.error();
    return std::span<const std::byte>(into);
  }
  Status put(const MemoryRegion& region, std::uint64_t offset, std::span<const std::byte> bytes) {
    if (region.isHost()) {
      std::ranges::copy(bytes, region.bytes().subspan(offset).begin());
      return {};
    }
    std::ranges::copy(bytes, pinned_->bytes().begin());
    Status status =
        stream_->copyIn(region.address() + offset, pinned_->bytes().first(bytes.size()));
    if (status.ok()) status = stream_->mark(0);
    if (status.ok()) status = stream_->wait(0);
    return status;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  explicit Window(std::size_t size) : size_(size) {}
  std::size_t size_;
  std::unique_ptr<PinnedMemory> pinned_;
  std::unique_ptr<CopyStream> stream_;
};

// Reads the file by plain reads and compares it with the region.
Status compare(Window& window, const FilePiece& piece) {
  Result<std::shared_ptr<OpenedFile>> file = OpenedFile::open(piece.path, FileUse::kRead);
  if (!file.ok()) return file.error();
  std::vector<std::byte> expected(window.size());
  for (std::uint64_t at = 0; at < piece.memory.size; at += window.size()) {
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(window.size(), piece.memory.size - at));
    Status read = (*file)->read(std::span(expected).first(bytes), at, bytes, true);
    if (!read.ok()) return read;
    Result<std::span<const std::byte>> got =
        window.get(*piece.memory.region, piece.memory.offset + at, bytes);
    if (!got.ok()) return got.error();
    const auto different = std::ranges::mismatch(*got, std::span(expected).first(bytes));
    if (different.in1 != got->end()) {
      return Error{
          ErrorCode::kCorrupt,
          "byte " + std::to_string(at + static_cast<std::uint64_t>(different.in1 - got->begin())) +
              " of " + piece.path + " differs in the device's memory"};
    }
  }
  return {};
}

Status compareAll(Device& device, const Layout& layout) {
  Result<Window> window = Window::make(device, kComparedBytes);
  if (!window.ok()) return window.error();
  for (const FilePiece& piece : layout.pieces) {
    if (const Status same = compare(*window, piece); !same.ok()) return same;
  }
  return {};
}

// Bytes that no other place of the region has.
Status fillRandomly(Device& device, const MemoryRegion& region, std::uint64_t seed) {
  Result<Window> window = Window::make(device, kComparedBytes);
  if (!window.ok()) return window.error();
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> words(window->size() / sizeof(std::uint64_t));
  for (std::uint64_t at = 0; at < region.size(); at += window->size()) {
    std::ranges::generate(words, std::ref(random));
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(window->size(), region.size() - at));
    const Status put = window->put(region, at, std::as_bytes(std::span(words)).first(bytes));
    if (!put.ok()) return put;
  }
  return {};
}

}  // namespace

Result<LoadReport> runLoad(const LoadOptions& options) {
  const bool isStore = options.mode == LoadOptions::Mode::kStore;
  Result<Layout> layout = layOut(options.paths);
  if (!layout.ok()) return layout.error();
  Result<std::shared_ptr<Device>> device = openDevice(options.device);
  if (!device.ok()) return device.error();
  Result<std::shared_ptr<MemoryRegion>> memory = (*device)->allocate(layout->bytes);
  if (!memory.ok()) return memory.error();
  for (FilePiece& piece : layout->pieces) piece.memory.region = *memory;
  if (isStore) {
    const Status filled =
        fillRandomly(**device, **memory,
                     static_cast<std::uint64_t>(WallClock::now().time_since_epoch().count()));
    if (!filled.ok()) return filled.error();
  }
  Result<std::unique_ptr<DeviceFiles>> files = DeviceFiles::open(*device, options.files);
  if (!files.ok()) return files.error();

  LoadReport report{std::string((*device)->name()), std::string((*device)->model()), {}, 0, false};
  for (unsigned round = 0; round < options.repeat; ++round) {
    const auto start = Clock::now();
    Result<Transferred> moved =
        isStore ? (*files)->write(layout->pieces) : (*files)->read(layout->pieces);
    if (!moved.ok()) return moved.error();
    const double seconds = secondsSince(start);
    if (round == 0 || seconds < report.seconds) report.seconds = seconds;
    report.moved = *moved;
  }
  if (options.verify) {
    const Status same = compareAll(**device, *layout);
    if (!same.ok()) return same.error();
    report.isVerified = true;
  }
  return report;
}

Result<MemcpyReport> runMemcpy(const LoadOptions& options) {
  constexpr unsigned kCopies = 256;
  Result<std::shared_ptr<Device>> device = openDevice(options.device);
  if (!device.ok()) return device.error();
  const std::size_t bytes = options.files.sliceBytes;
  const unsigned streams = options.files.lanes == 0 ? 2 : options.files.lanes;
  Result<std::shared_ptr<MemoryRegion>> memory = (*device)->allocate(bytes * streams);
  if (!memory.ok()) return memory.error();
  struct Lane {
    std::unique_ptr<PinnedMemory> pinned;
    std::unique_ptr<CopyStream> stream;
  };
  std::vector<Lane> lanes;
  for (unsigned index = 0; index < streams; ++index) {
    Result<std::unique_ptr<PinnedMemory>> pinned = (*device)->pin(bytes);
    if (!pinned.ok()) return pinned.error();
    Result<std::unique_ptr<CopyStream>> stream = (*device)->stream();
    if (!stream.ok()) return stream.error();
    std::memset((*pinned)->bytes().data(), static_cast<int>(index), bytes);
    lanes.push_back({std::move(*pinned), std::move(*stream)});
  }
  const auto measure = [&](bool toDevice) -> Result<double> {
    const auto start = Clock::now();
    for (unsigned copy = 0; copy < kCopies; ++copy) {
      Lane& lane = lanes[copy % streams];
      const std::uint64_t address = (*memory)->address() + copy % streams * bytes;
      const Status begun = toDevice ? lane.stream->copyIn(address, lane.pinned->bytes())
                                    : lane.stream->copyOut(lane.pinned->bytes(), address);
      if (!begun.ok()) return begun.error();
    }
    for (Lane& lane : lanes) {
      Status done = lane.stream->mark(0);
      if (done.ok()) done = lane.stream->wait(0);
      if (!done.ok()) return done.error();
    }
    return static_cast<double>(bytes) * kCopies / secondsSince(start);
  };
  MemcpyReport report{std::string((*device)->name()), std::string((*device)->model())};
  for (int round = 0; round < 3; ++round) {
    const Result<double> in = measure(true);
    if (!in.ok()) return in.error();
    const Result<double> out = measure(false);
    if (!out.ok()) return out.error();
    report.toDevice = std::max(report.toDevice, *in);
    report.toHost = std::max(report.toHost, *out);
  }
  return report;
}

}  // namespace hearth
