#include "loader/window_reader.h"

#include <algorithm>

#include "loader/parallel_read.h"

namespace hearth {
namespace {

// A thread asks storage for so much at a time; all ranks together keep enough reads under way.
constexpr std::uint64_t kReadBytes = std::uint64_t{2} << 20;

}  // namespace

WindowReader::WindowReader(std::span<const std::shared_ptr<const ModelFile>> files,
                           std::span<const SliceWindow> shares, std::vector<std::byte*> slots,
                           unsigned threads)
    : left_(shares.size()) {
  for (std::size_t window = 0; window < shares.size(); ++window) {
    for (const auto& [range, inWindow] : shares[window]) {
      for (std::uint64_t done = 0; done < range.size; done += kReadBytes) {
        chunks_.push_back({window, files[range.file].get(),
                           slots[window % slots.size()] + inWindow + done, range.offset + done,
                           std::min(kReadBytes, range.size - done)});
        ++left_[window];
      }
    }
  }
  const std::size_t asked = threads == 0 ? kDefaultReaders : std::min(threads, kMaxReaders);
  for (std::size_t i = 0; i < std::min(asked, chunks_.size()); ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

WindowReader::~WindowReader() {
  {
    const std::lock_guard lock(mutex_);
    isEnding_ = true;
  }
  changed_.notify_all();
  threads_.clear();
}

void WindowReader::allow(std::size_t windows) {
  {
    const std::lock_guard lock(mutex_);
    allowed_ = windows;
  }
  changed_.notify_all();
}

Status WindowReader::await(std::size_t window) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return left_[window] == 0 || failure_; });
  return failure_ ? Status(*failure_) : Status();
}

void WindowReader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] {
      return isEnding_ || failure_ || next_ == chunks_.size() || chunks_[next_].window < allowed_;
    });
    if (isEnding_ || failure_ || next_ == chunks_.size()) return;
    const Chunk& chunk = chunks_[next_++];
    lock.unlock();
    const Status read = chunk.file->read(chunk.into, chunk.offset, chunk.size);
    lock.lock();
    if (read.ok()) --left_[chunk.window];
    if (!read.ok() && !failure_) failure_ = read.error();
    if (failure_ || left_[chunk.window] == 0) changed_.notify_all();
  }
}

}  // namespace hearth
