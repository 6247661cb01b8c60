#include "memory_files/charged_file_system.h"

#include <algorithm>

#include "reactor/synchronization.h"

namespace hearth {

class ChargedFileSystem::ChargedFile final : public ForwardingFile {
 public:
  ChargedFile(std::unique_ptr<File> below, const Terms& terms, std::uint64_t size)
      : ForwardingFile(std::move(below)), terms_(terms), turn_(terms.reactor, 1), size_(size) {
    taken_.resize((size + kPieceBytes - 1) / kPieceBytes);
  }

  Task<Status> writeAt(std::span<const std::byte> from, std::uint64_t offset) override {
    for (std::uint64_t piece = offset / kPieceBytes; piece * kPieceBytes < offset + from.size();
         ++piece) {
      if (const Status taken = co_await take(piece); !taken.ok()) co_return taken;
    }
    co_return co_await below_->writeAt(from, offset);
  }
  Task<Status> truncate(std::uint64_t size) override {
    const Status done = co_await below_->truncate(size);
    if (!done.ok()) co_return done;
    size_ = size;
    taken_.resize((size + kPieceBytes - 1) / kPieceBytes);
    co_return Status();
  }

 private:
  // Writes of one piece wait for the first of them to take its room. What lies behind the end, as
  // the log's appends do, costs the writer itself.
  Task<Status> take(std::uint64_t piece) {
    if (piece >= taken_.size() || taken_[piece]) co_return Status();
    co_await turn_.acquire(1);
    Status done;
    if (!taken_[piece]) {
      const std::uint64_t offset = piece * kPieceBytes;
      auto call = [this, offset, bytes = std::min(kPieceBytes, size_ - offset)] {
        return terms_.takeRoom(below_->descriptor(), offset, bytes);
      };
      const Result<std::uint64_t> huge = co_await terms_.reactor.offload(terms_.blocking, call);
      if (huge.ok()) taken_[piece] = true;
      if (!huge.ok()) done = huge.error();
    }
    turn_.release(1);
    co_return done;
  }

  const Terms& terms_;
  Semaphore turn_;
  std::uint64_t size_;
  std::vector<bool> taken_;
};

Task<Result<std::unique_ptr<File>>> ChargedFileSystem::open(std::string path, OpenFlags flags) {
  Result<std::unique_ptr<File>> opened = co_await below_.open(std::move(path), flags);
  if (!opened.ok() || !flags.write || !terms_.takeRoom) co_return opened;
  const Result<FileInfo> info = co_await (*opened)->info();
  if (!info.ok()) co_return info.error();
  std::unique_ptr<File> charged =
      std::make_unique<ChargedFile>(std::move(*opened), terms_, info->size);
  co_return std::move(charged);
}

}  // namespace hearth
