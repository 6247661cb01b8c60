#include "gpu/device_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "gpu/file_cache.h"
#include "gpu/lane_group.h"

namespace hearth {
namespace {

constexpr unsigned kMaxLanes = 64;
constexpr unsigned kDefaultLanes = 16;
constexpr std::size_t kMaxSliceBytes = std::size_t{256} << 20;
constexpr std::size_t kFilesKeptOpen = 64;

unsigned lanesOf(const DeviceFiles::Options& options) {
  if (options.lanes != 0) return options.lanes;
  return std::clamp(std::thread::hardware_concurrency(), 1U, kDefaultLanes);
}

class LaneDeviceFiles final : public DeviceFiles {
 public:
  LaneDeviceFiles(std::shared_ptr<LaneTerms> terms, std::shared_ptr<LaneGroup> lanes)
      : terms_(std::move(terms)), lanes_(std::move(lanes)) {}
  ~LaneDeviceFiles() override { lanes_->stop(); }
  LaneDeviceFiles(const LaneDeviceFiles&) = delete;
  LaneDeviceFiles& operator=(const LaneDeviceFiles&) = delete;

  Result<Transferred> read(std::span<const FilePiece> pieces) override {
    return transfer(FileUse::kRead, pieces);
  }
  Result<Transferred> write(std::span<const FilePiece> pieces) override {
    return transfer(FileUse::kWrite, pieces);
  }

 private:
  Result<Transferred> transfer(FileUse use, std::span<const FilePiece> pieces) {
    Result<std::vector<OpenedPiece>> opened = openAll(use, pieces);
    if (!opened.ok()) return opened.error();
    return lanes_->run(std::make_shared<Transfer>(use, std::move(*opened)));
  }

  Result<std::vector<OpenedPiece>> openAll(FileUse use, std::span<const FilePiece> pieces) {
    std::vector<OpenedPiece> opened;
    opened.reserve(pieces.size());
    std::map<std::string_view, std::pair<std::shared_ptr<OpenedFile>, std::uint64_t>> files;
    std::set<std::uint64_t> checked;  // regions
    for (const FilePiece& piece : pieces) {
      if (piece.memory.size == 0) continue;
      if (const Status sound = check(piece, checked); !sound.ok()) return sound.error();
      auto& [file, size] = files[piece.path];
      if (file == nullptr) {
        Result<std::shared_ptr<OpenedFile>> answer = cache_.open(piece.path, use);
        if (!answer.ok()) return answer.error();
        const Result<std::uint64_t> bytes = (*answer)->size();
        if (!bytes.ok()) return bytes.error();
        file = *answer;
        size = *bytes;
      }
      if (piece.offset > size || piece.memory.size > size - piece.offset) {
        return Error{ErrorCode::kInvalidArgument, piece.path + " has " + std::to_string(size) +
                                                      " bytes, not " +
                                                      std::to_string(piece.memory.size) + " from " +
                                                      std::to_string(piece.offset) + " on"};
      }
      opened.push_back(
          {file, piece.offset, piece.memory, piece.offset + piece.memory.size == size});
    }
    return opened;
  }

  Status check(const FilePiece& piece, std::set<std::uint64_t>& checked) {
    const MemorySlice& memory = piece.memory;
    if (memory.region == nullptr || memory.offset > memory.region->size() ||
        memory.size > memory.region->size() - memory.offset) {
      return Error{ErrorCode::kInvalidArgument,
                   "the memory for " + piece.path + " does not lie in its region"};
    }
    if (!checked.insert(memory.region->number()).second) return {};
    return terms_->device->check(*memory.region);
  }

  const std::shared_ptr<LaneTerms> terms_;
  const std::shared_ptr<LaneGroup> lanes_;
  FileCache cache_{kFilesKeptOpen};
};

}  // namespace

std::string_view transferPathName(TransferPath path) {
  switch (path) {
    case TransferPath::kDirect:
      return "direct";
    case TransferPath::kBounced:
      return "bounced";
    case TransferPath::kHost:
      return "host";
  }
  return "unknown";
}

TransferPath Transferred::path() const {
  if (hostBytes > directBytes && hostBytes > bouncedBytes) return TransferPath::kHost;
  return directBytes > bouncedBytes ? TransferPath::kDirect : TransferPath::kBounced;
}

Result<std::unique_ptr<DeviceFiles>> DeviceFiles::open(std::shared_ptr<Device> device,
                                                       Options options) {
  if (options.lanes > kMaxLanes || options.sliceBytes == 0 || options.sliceBytes > kMaxSliceBytes ||
      options.sliceBytes % kDirectAlignment != 0 || options.stallTimeout.count() <= 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "lanes are at most " + std::to_string(kMaxLanes) +
                     ", slices a multiple of 4096 up to 256 MiB, the stall timeout above 0"};
  }
  auto terms = std::make_shared<LaneTerms>();
  terms->device = std::move(device);
  terms->options = options;
  terms->whyNoDirect = "the direct path is switched off";
  if (options.choice != Choice::kBounced) {
    Result<std::shared_ptr<DirectFiles>> direct = terms->device->directFiles();
    if (direct.ok()) {
      terms->direct = *direct;
    } else if (options.choice == Choice::kDirect) {
      return direct.error();
    } else {
      terms->whyNoDirect = direct.error().message;
    }
  }
  Result<std::shared_ptr<LaneGroup>> lanes = LaneGroup::start(terms, lanesOf(options));
  if (!lanes.ok()) return lanes.error();
  return std::unique_ptr<DeviceFiles>(new LaneDeviceFiles(terms, *lanes));
}

}  // namespace hearth
